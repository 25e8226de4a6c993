//! Delete: removes an existing entity, under a version condition.

use table_core::model::{ETag, IfMatch};
use table_core::query::Query;
use table_core::store::{ErrorKind, Operation};

use super::Harness;
use super::table::{entity, key, refused};

/// Gets and queries no longer find the entity. Its neighbours stay. The answer has no ETag.
pub(crate) async fn removes_the_entity(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "b")).await;
    table.insert(entity("p", "a")).await;
    table.insert(entity("p", "bb")).await;
    let written = table
        .write(Operation::Delete(key("p", "b"), etag.into()))
        .await
        .expect("a delete");
    assert_eq!(written.etag, None);
    assert!(table.get(&key("p", "b")).await.is_none());
    assert_eq!(
        table.keys(&Query::new()).await,
        [key("p", "a"), key("p", "bb")]
    );
}

/// A delete with an outdated version is refused, and the entity stays.
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
        let error = refused(
            table
                .write(Operation::Delete(key("p", "r"), wrong.into()))
                .await,
        );
        assert!(
            matches!(error.kind(), ErrorKind::PreconditionFailed { .. }),
            "{error}"
        );
    }
    assert_eq!(table.existing(&key("p", "r")).await.etag(), Some(&fresh));
}

/// A delete of any version removes the entity.
pub(crate) async fn removes_any_version_on_request(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r")).await;
    table
        .write(Operation::Delete(key("p", "r"), IfMatch::Any))
        .await
        .expect("a delete");
    assert!(table.get(&key("p", "r")).await.is_none());
}

/// A missing entity cannot be deleted, and an entity cannot be deleted twice.
pub(crate) async fn refuses_a_missing_entity(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "r")).await;
    table
        .write(Operation::Delete(key("p", "r"), (&etag).into()))
        .await
        .expect("a delete");
    for condition in [IfMatch::Any, etag.into()] {
        let error = refused(
            table
                .write(Operation::Delete(key("p", "r"), condition))
                .await,
        );
        assert!(error.is_entity_not_found(), "{error}");
    }
}
