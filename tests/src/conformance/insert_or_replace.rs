//! InsertOrReplace: inserts the entity, or replaces the existing entity.

use table_core::model::ETag;
use table_core::store::Operation;

use super::Harness;
use super::table::{assert_same, entity, key};

/// A missing entity is inserted.
pub(crate) async fn inserts_a_missing_entity(h: &Harness) {
    let table = h.table().await;
    let sent = entity("p", "r").with("A", 1);
    let etag = table.put(Operation::InsertOrReplace(sent.clone())).await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(read.properties(), sent.properties());
    assert_eq!(read.etag(), Some(&etag));
}

/// An existing entity loses every property that the request does not name.
pub(crate) async fn replaces_an_existing_entity(h: &Harness) {
    let table = h.table().await;
    let old = table
        .insert(entity("p", "r").with("A", 1).with("B", 2))
        .await;
    let sent = entity("p", "r").with("B", "text");
    let etag = table.put(Operation::InsertOrReplace(sent.clone())).await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(read.properties(), sent.properties());
    assert_eq!(read.etag(), Some(&etag));
    assert_ne!(etag, old);
}

/// The request has no condition: the ETag of the sent entity is ignored.
pub(crate) async fn ignores_the_etag_of_the_sent_entity(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r").with("A", 1)).await;
    let sent = entity("p", "r")
        .with("A", 2)
        .with_system(Some(ETag::from("W/\"stale\"")), None);
    table.put(Operation::InsertOrReplace(sent)).await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("A", 2).properties(),
    );
}
