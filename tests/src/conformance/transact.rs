//! Group transactions: several writes to one partition take effect together or not at all.

use table_core::model::{ETag, Entity, IfMatch};
use table_core::query::Query;
use table_core::store::{ErrorKind, Operation, TableStore};

use super::table::{assert_same, entity, key, refused};
use super::{Deviation, Harness, TestTable};

/// One group has every kind of operation. Each operation except the delete returns a new ETag.
pub(crate) async fn applies_every_kind_of_operation(h: &Harness) {
    let table = h.table().await;
    let replaced = table
        .insert(entity("p", "replaced").with("A", 1).with("B", 1))
        .await;
    let merged = table
        .insert(entity("p", "merged").with("A", 1).with("B", 1))
        .await;
    let deleted = table.insert(entity("p", "deleted").with("A", 1)).await;
    table
        .insert(entity("p", "upserted").with("A", 1).with("B", 1))
        .await;
    table
        .insert(entity("p", "blended").with("A", 1).with("B", 1))
        .await;
    let operations = vec![
        Operation::Insert(entity("p", "inserted").with("A", 2)),
        Operation::Replace(entity("p", "replaced").with("A", 2), replaced.into()),
        Operation::Merge(entity("p", "merged").with("A", 2), merged.into()),
        Operation::Delete(key("p", "deleted"), deleted.into()),
        Operation::InsertOrReplace(entity("p", "upserted").with("A", 2)),
        Operation::InsertOrMerge(entity("p", "blended").with("A", 2)),
    ];
    let written = table.transact("p", operations).await.expect("a group");
    let (one, both) = (
        entity("p", "r").with("A", 2),
        entity("p", "r").with("A", 2).with("B", 1),
    );
    let rows = [
        ("inserted", Some(&one)),
        ("replaced", Some(&one)),
        ("merged", Some(&both)),
        ("deleted", None),
        ("upserted", Some(&one)),
        ("blended", Some(&both)),
    ];
    assert_eq!(written.len(), rows.len());
    for ((row, expected), answer) in rows.into_iter().zip(written) {
        let read = table.get(&key("p", row)).await;
        assert_eq!(
            read.as_ref().and_then(Entity::etag),
            answer.etag.as_ref(),
            "{row}"
        );
        assert_eq!(read.is_some(), expected.is_some(), "{row}");
        if let (Some(read), Some(expected)) = (read, expected) {
            assert_same(read.properties(), expected.properties());
        }
    }
}

/// The answers have the order of the operations, not of the keys, and all ETags differ.
pub(crate) async fn returns_etags_in_the_order_of_operations(h: &Harness) {
    let table = h.table().await;
    let rows = ["m", "z", "a", "q", "b"];
    let inserts = rows.map(|row| Operation::Insert(entity("p", row))).to_vec();
    let written = table.transact("p", inserts).await.expect("a group");
    let shared = h.deviates(Deviation::GroupVersions);
    let mut seen = std::collections::HashSet::new();
    for (row, answer) in rows.into_iter().zip(written) {
        let read = table.existing(&key("p", row)).await;
        assert_eq!(read.etag(), answer.etag.as_ref(), "{row}");
        assert!(seen.insert(answer.etag) || shared, "{row}");
    }
}

/// The error names the index of the failing operation, at every index, and no operation is applied.
pub(crate) async fn applies_nothing_when_one_fails(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "x").with("A", 1)).await;
    let before = table.all(&Query::new()).await;
    for failing in [0, 2, 5] {
        let mut operations: Vec<_> = (0..5)
            .map(|n| Operation::Insert(entity("p", &format!("r{n}"))))
            .collect();
        operations.insert(failing, Operation::Insert(entity("p", "x").with("A", 2)));
        let error = refused(table.transact("p", operations).await);
        assert!(error.is_already_exists(), "{error}");
        assert_eq!(error.failed_index(), Some(failing), "{error}");
        assert_eq!(table.all(&Query::new()).await, before);
    }
}

/// The error of a group contains the error kind of the failing operation.
pub(crate) async fn names_the_error_of_the_failed_operation(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "x")).await;
    let stale = IfMatch::Exactly(ETag::from(
        "W/\"datetime'2000-01-01T00%3A00%3A00.0000000Z'\"",
    ));
    let fails = |operation| {
        let first = Operation::InsertOrReplace(entity("p", "first"));
        table.transact("p", vec![first, operation])
    };
    let error = refused(fails(Operation::Replace(entity("p", "x"), stale.clone())).await);
    assert!(error.is_precondition_failed(), "{error}");
    let error = refused(fails(Operation::Delete(key("p", "x"), stale)).await);
    assert!(error.is_precondition_failed(), "{error}");
    let error = refused(fails(Operation::Merge(entity("p", "missing"), IfMatch::Any)).await);
    assert!(error.is_entity_not_found(), "{error}");
    let error = refused(fails(Operation::Delete(key("p", "missing"), IfMatch::Any)).await);
    assert!(error.is_entity_not_found(), "{error}");
    assert!(table.get(&key("p", "first")).await.is_none());
}

