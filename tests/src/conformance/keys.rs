//! Keys: every legal character in every operation.

use table_core::model::{Entity, IfMatch, Key};
use table_core::query::{Filter, Query};
use table_core::store::{ErrorKind, Operation};

use super::sample::DIFFICULT_KEYS;
use super::table::{assert_same, entity, refused};
use super::{Harness, TestTable};

/// Insert and get.
pub(crate) async fn insert_and_get(h: &Harness) {
    let table = h.table().await;
    for key in difficult() {
        table
            .insert(Entity::from(key.clone()).with("Key", &*key.to_string()))
            .await;
    }
    for key in difficult() {
        let read = table.existing(&key).await;
        assert_eq!(read.key(), &key);
        assert_eq!(
            read.get("Key").map(|v| v.to_owned()),
            Some(key.to_string().into())
        );
    }
    for key in difficult() {
        refused(table.write(Operation::Insert(key.into())).await);
    }
}

/// Replace, with the ETag and with any version.
pub(crate) async fn replace(h: &Harness) {
    on_each(
        h,
        |entity, etag| {
            vec![
                Operation::Replace(entity.clone().with("B", 2), etag),
                Operation::Replace(entity.with("B", 3), IfMatch::Any),
            ]
        },
        Some(3),
    )
    .await;
}

/// Merge, with the ETag and with any version.
pub(crate) async fn merge(h: &Harness) {
    on_each(
        h,
        |entity, etag| {
            vec![
                Operation::Merge(entity.clone().with("B", 2), etag),
                Operation::Merge(entity.with("B", 3), IfMatch::Any),
            ]
        },
        Some(3),
    )
    .await;
}

/// InsertOrReplace and InsertOrMerge.
pub(crate) async fn both_upserts(h: &Harness) {
    on_each(
        h,
        |entity, _| {
            vec![
                Operation::InsertOrReplace(entity.clone().with("B", 2)),
                Operation::InsertOrMerge(entity.with("B", 3)),
            ]
        },
        Some(3),
    )
    .await;
}

/// Delete, with the ETag.
pub(crate) async fn delete(h: &Harness) {
    on_each(
        h,
        |entity, etag| vec![Operation::Delete(entity.key().clone(), etag)],
        None,
    )
    .await;
}

/// Group transactions with every kind of operation.
pub(crate) async fn transact(h: &Harness) {
    let table = h.table().await;
    for text in DIFFICULT_KEYS {
        let insert = |row: &str| Operation::Insert(entity(text, row).with("A", 1));
        table
            .transact(text, DIFFICULT_KEYS.map(insert).to_vec())
            .await
            .expect("a group of inserts");
        let change = |(n, row): (usize, &&str)| change(n, entity(text, row).with("B", 2));
        let changes = DIFFICULT_KEYS.iter().enumerate().map(change).collect();
        table
            .transact(text, changes)
            .await
            .expect("a group of changes");
    }
    let left = table.all(&Query::new()).await;
    let deleted = (0..DIFFICULT_KEYS.len()).filter(|n| n % 5 == 4).count();
    assert_eq!(
        left.len(),
        DIFFICULT_KEYS.len() * (DIFFICULT_KEYS.len() - deleted)
    );
    assert!(left.iter().all(|e| e.get("B").is_some()));
}

/// Point queries, and pages that end at each key.
pub(crate) async fn query(h: &Harness) {
    let table = h.table().await;
    for key in difficult() {
        table.insert(key.into()).await;
    }
    for key in difficult() {
        let (partition, row) = (
            Filter::eq("PartitionKey", key.partition()),
            Filter::eq("RowKey", key.row()),
        );
        let found = table
            .keys(&Query::new().with_filter(partition.and(row)))
            .await;
        assert_eq!(found, [key]);
    }
    let mut expected: Vec<Key> = difficult().collect();
    expected.sort();
    let (mut seen, mut from) = (Vec::new(), None);
    loop {
        let page = table.page(&Query::new().with_top(1), from.as_ref()).await;
        seen.extend(page.items.iter().map(|e| e.key().clone()));
        let Some(next) = page.continuation else { break };
        from = Some(next);
    }
    seen.sort();
    assert_eq!(seen, expected);
}

/// The error of a failed operation contains the key, whatever its characters.
pub(crate) async fn errors_contain_the_key(h: &Harness) {
    let table = h.table().await;
    for key in difficult() {
        let error = refused(
            table
                .write(Operation::Delete(key.clone(), IfMatch::Any))
                .await,
        );
        assert!(error.is_entity_not_found(), "{error}");
        assert!(error.to_string().contains(&key.to_string()), "{error}");
    }
}

