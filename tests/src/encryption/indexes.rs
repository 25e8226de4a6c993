//! Indexes over encrypted entities.

use std::sync::Arc;

use table_core::model::{Entity, Key, ValueRef};
use table_core::query::Query;
use table_core::store::{ErrorKind, TableStore};
use table_encryption::BlindIndex;
use table_patterns::index::{
    Entry, Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement, Trust,
};
use table_patterns::journal::Clearing;

use super::{TableViews, key, text};
use crate::Harness;

async fn open(table: &TableViews, index: Index) -> IndexedEntities {
    let store = Arc::clone(&table.store) as Arc<dyn TableStore>;
    let opened = IndexedEntities::open(
        store,
        table.raw.name().clone(),
        vec![index],
        IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
    )
    .await;
    opened.expect("an index")
}

fn person(row: &str, email: &str) -> Entity {
    Entity::from(key("Sales", row))
        .with_encrypted("Email", email)
        .with("City", "Bern")
}

/// A full copy in another row of the partition or in another partition can be decrypted, and has its own
/// ciphertext.
pub(crate) async fn copies_are_encrypted_for_their_rows(harness: &Harness) {
    for placement in [Placement::SamePartition, Placement::OtherPartition] {
        let table = TableViews::new(harness).await;
        let partition = if placement == Placement::SamePartition {
            "Sales"
        } else {
            "Cities"
        };
        let by_city = move |e: &Entity| match e.get("City") {
            Some(ValueRef::String(city)) => {
                Key::new(partition, format!("city_{city}_{}", e.key().row())).map(Some)
            }
            _ => Ok(None),
        };
        let index = Index::new("city", placement, "1", by_city).with_payload(Payload::Full);
        let people = open(&table, index).await;
        people
            .insert(person("1", "ken@contoso.com"))
            .await
            .expect("an insert");
        let query = IndexQuery::partition(partition).prefix("city_Bern_");
        let found = people
            .all("city", &query, Trust::Entry)
            .await
            .expect("a lookup");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].get("Email"), text("ken@contoso.com"));

        let rows = table.raw.all(&Query::new()).await;
        let entry = rows
            .iter()
            .find(|r| Entry::index_of(r).is_some())
            .expect("an entry");
        let entity = table.raw.existing(&key("Sales", "1")).await;
        assert_ne!(entry.get("Email"), entity.get("Email"));
        table.store_raw(entity.with_key(entry.key().clone())).await;
        let error = table
            .store
            .get(table.raw.name(), entry.key(), None)
            .await
            .expect_err("a copy of stored bytes");
        assert!(matches!(error.kind(), ErrorKind::Encryption(_)), "{error}");
    }
}

fn blind() -> BlindIndex {
    BlindIndex::new("email", &vec![7; 32].into()).expect("32 bytes")
}

/// An entry key with the whole token: a lookup by value finds the entity, a second entity with the value is
/// refused, and no row contains the value.
pub(crate) async fn unique_blind_indexes_find_by_value(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let by_email = |e: &Entity| {
        e.get("Email")
            .map(|email| blind().unique_key("Sales", email))
            .transpose()
    };
    let people = open(
        &table,
        Index::new("email", Placement::SamePartition, "1", by_email).unique_within_partition(),
    )
    .await;
    people
        .insert(person("1", "ken@contoso.com"))
        .await
        .expect("an insert");
    people
        .insert(person("2", "rob@contoso.com"))
        .await
        .expect("an insert");
    let taken = people
        .insert(person("3", "ken@contoso.com"))
        .await
        .expect_err("the value is taken");
    assert!(taken.is_unique_violation(), "{taken}");
    assert!(!taken.to_string().contains("contoso"), "{taken}");
    for (email, row) in [
        ("ken@contoso.com", Some("1")),
        ("rob@contoso.com", Some("2")),
        ("joe@contoso.com", None),
    ] {
        let wanted = ValueRef::String(email);
        let at = blind().unique_key("Sales", wanted).expect("a whole token");
        let found = people
            .find("email", &at, Trust::Entity)
            .await
            .expect("a lookup");
        assert_eq!(found.as_ref().map(|e| e.key().row()), row);
        assert!(found.is_none_or(|e| blind().has_value(&e, "Email", wanted)));
    }
    for row in table.raw.all(&Query::new()).await {
        assert!(!format!("{row:?}").contains("contoso"), "{row:?}");
    }
}

/// Tokens of 4 bits: a lookup reads entities with an equal token and leaves out those with another value.
pub(crate) async fn truncated_blind_indexes_check_again(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let short = || blind().with_token_bits(4).expect("4 bits");
    let by_email = move |e: &Entity| match e.get("Email") {
        Some(email) => Key::new(
            "Sales",
            format!("{}{}", short().prefix(email), e.key().row()),
        )
        .map(Some),
        None => Ok(None),
    };
    let people = open(
        &table,
        Index::new("email", Placement::SamePartition, "1", by_email),
    )
    .await;
    for n in 0..40 {
        people
            .insert(person(&n.to_string(), &format!("{n}@contoso.com")))
            .await
            .expect("an insert");
    }
    let (mut read, mut returned) = (0, 0);
    for n in 0..40 {
        let email = format!("{n}@contoso.com");
        let wanted = ValueRef::String(&email);
        let entries = IndexQuery::partition("Sales").prefix(&short().prefix(wanted));
        let candidates = people
            .all("email", &entries, Trust::Entity)
            .await
            .expect("a lookup");
        let found: Vec<_> = candidates
            .iter()
            .filter(|e| short().has_value(e, "Email", wanted))
            .collect();
        assert_eq!(
            found.iter().map(|e| e.key().row()).collect::<Vec<_>>(),
            [n.to_string()]
        );
        read += candidates.len();
        returned += found.len();
    }
    assert_eq!(returned, 40, "{read}");
    assert!(read > 80, "{read}");
}
