//! Finds an entity by an encrypted value, with a keyed hash in the key of an index entry.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{TableStore, TableStoreExt};
use table_encryption::{AesKeyWrap, BlindIndex, EncryptedStore, KeyBytes, Keys};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Trust};

#[tokio::main]
async fn main() -> table_core::Result<()> {
    let raw = Arc::new(MemoryStore::new());
    let kek = AesKeyWrap::new("kek-2026", &KeyBytes::random(32)?)?;
    let store = Arc::new(EncryptedStore::new(Arc::clone(&raw), Keys::new(Arc::new(kek)))?);
    let people = TableName::new("People")?;
    store.create_table(&people).await?;

    // The index has its own key. Store it with the key-encryption key.
    let blind = BlindIndex::new("email", &KeyBytes::random(32)?)?;
    let of_entity = blind.clone();
    let by_email = Index::new("email", Placement::SamePartition, "1", move |person: &Entity| {
        person.get("Email").map(|email| of_entity.unique_key("Sales", email)).transpose()
    });
    let by_email = by_email.unique_within_partition();
    let indexed =
        IndexedEntities::open(store, people.clone(), vec![by_email], IndexOptions::default()).await?;

    let person = |row: &str, email: &str| {
        Ok::<_, table_core::Error>(Entity::new("Sales", row)?.with_encrypted("Email", email))
    };
    indexed.insert(person("1", "ken@contoso.com")?).await?;
    indexed.insert(person("2", "rob@contoso.com")?).await?;
    assert!(indexed.insert(person("3", "ken@contoso.com")?).await.unwrap_err().is_unique_violation());

    // The token of the wanted value finds the entry, and the entry finds the entity. The decrypted value
    // decides.
    let wanted = ValueRef::String("ken@contoso.com");
    let entry = blind.unique_key("Sales", wanted)?;
    let found = indexed.find("email", &entry, Trust::Entity).await?.expect("Ken");
    assert!(blind.has_value(&found, "Email", wanted) && found.key().row() == "1");

    // The stored table shows no address.
    let stored = raw.query_all(&people, &Query::new()).await?;
    assert!(stored.len() > 3 && !format!("{stored:?}").contains("contoso"));
    indexed.flush().await;
    Ok(())
}