/// Keys of the maximum length: in ASCII, and in characters of two and of four bytes.
pub(crate) async fn keys_of_the_maximum_length(h: &Harness) {
    let table = h.table().await;
    let units = h.profile().key_units;
    let bytes = h.profile().row_key_bytes.unwrap_or(usize::MAX);
    for (text, width) in [("k", 1), ("é", 1), ("\u{1F600}", 2)] {
        let partition = text.repeat(units / width);
        let row = text.repeat((units / width).min(bytes / text.len()));
        let sent = entity(&partition, &row).with("A", 1);
        let etag = table.insert(sent.clone()).await;
        assert_same(
            table.existing(sent.key()).await.properties(),
            sent.properties(),
        );
        let point = Filter::eq("PartitionKey", &*partition).and(Filter::eq("RowKey", &*row));
        assert_eq!(
            table.keys(&Query::new().with_filter(point)).await,
            [sent.key().clone()]
        );
        table
            .write(Operation::Delete(sent.key().clone(), etag.into()))
            .await
            .expect("a delete");
    }
}

/// A key with one more UTF-16 unit than the service allows is refused before a request is sent.
pub(crate) async fn longer_keys_are_refused(h: &Harness) {
    let units = h.profile().key_units;
    for (text, width) in [("k", 1), ("\u{1F600}", 2)] {
        let long = text.repeat(units / width + 1);
        assert!(refused(Key::new(&long, "r")).is_limit_exceeded());
        assert!(refused(Key::new("p", &long)).is_limit_exceeded());
    }
    let Some(bytes) = h.profile().row_key_bytes else {
        return;
    };
    let table = h.table().await;
    let error = refused(
        table
            .write(Operation::Insert(entity("p", &"k".repeat(bytes + 1))))
            .await,
    );
    assert!(error.is_limit_exceeded(), "{error}");
}

/// Keys cannot contain the characters that the service forbids.
pub(crate) async fn forbidden_characters_are_refused(_: &Harness) {
    let controls = (0..=0x1Fu8).chain(0x7F..=0x9F).map(char::from);
    for c in "/\\#?".chars().chain(controls) {
        let text = format!("a{c}b");
        for made in [Key::new(&text, "r"), Key::new("p", &text)] {
            let error = refused(made);
            assert!(
                matches!(error.kind(), ErrorKind::InvalidKey { .. }),
                "{error}"
            );
        }
    }
}

/// Each difficult text as a partition key and as a row key.
fn difficult() -> impl Iterator<Item = Key> {
    let (texts, turned) = (DIFFICULT_KEYS.iter(), DIFFICULT_KEYS.iter().rev());
    texts
        .zip(turned)
        .map(|(partition, row)| super::table::key(partition, row))
}

fn change(n: usize, entity: Entity) -> Operation {
    match n % 5 {
        0 => Operation::Replace(entity, IfMatch::Any),
        1 => Operation::Merge(entity, IfMatch::Any),
        2 => Operation::InsertOrReplace(entity),
        3 => Operation::InsertOrMerge(entity),
        _ => Operation::Delete(entity.key().clone(), IfMatch::Any),
    }
}

/// For each difficult key: inserts the entity and a neighbour, runs the operations on the entity, and asserts
/// the result.
async fn on_each(
    h: &Harness,
    operations: impl Fn(Entity, IfMatch) -> Vec<Operation>,
    expected: Option<i32>,
) {
    let table: TestTable = h.table().await;
    table
        .insert(entity("neighbour", "neighbour").with("A", 1))
        .await;
    for key in difficult() {
        let etag = table.insert(Entity::from(key.clone()).with("A", 1)).await;
        for operation in operations(key.clone().into(), etag.into()) {
            let label = format!("{} of {key}", operation.kind());
            table
                .write(operation)
                .await
                .unwrap_or_else(|e| panic!("{label}: {e}"));
        }
    }
    for key in difficult() {
        let read = table.get(&key).await;
        let found = read.and_then(|e| e.get("B").map(|v| v.to_owned()));
        assert_eq!(found, expected.map(Into::into), "{key}");
    }
    let neighbour = table
        .existing(&super::table::key("neighbour", "neighbour"))
        .await;
    assert_same(
        neighbour.properties(),
        entity("n", "n").with("A", 1).properties(),
    );
}
