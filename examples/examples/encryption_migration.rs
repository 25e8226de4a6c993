//! Encrypts existing plaintext, and values in the legacy format of the libraries `WindowsAzure.Storage` and `azure-storage-java`, while
//! programs go on writing.
//!
//! Cost: 1 request per page, 1 per entity that is encrypted, and 2 more per conflict with another writer.

use std::sync::Arc;

use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, KeyWrap, Keys, LegacyV1};
use table_patterns::prelude::*;

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
    // For this example only: this key is gone when the program ends, and with it every encrypted value. A program reads its key from a
    // secret store or uses a key vault (see `key_vault`).
    let key = |id: &str| {
        Ok::<_, table_core::Error>(Arc::new(AesKeyWrap::new(id, &KeyBytes::random(32)?)?))
    };
    let (kek, old): (Arc<dyn KeyWrap>, Arc<dyn KeyWrap>) = (key("kek-2026")?, key("local:key1")?);

    // Fifty rows from before the field was marked, and one that a legacy program wrote.
    for n in 1..=50_u32 {
        let row = Employee::key("Sales", n)?;
        let plain = Entity::from(Key::from(row)).with("NationalId", format!("id{n}"));
        raw.write(&table, Operation::Insert(plain)).await?;
    }
    write_as_the_legacy_libraries(&raw, &table, &old, 51).await?;

    // 1. In every program: write encrypted, and accept unencrypted entities, which are refused otherwise.
    let migrating = Arc::new(migrating_store(&raw, &table, &kek, &old)?);
    let employees = Database::new(Arc::clone(&migrating)).table::<Employee>(table.clone())?;
    assert_eq!(employees.query().all().await?.len(), 51);
    // A store without these settings refuses the unencrypted entities.
    let strict =
        Database::new(strict_store(&raw, &table, &kek)?).table::<Employee>(table.clone())?;
    assert!(strict.query().all().await.is_err());

    // 2. Run the migration, while writers continue. It can be stopped and resumed, like a rotation.
    let done = migrating.migration(&table).run().await?;
    assert_eq!(done.read, 51);
    assert_eq!(done.changed, 51);
    assert_eq!(done.skipped, 0);

    // 3. Deploy the strict settings: plaintext and the legacy format are refused.
    assert_eq!(strict.query().all().await?.len(), 51);
    Ok(())
}

/// Opens a store that encrypts the type, and accepts plaintext and the legacy format. The legacy format has no integrity protection
/// (CVE-2022-30187): remove `with_legacy_v1` and `accept_plaintext` after the migration.
fn migrating_store(
    raw: &Memory,
    table: &TableName,
    kek: &Arc<dyn KeyWrap>,
    old: &Arc<dyn KeyWrap>,
) -> table_core::Result<EncryptedStore<Memory>> {
    let legacy = LegacyV1::new(Keys::new(Arc::clone(old))).read(table);
    EncryptedStore::builder(Arc::clone(raw), Keys::new(Arc::clone(kek)))
        .encrypt_type::<Employee>(table)
        .accept_plaintext(table)
        .with_legacy_v1(legacy)
        .build()
}

/// Opens a store that encrypts the type, and refuses unencrypted entities.
fn strict_store(
    raw: &Memory,
    table: &TableName,
    kek: &Arc<dyn KeyWrap>,
) -> table_core::Result<EncryptedStore<Memory>> {
    EncryptedStore::builder(Arc::clone(raw), Keys::new(Arc::clone(kek)))
        .encrypt_type::<Employee>(table)
        .require_encryption(table)
        .build()
}

/// Writes test data. Programs never write the legacy format.
async fn write_as_the_legacy_libraries(
    raw: &Memory,
    table: &TableName,
    key: &Arc<dyn KeyWrap>,
    id: u32,
) -> table_core::Result<()> {
    let unused = AesKeyWrap::new("unused", &KeyBytes::random(32)?)?;
    let legacy =
        LegacyV1::new(Keys::new(Arc::clone(key))).write_insecurely_for_interoperability(table);
    let store = EncryptedStore::builder(Arc::clone(raw), Keys::new(Arc::new(unused)));
    let old =
        Database::new(store.with_legacy_v1(legacy).build()?).table::<Employee>(table.clone())?;
    old.insert(&Employee {
        department: "Sales".to_owned(),
        id,
        national_id: format!("id{id}"),
    })
    .await
    .map(drop)
}