/// Deletes, replaces and merges before the failing operation are undone, with their ETags.
pub(crate) async fn undoes_the_operations_before_the_failure(h: &Harness) {
    let table = h.table().await;
    for row in ["deleted", "replaced", "merged", "x"] {
        table.insert(entity("p", row).with("A", 1)).await;
    }
    let before = table.all(&Query::new()).await;
    let operations = vec![
        Operation::Delete(key("p", "deleted"), IfMatch::Any),
        Operation::Replace(entity("p", "replaced").with("B", 2), IfMatch::Any),
        Operation::Merge(entity("p", "merged").with("B", 2), IfMatch::Any),
        Operation::Insert(entity("p", "x")),
    ];
    let error = refused(table.transact("p", operations).await);
    assert_eq!(error.failed_index(), Some(3), "{error}");
    assert_eq!(table.all(&Query::new()).await, before);
}

/// A group has at most as many operations as the profile says.
pub(crate) async fn accepts_the_maximum_number_of_operations(h: &Harness) {
    let table = h.table().await;
    let count = h.profile().group_operations;
    let mut group = table.group("p");
    for n in 0..count {
        group
            .push(Operation::Insert(
                entity("p", &format!("{n:04}")).with("N", n as i32),
            ))
            .expect("it fits");
    }
    let one_more = Operation::Insert(entity("p", "more"));
    assert!(!group.fits(&one_more));
    assert!(refused(group.push(one_more)).is_limit_exceeded());
    let written = h
        .store()
        .transact(table.name(), group)
        .await
        .expect("a full group");
    assert_eq!(written.len(), count);
    assert_eq!(table.all(&Query::new()).await.len(), count);
}

/// The payload is limited while the group is built. A group well below the limit is accepted.
pub(crate) async fn limits_the_payload(h: &Harness) {
    let table = h.table().await;
    let large = |n: usize| {
        let value = vec![n as u8; 64 * 1024];
        Operation::Insert(
            entity("p", &n.to_string())
                .with("A", value.clone())
                .with("B", value),
        )
    };
    let half = h.profile().group_bytes / 2 / (128 * 1024) / 4 * 3;
    let inserts = (0..half).map(large).collect();
    table
        .transact("p", inserts)
        .await
        .expect("half of the largest payload");
    assert_eq!(table.all(&Query::new()).await.len(), half);
    let mut group = table.group("p");
    let error = (0..)
        .map(large)
        .find_map(|op| group.push(op).err())
        .expect("an end");
    assert!(refused::<()>(Err(error)).is_limit_exceeded());
    assert!(group.len() * 128 * 1024 * 4 / 3 <= h.profile().group_bytes);
}

/// A group refuses an entity of another partition when it is built. The store refuses a group that was changed
/// afterwards.
pub(crate) async fn refuses_a_second_partition(h: &Harness) {
    let table = h.table().await;
    let mut group = table.group("p");
    let error = refused(group.push(Operation::Insert(entity("q", "r"))));
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    group
        .push(Operation::Insert(entity("p", "r")))
        .expect("its own partition");
    group.operations_mut()[0] = Operation::Insert(entity("q", "r"));
    refused(h.store().transact(table.name(), group).await);
    assert!(table.all(&Query::new()).await.is_empty());
}

/// A group refuses a second operation on one entity when it is built. The store refuses a group that was
/// changed afterwards.
pub(crate) async fn refuses_a_second_operation_on_one_entity(h: &Harness) {
    let table = h.table().await;
    let mut group = table.group("p");
    group
        .push(Operation::Insert(entity("p", "r")))
        .expect("the first");
    let error = refused(group.push(Operation::Delete(key("p", "r"), IfMatch::Any)));
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    group
        .push(Operation::InsertOrReplace(entity("p", "s")))
        .expect("another");
    group.operations_mut()[1] = Operation::InsertOrReplace(entity("p", "r"));
    refused(h.store().transact(table.name(), group).await);
    assert!(table.all(&Query::new()).await.is_empty());
}

/// An empty group is refused: the service has no defined answer to it.
pub(crate) async fn refuses_an_empty_group(h: &Harness) {
    let table = h.table().await;
    let error = refused(h.store().transact(table.name(), table.group("p")).await);
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
}

/// An operation that exceeds a limit makes the whole group fail, and the error names its index.
pub(crate) async fn checks_the_limits_of_every_operation(h: &Harness) {
    let table = h.table().await;
    let bad = entity("p", "bad").with("A", "x".repeat(32 * 1024 + 1));
    let operations = vec![
        Operation::Insert(entity("p", "good")),
        Operation::Insert(bad),
    ];
    let error = refused(table.transact("p", operations).await);
    assert!(error.is_limit_exceeded(), "{error}");
    assert_eq!(error.failed_index(), Some(1), "{error}");
    assert!(table.all(&Query::new()).await.is_empty());
}

/// Entities with equal row keys in another partition do not change.
pub(crate) async fn leaves_other_partitions_alone(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("q", "r").with("A", 1)).await;
    let operations = vec![Operation::InsertOrReplace(entity("p", "r").with("A", 2))];
    table.transact("p", operations).await.expect("a group");
    assert_eq!(value(&table, "q").await, Some(1.into()));
    assert_eq!(value(&table, "p").await, Some(2.into()));
}

async fn value(table: &TestTable, partition: &str) -> Option<table_core::model::EdmValue> {
    table
        .existing(&key(partition, "r"))
        .await
        .get("A")
        .map(|v| v.to_owned())
}
