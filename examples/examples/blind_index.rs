//! Finds an entity by an encrypted value, with a keyed hash in the key of an index entry. The index reveals which entities have equal
//! values, and nothing else.
//!
//! Cost: a lookup 2 requests.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_encryption::{AesKeyWrap, BlindIndex, EncryptedStore, KeyBytes, Keys};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Trust};
use table_patterns::prelude::*;

#[tokio::main]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let raw = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    // For this example only: this key is gone when the program ends, and with it every encrypted value. A program reads its key from a
    // secret store or uses a key vault (see `key_vault`).
    let kek = AesKeyWrap::new("kek-2026", &KeyBytes::random(32)?)?;
    let store = Arc::new(EncryptedStore::new(
        Arc::clone(&raw),
        Keys::new(Arc::new(kek)),
    )?);
    let people = TableName::new("People")?;
    store.create_table(&people).await?;

    // The index has its own secret key. Keep it in the same secret store: without it the index must be built again.
    let blind = BlindIndex::new("email", &KeyBytes::random(32)?)?;
    // A template cannot compute the keyed hash, so a Rust function derives the keys, and the index is *opaque*: only programs with this
    // function and the index key can write the entities, and Upkeep cannot maintain it. "1" is the version of the function: change it when
    // the function changes.
    let of_entity = blind.clone();
    let by_email = Index::new(
        "email",
        Placement::SamePartition,
        "1",
        move |person: &Entity| {
            person
                .get("Email")
                .map(|email| of_entity.unique_key("Sales", email))
                .transpose()
        },
    );
    let by_email = by_email.unique_within_partition();
    let indexed = IndexedEntities::open(
        store,
        people.clone(),
        vec![by_email],
        IndexOptions::default(),
    )
    .await?;

    let person = |row: &str, email: &str| {
        Ok::<_, table_core::Error>(Entity::new("Sales", row)?.with_encrypted("Email", email))
    };
    indexed.insert(person("1", "ken@contoso.com")?).await?;
    indexed.insert(person("2", "rob@contoso.com")?).await?;
    assert!(
        indexed
            .insert(person("3", "ken@contoso.com")?)
            .await
            .unwrap_err()
            .is_unique_violation()
    );

    // The token (keyed hash) of the address is the key of the entry; the entry refers to the entity. `has_value` compares the decrypted
    // value, because equal tokens are no proof.
    let wanted = ValueRef::String("ken@contoso.com");
    let entry = blind.unique_key("Sales", wanted)?;
    let (found, cost) = meter
        .measure(indexed.find("email", &entry, Trust::Entity))
        .await;
    let found = found?.expect("Ken");
    assert_eq!(cost.total(), 2);
    assert!(blind.has_value(&found, "Email", wanted));
    assert_eq!(found.key().row(), "1");

    // The stored table shows no address.
    let stored = raw.query_all(&people, &Query::new()).await?;
    assert!(
        stored.len() > 3,
        "two people, two entries, and the manifest"
    );
    assert!(!format!("{stored:?}").contains("contoso"));
    Ok(())
}
