//! Changes the key-encryption key: the data keys of rows are wrapped again, and blobs are rewritten.

use std::sync::Arc;

use object_store::memory::InMemory;
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::{Operation, TableStore};
use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, KeyWrap, Keys};
use table_patterns::large::{LargeOptions, LargeTable};

#[derive(Debug, PartialEq, TableEntity)]
struct Letter {
    #[partition_key]
    sender: String,
    #[row_key]
    number: u32,
    #[encrypt]
    #[large(over = 100)]
    body: String,
}

/// Letters with long bodies in blobs, encrypted with the keys of a store.
fn letters(
    store: &Arc<EncryptedStore<Arc<MemoryStore>>>,
    blobs: &Arc<InMemory>,
) -> table_core::Result<LargeTable<Letter>> {
    let options = LargeOptions::default().with_codec(Arc::new(store.blob_cipher()));
    LargeTable::new_with(store.clone(), "Letters", blobs.clone(), options)
}

#[tokio::main]
async fn main() -> table_core::Result<()> {
    let raw = Arc::new(MemoryStore::new());
    let people = TableName::new("People")?;
    let key = |id: &str| Ok::<_, table_core::Error>(Arc::new(AesKeyWrap::new(id, &KeyBytes::random(32)?)?));
    let (old, new): (Arc<dyn KeyWrap>, Arc<dyn KeyWrap>) = (key("kek-2026")?, key("kek-2027")?);

    let before = Arc::new(EncryptedStore::new(Arc::clone(&raw), Keys::new(Arc::clone(&old)))?);
    before.create_table(&people).await?;
    for n in 0..100 {
        let person = Entity::new("Sales", n.to_string())?.with_encrypted("NationalId", n);
        before.write(&people, Operation::Insert(person)).await?;
    }
    let blobs = Arc::new(InMemory::new());
    letters(&before, &blobs)?.create_if_missing().await?;
    let letter = Letter { sender: "Ken".into(), number: 1, body: "a long letter ".repeat(100) };
    letters(&before, &blobs)?.insert(&letter).await?;

    // 1. In every program: write with the new key, read with both.
    let both = Arc::new(EncryptedStore::new(Arc::clone(&raw), Keys::new(Arc::clone(&new)).with_key(old))?);

    // 2. Page by page, while others write. The cursor could be stored to continue later.
    let mut rotation = both.rotation(&people).with_page_size(30);
    assert!(rotation.step().await?);
    let cursor = rotation.cursor().expect("three more pages").to_string();
    let rest = both.rotation(&people).resumed_at(cursor.parse()?).run().await?;
    assert_eq!(rotation.progress().changed + rest.changed, 100);
    both.rotation(&"Letters".parse()?).run().await?;

    // 3. The blobs, which have their own data keys. Then check which keys rows and blobs use.
    assert_eq!(letters(&both, &blobs)?.rewrite().run().await?.rewritten, 1);
    let mut count = letters(&both, &blobs)?.rewrite().counting();
    let found = count.run().await?;
    assert!(found.unreadable.is_empty() && found.keys.keys().all(|id| id == "kek-2027"));
    let rows = both.rotation(&people).counting().run().await?;
    assert_eq!(rows.keys.get("kek-2027"), Some(&100));
    assert_eq!(rows.keys.len(), 1);
    assert_eq!(rows.skipped, 0);

    // 4. The old key is no longer needed.
    let after = Arc::new(EncryptedStore::new(raw, Keys::new(new))?);
    for n in 0..100 {
        let key = Key::new("Sales", n.to_string())?;
        let person = after.get(&people, &key, None).await?.expect("a person");
        assert_eq!(person.get("NationalId"), Some(ValueRef::Int32(n)));
    }
    assert_eq!(letters(&after, &blobs)?.get_existing(Letter::key("Ken", 1_u32)?).await?, letter);
    Ok(())
}
