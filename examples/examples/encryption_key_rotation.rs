//! Another key-encryption key: data keys are wrapped again, nothing is encrypted again.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore};
use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, KeyWrap, Keys};

#[tokio::main]
async fn main() -> table_core::Result<()> {
    let raw = Arc::new(MemoryStore::new());
    let people = TableName::new("People")?;
    let key = |id: &str| Ok::<_, table_core::Error>(Arc::new(AesKeyWrap::new(id, &KeyBytes::random(32)?)?));
    let (old, new): (Arc<dyn KeyWrap>, Arc<dyn KeyWrap>) = (key("kek-2026")?, key("kek-2027")?);

    let before = EncryptedStore::new(Arc::clone(&raw), Keys::new(Arc::clone(&old)))?;
    before.create_table(&people).await?;
    for n in 0..100 {
        let person = Entity::new("Sales", n.to_string())?.with_encrypted("NationalId", n);
        before.write(&people, Operation::Insert(person)).await?;
    }

    // 1. Everywhere: write with the new key, read with both.
    let both = EncryptedStore::new(Arc::clone(&raw), Keys::new(Arc::clone(&new)).with_key(old))?;

    // 2. Page by page, while others write; the cursor could be kept and the rest be done tomorrow.
    let mut rotation = both.rotation(&people).with_page_size(30);
    assert!(rotation.step().await?);
    let cursor = rotation.cursor().expect("three more pages").to_string();
    let rest = both.rotation(&people).resumed_at(cursor.parse()?).run().await?;
    assert_eq!(rotation.progress().changed + rest.changed, 100);

    // 3. The old key is not needed any more.
    let after = EncryptedStore::new(raw, Keys::new(new))?;
    for n in 0..100 {
        let key = table_core::model::Key::new("Sales", n.to_string())?;
        let person = after.get(&people, &key, None).await?.expect("a person");
        assert_eq!(person.get("NationalId"), Some(table_core::model::ValueRef::Int32(n)));
    }
    Ok(())
}
