//! Migrates plaintext and the format of the first storage libraries to encrypted properties, online.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::{Operation, TableStore};
use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, KeyWrap, Keys, LegacyV1};

#[derive(Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[encrypt]
    national_id: String,
}

type Memory = Arc<MemoryStore>;

#[tokio::main]
async fn main() -> table_core::Result<()> {
    let raw = Arc::new(MemoryStore::new());
    let table = TableName::new("Employees")?;
    raw.create_table(&table).await?;
    let key = |id: &str| Ok::<_, table_core::Error>(Arc::new(AesKeyWrap::new(id, &KeyBytes::random(32)?)?));
    let (kek, old): (Arc<dyn KeyWrap>, Arc<dyn KeyWrap>) = (key("kek-2026")?, key("local:key1")?);

    // Fifty rows from before the field was marked, and one that a legacy program wrote.
    for n in 1..=50_u32 {
        let row = Employee::key("Sales", n)?;
        let plain = Entity::from(Key::from(row)).with("NationalId", format!("id{n}"));
        raw.write(&table, Operation::Insert(plain)).await?;
    }
    write_as_the_legacy_libraries(&raw, &table, &old, 51).await?;

    // 1. In every program: write encrypted, and accept unencrypted rows, which are refused otherwise.
    let build = |migrating: bool| -> table_core::Result<EncryptedStore<Memory>> {
        let builder = EncryptedStore::builder(Arc::clone(&raw), Keys::new(Arc::clone(&kek)));
        let builder = builder.encrypt_type::<Employee>(&table);
        if !migrating {
            return builder.require_encryption(&table).build();
        }
        let legacy = LegacyV1::new(Keys::new(Arc::clone(&old))).read(&table);
        builder.accept_plaintext(&table).with_legacy_v1(legacy).build()
    };
    let migrating = Arc::new(build(true)?);
    let employees = Table::<Employee>::new(Arc::clone(&migrating), table.clone())?;
    assert_eq!(employees.query().all().await?.len(), 51);
    let strict = Table::<Employee>::new(build(false)?, table.clone())?;
    assert!(strict.query().all().await.is_err());

    // 2. The sweep, while writers continue. It can be stopped and resumed, like a rotation.
    let done = migrating.migration(&table).run().await?;
    assert_eq!(done.read, 51);
    assert_eq!(done.changed, 51);
    assert_eq!(done.skipped, 0);

    // 3. From now on, accept encrypted rows only.
    assert_eq!(strict.query().all().await?.len(), 51);
    Ok(())
}

async fn write_as_the_legacy_libraries(
    raw: &Memory,
    table: &TableName,
    key: &Arc<dyn KeyWrap>,
    id: u32,
) -> table_core::Result<()> {
    let unused = AesKeyWrap::new("unused", &KeyBytes::random(32)?)?;
    let legacy = LegacyV1::new(Keys::new(Arc::clone(key))).write_insecurely_for_interoperability(table);
    let store = EncryptedStore::builder(Arc::clone(raw), Keys::new(Arc::new(unused)));
    let old = Table::<Employee>::new(store.with_legacy_v1(legacy).build()?, table.clone())?;
    old.insert(&Employee { department: "Sales".into(), id, national_id: format!("id{id}") }).await.map(drop)
}
