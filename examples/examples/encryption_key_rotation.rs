//! Changes the key-encryption key while programs write: the data keys of rows are wrapped again, and blobs are rewritten.
//!
//! Cost: 1 request per page, 1 per row whose key changes, and 2 more per conflict with another writer.

use std::sync::Arc;

use object_store::memory::InMemory;
use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, KeyWrap, Keys};
use table_patterns::large::LargeOptions;
use table_patterns::prelude::*;

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

/// Opens the letters. Bodies over 100 bytes are in blobs, which the blob cipher of the store encrypts.
fn letters(
    store: &Arc<EncryptedStore<Arc<MemoryStore>>>,
    blobs: &Arc<InMemory>,
) -> table_core::Result<Table<Letter>> {
    let options = LargeOptions::default().with_codec(Arc::new(store.blob_cipher()));
    let db = Database::new(store.clone()).with_blobs(blobs.clone());
    db.with_large(options).table("Letters")
}

#[tokio::main]
async fn main() -> table_core::Result<()> {
    let raw = Arc::new(MemoryStore::new());
    let (people, letters_table) = (TableName::new("People")?, TableName::new("Letters")?);
    // For this example only: this key is gone when the program ends, and with it every encrypted value. A program reads its key from a
    // secret store or uses a key vault (see `key_vault`).
    let key = |id: &str| {
        Ok::<_, table_core::Error>(Arc::new(AesKeyWrap::new(id, &KeyBytes::random(32)?)?))
    };
    let (old, new): (Arc<dyn KeyWrap>, Arc<dyn KeyWrap>) = (key("kek-2026")?, key("kek-2027")?);

    let before = Arc::new(EncryptedStore::new(
        Arc::clone(&raw),
        Keys::new(Arc::clone(&old)),
    )?);
    before.create_table(&people).await?;
    for n in 0..100 {
        let person = Entity::new("Sales", format!("{n:06}"))?.with_encrypted("NationalId", n);
        before.write(&people, Operation::Insert(person)).await?;
    }
    let blobs = Arc::new(InMemory::new());
    letters(&before, &blobs)?.declare().await?;
    let letter = Letter {
        sender: "Ken".to_owned(),
        number: 1,
        body: "a long letter ".repeat(100),
    };
    letters(&before, &blobs)?.insert(&letter).await?;

    // 1. In every program: write with the new key, read with both.
    let both = Arc::new(EncryptedStore::new(
        Arc::clone(&raw),
        Keys::new(Arc::clone(&new)).with_key(old),
    )?);

    // 2. Rotate each table, while programs write: `step` wraps the data keys of one page again and returns whether there is more; a saved
    // cursor continues after a restart.
    let mut rotation = both.rotation(&people).with_page_size(30);
    assert!(rotation.step().await?);
    let cursor = rotation.cursor().expect("three more pages").to_string();
    let rest = both
        .rotation(&people)
        .resumed_at(cursor.parse()?)
        .run()
        .await?;
    assert_eq!(rotation.progress().changed + rest.changed, 100);
    // The rows of the letters have data keys too.
    both.rotation(&letters_table).run().await?;

    // 3. Rewrite the blobs, which have their own data keys. Then check **every** table and its blobs: all data keys are wrapped by the new
    // key, and nothing was skipped or is unreadable.
    assert_eq!(
        letters(&both, &blobs)?
            .rewrite_blobs()
            .run()
            .await?
            .rewritten,
        1
    );
    let mut count = letters(&both, &blobs)?.rewrite_blobs().counting();
    let found = count.run().await?;
    assert!(found.unreadable.is_empty());
    assert!(found.keys.keys().all(|id| id == "kek-2027"));
    for table in [&people, &letters_table] {
        let rows = both.rotation(table).counting().run().await?;
        assert!(
            rows.keys.keys().all(|id| id == "kek-2027"),
            "{table}: {rows:?}"
        );
        assert_eq!(rows.skipped, 0, "{table}");
    }

    // 4. The old key is no longer needed.
    let after = Arc::new(EncryptedStore::new(raw, Keys::new(new))?);
    for n in 0..100 {
        let key = Key::new("Sales", format!("{n:06}"))?;
        let person = after.get(&people, &key, None).await?.expect("a person");
        assert_eq!(person.get("NationalId"), Some(ValueRef::Int32(n)));
    }
    assert_eq!(
        letters(&after, &blobs)?
            .get_existing(Letter::key("Ken", 1)?)
            .await?,
        letter
    );
    Ok(())
}
