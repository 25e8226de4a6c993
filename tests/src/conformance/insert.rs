//! Insert: adds an entity, and refuses an existing entity.

use table_core::model::{ETag, Entity, Ticks};
use table_core::store::{ErrorKind, Operation};

use super::Harness;
use super::table::{assert_same, entity, key, refused};

/// A get returns the inserted entity with an ETag and a time.
pub(crate) async fn stores_the_entity(h: &Harness) {
    let table = h.table().await;
    let sent = entity("Sales", "1")
        .with("FirstName", "Ken")
        .with("Age", 41);
    let etag = table.insert(sent.clone()).await;
    let read = table.existing(sent.key()).await;
    assert_eq!(read.key(), sent.key());
    assert_same(read.properties(), sent.properties());
    assert_eq!(read.etag(), Some(&etag));
    assert!(read.timestamp().is_some());
}

/// An entity can consist of its key alone.
pub(crate) async fn stores_an_entity_without_properties(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r")).await;
    assert!(table.existing(&key("p", "r")).await.properties().is_empty());
}

/// An insert of an existing entity is refused and changes neither the entity nor its ETag.
pub(crate) async fn refuses_an_existing_entity(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "r").with("A", 1)).await;
    let error = refused(
        table
            .write(Operation::Insert(entity("p", "r").with("A", 2)))
            .await,
    );
    assert!(
        matches!(error.kind(), ErrorKind::EntityAlreadyExists { .. }),
        "{error}"
    );
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("A", 1).properties(),
    );
    assert_eq!(read.etag(), Some(&etag));
}

/// The store sets ETag and time, and ignores those of the sent entity.
pub(crate) async fn ignores_the_etag_and_time_of_the_sent_entity(h: &Harness) {
    let table = h.table().await;
    let forged = ETag::from("W/\"forged\"");
    let sent = entity("p", "r").with_system(Some(forged.clone()), Some(Ticks::MAX));
    assert_ne!(table.insert(sent).await, forged);
    let read = table.existing(&key("p", "r")).await;
    assert_ne!(read.etag(), Some(&forged));
    assert_ne!(read.timestamp(), Some(Ticks::MAX));
}

/// Equal row keys in two partitions, and equal keys in two tables, are different entities.
pub(crate) async fn separates_partitions_and_tables(h: &Harness) {
    let (one, two) = (h.table().await, h.table().await);
    for (table, partition, value) in [(&one, "p", 1), (&one, "q", 2), (&two, "p", 3)] {
        table.insert(entity(partition, "r").with("A", value)).await;
    }
    for (table, partition, value) in [(&one, "p", 1), (&one, "q", 2), (&two, "p", 3)] {
        let read: Entity = table.existing(&key(partition, "r")).await;
        assert_same(
            read.properties(),
            entity("p", "r").with("A", value).properties(),
        );
    }
}

/// Keys are case-sensitive; only table names can be case-insensitive.
pub(crate) async fn keys_are_case_sensitive(h: &Harness) {
    let table = h.table().await;
    for (partition, row) in [("p", "r"), ("P", "r"), ("p", "R")] {
        table.insert(entity(partition, row).with("Row", row)).await;
    }
    let found = table.keys(&table_core::query::Query::new()).await;
    assert_eq!(found.len(), 3, "{found:?}");
}

/// An entity can be inserted again after its deletion.
pub(crate) async fn succeeds_after_a_delete(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "r").with("A", 1)).await;
    table
        .write(Operation::Delete(key("p", "r"), etag.into()))
        .await
        .expect("a delete");
    table.insert(entity("p", "r").with("B", 2)).await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("B", 2).properties(),
    );
}
