//! Merge: changes some properties of an existing entity, under a version condition.

use table_core::model::{ETag, IfMatch};
use table_core::store::{ErrorKind, Operation};

use super::Harness;
use super::table::{assert_same, entity, key, refused};

/// Named properties are overwritten or added, whatever their former type. All other properties stay.
pub(crate) async fn keeps_properties_that_are_not_named(h: &Harness) {
    let table = h.table().await;
    let old = table
        .insert(entity("p", "r").with("A", 1).with("B", 2).with("C", 3))
        .await;
    let patch = entity("p", "r").with("B", "text").with("D", 4i64);
    let etag = table.put(Operation::Merge(patch, old.clone().into())).await;
    let read = table.existing(&key("p", "r")).await;
    let merged = entity("p", "r")
        .with("A", 1)
        .with("B", "text")
        .with("C", 3)
        .with("D", 4i64);
    assert_same(read.properties(), merged.properties());
    assert_eq!(read.etag(), Some(&etag));
    assert_ne!(etag, old);
}

/// A merge without properties changes no property and makes a new ETag (*assumed* from "a successful operation
/// updates the ETag": <https://learn.microsoft.com/rest/api/storageservices/merge-entity>).
pub(crate) async fn without_properties_makes_a_new_etag(h: &Harness) {
    let table = h.table().await;
    let old = table.insert(entity("p", "r").with("A", 1)).await;
    let etag = table
        .put(Operation::Merge(entity("p", "r"), (&old).into()))
        .await;
    assert_ne!(etag, old);
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("A", 1).properties(),
    );
    assert_eq!(read.etag(), Some(&etag));
}

/// A merge with an outdated version is refused and changes nothing.
pub(crate) async fn refuses_an_outdated_version(h: &Harness) {
    let table = h.table().await;
    let stale = table.insert(entity("p", "r").with("A", 1)).await;
    let fresh = table
        .put(Operation::Merge(
            entity("p", "r").with("B", 2),
            (&stale).into(),
        ))
        .await;
    for wrong in [
        stale,
        ETag::from("W/\"datetime'2000-01-01T00%3A00%3A00.0000000Z'\""),
    ] {
        let error = refused(
            table
                .write(Operation::Merge(
                    entity("p", "r").with("C", 3),
                    wrong.into(),
                ))
                .await,
        );
        assert!(
            matches!(error.kind(), ErrorKind::PreconditionFailed { .. }),
            "{error}"
        );
    }
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("A", 1).with("B", 2).properties(),
    );
    assert_eq!(read.etag(), Some(&fresh));
}

/// A merge of any version changes the entity.
pub(crate) async fn merges_into_any_version_on_request(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r").with("A", 1)).await;
    table
        .put(Operation::Merge(
            entity("p", "r").with("B", 2),
            IfMatch::Any,
        ))
        .await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("A", 1).with("B", 2).properties(),
    );
}

/// A merge never creates a missing entity, whatever its condition.
pub(crate) async fn refuses_a_missing_entity(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "other")).await;
    for condition in [IfMatch::Any, etag.into()] {
        let error = refused(
            table
                .write(Operation::Merge(entity("p", "r").with("A", 1), condition))
                .await,
        );
        assert!(error.is_entity_not_found(), "{error}");
        assert!(table.get(&key("p", "r")).await.is_none());
    }
}
