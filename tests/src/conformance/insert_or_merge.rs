//! InsertOrMerge: inserts the entity, or merges into the existing entity.

use table_core::model::ETag;
use table_core::store::Operation;

use super::Harness;
use super::table::{assert_same, entity, key};

/// A missing entity is inserted.
pub(crate) async fn inserts_a_missing_entity(h: &Harness) {
    let table = h.table().await;
    let sent = entity("p", "r").with("A", 1);
    let etag = table.put(Operation::InsertOrMerge(sent.clone())).await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(read.properties(), sent.properties());
    assert_eq!(read.etag(), Some(&etag));
}

/// An existing entity keeps every property that the request does not name.
pub(crate) async fn merges_into_an_existing_entity(h: &Harness) {
    let table = h.table().await;
    let old = table
        .insert(entity("p", "r").with("A", 1).with("B", 2))
        .await;
    let etag = table
        .put(Operation::InsertOrMerge(
            entity("p", "r").with("B", "text").with("C", 3),
        ))
        .await;
    let read = table.existing(&key("p", "r")).await;
    let merged = entity("p", "r").with("A", 1).with("B", "text").with("C", 3);
    assert_same(read.properties(), merged.properties());
    assert_eq!(read.etag(), Some(&etag));
    assert_ne!(etag, old);
}

/// The request has no condition: the ETag of the sent entity is ignored.
pub(crate) async fn ignores_the_etag_of_the_sent_entity(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r").with("A", 1)).await;
    let sent = entity("p", "r")
        .with("B", 2)
        .with_system(Some(ETag::from("W/\"stale\"")), None);
    table.put(Operation::InsertOrMerge(sent)).await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("A", 1).with("B", 2).properties(),
    );
}
