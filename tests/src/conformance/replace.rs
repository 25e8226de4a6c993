//! Replace: replaces all properties of an existing entity, under a version condition.

use table_core::model::{ETag, IfMatch};
use table_core::store::{ErrorKind, Operation};

use super::Harness;
use super::table::{assert_same, entity, key, refused};

/// The new properties replace all old properties.
pub(crate) async fn removes_properties_that_are_not_named(h: &Harness) {
    let table = h.table().await;
    let old = table
        .insert(entity("p", "r").with("A", 1).with("B", 2))
        .await;
    let new = entity("p", "r").with("B", "another type").with("C", 3);
    let etag = table
        .put(Operation::Replace(new.clone(), old.clone().into()))
        .await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(read.properties(), new.properties());
    assert_eq!(read.etag(), Some(&etag));
    assert_ne!(etag, old);
}

/// A replace with an outdated version is refused and changes nothing.
pub(crate) async fn refuses_an_outdated_version(h: &Harness) {
    let table = h.table().await;
    let stale = table.insert(entity("p", "r").with("A", 1)).await;
    let fresh = table
        .put(Operation::Replace(
            entity("p", "r").with("A", 2),
            (&stale).into(),
        ))
        .await;
    for wrong in [
        stale,
        ETag::from("W/\"datetime'2000-01-01T00%3A00%3A00.0000000Z'\""),
    ] {
        let attempt = Operation::Replace(entity("p", "r").with("A", 3), wrong.into());
        let error = refused(table.write(attempt).await);
        assert!(
            matches!(error.kind(), ErrorKind::PreconditionFailed { .. }),
            "{error}"
        );
    }
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("A", 2).properties(),
    );
    assert_eq!(read.etag(), Some(&fresh));
}

/// A replace of any version changes the entity.
pub(crate) async fn replaces_any_version_on_request(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r").with("A", 1)).await;
    table
        .put(Operation::Replace(
            entity("p", "r").with("A", 2),
            IfMatch::Any,
        ))
        .await;
    let read = table.existing(&key("p", "r")).await;
    assert_same(
        read.properties(),
        entity("p", "r").with("A", 2).properties(),
    );
}

/// A missing entity is neither replaced nor created, whatever the condition.
pub(crate) async fn refuses_a_missing_entity(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "other")).await;
    for condition in [IfMatch::Any, etag.into()] {
        let error = refused(
            table
                .write(Operation::Replace(entity("p", "r"), condition))
                .await,
        );
        assert!(error.is_entity_not_found(), "{error}");
        assert!(table.get(&key("p", "r")).await.is_none());
    }
}
