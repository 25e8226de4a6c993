//! Limits: the maximum is accepted; one more is refused and changes nothing.

use table_core::engine::entity_size;
use table_core::model::{Entity, IfMatch, Ticks, ValueRef};
use table_core::query::Query;
use table_core::store::limits::BINARY_BYTES;
use table_core::store::{ErrorKind, Operation, Outcome};

use super::table::{assert_same, entity, key, refused};
use super::{Deviation, Harness, TestTable};

/// The number of properties without the system properties.
pub(crate) async fn number_of_properties(h: &Harness) {
    let table = h.table().await;
    let most = h.profile().custom_properties;
    takes(&table, many(most)).await;
    assert!(refuses(&table, many(most + 1)).await.is_limit_exceeded());
}

/// A merge is limited by the properties of the resulting entity, not by the request.
pub(crate) async fn number_of_properties_after_a_merge(h: &Harness) {
    let table = h.table().await;
    let full = many(h.profile().custom_properties);
    let etag = table.insert(full.clone()).await;
    if h.deviates(Deviation::MergesBeyondLimits) {
        return;
    }
    for operation in merges(entity("p", "r").with("OneMore", 1)) {
        assert!(refused(table.write(operation.clone()).await).is_limit_exceeded());
        assert!(refused(table.transact("p", vec![operation]).await).is_limit_exceeded());
    }
    let read = table.existing(full.key()).await;
    assert_eq!(read.etag(), Some(&etag));
    assert_same(read.properties(), full.properties());
    table
        .put(Operation::Merge(
            entity("p", "r").with("P1", 2),
            IfMatch::Any,
        ))
        .await;
}

/// Property names are identifiers of at most 255 characters.
pub(crate) async fn property_names(h: &Harness) {
    let table = h.table().await;
    let longest = "n".repeat(255);
    let legal = ["A", "_", "_a", "a1", "camelCase", "Größe", "日本", &longest];
    takes(
        &table,
        legal
            .iter()
            .fold(entity("p", "r"), |e, name| e.with(name, 1)),
    )
    .await;
    let illegal = [
        "",
        "1a",
        "a b",
        "a-b",
        "a.b",
        "a'b",
        "a/b",
        "\u{1F600}",
        "PartitionKey",
        "RowKey",
        "Timestamp",
    ];
    for name in illegal
        .into_iter()
        .chain(h.profile().reserved_properties.iter().copied())
    {
        let error = refuses(&table, entity("p", "r").with(name, 1)).await;
        assert!(
            matches!(error.kind(), ErrorKind::InvalidName { .. }),
            "{name:?}: {error}"
        );
    }
    let error = refuses(&table, entity("p", "r").with(&"n".repeat(256), 1)).await;
    assert!(error.is_limit_exceeded(), "{error}");
}

/// An entity has a property name once, wherever the second one is, and whatever its value.
pub(crate) async fn property_names_occur_once(h: &Harness) {
    let table = h.table().await;
    let most = h.profile().custom_properties;
    let unlike = || {
        entity("p", "r")
            .with("Name", "Ken")
            .with("name", "Lee")
            .with("Größe", 1)
    };
    takes(&table, unlike()).await;
    for (mut wrong, name) in [
        (unlike(), "Name"),
        (unlike(), "Größe"),
        (many(most - 1), "P0"),
    ] {
        wrong.properties_mut().push(name, ValueRef::Int32(2), false);
        let error = refuses(&table, wrong.clone()).await;
        assert!(
            matches!(error.kind(), ErrorKind::InvalidValue { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("'{name}'")), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
        // Entities of a group are compared with the entity before them.
        let others = [unlike(), unlike(), many(most), wrong]
            .into_iter()
            .enumerate();
        let group =
            others.map(|(n, one)| Operation::Insert(one.with_key(key("p", &format!("n{n}")))));
        let before = table.all(&Query::new()).await;
        let error = refused(table.transact("p", group.collect()).await);
        assert_eq!(error.failed_index(), Some(3), "{error}");
        assert!(table.all(&Query::new()).await == before, "{error}");
    }
}

/// A property name that exceeds the storage format does not hide the properties after it.
pub(crate) async fn very_long_property_names(h: &Harness) {
    let table = h.table().await;
    let absurd = entity("p", "r")
        .with("A", 1)
        .with(&"é".repeat(70_000), 1)
        .with("B", 2);
    assert!(refuses(&table, absurd).await.is_limit_exceeded());
}

/// String values: 32 Ki UTF-16 units; an emoji counts as two.
pub(crate) async fn string_values(h: &Harness) {
    let table = h.table().await;
    let units = 32 * 1024;
    takes(&table, entity("p", "r").with("A", "x".repeat(units))).await;
    if !h.deviates(Deviation::SplitCharacters) {
        takes(
            &table,
            entity("p", "r").with("B", "\u{1F600}".repeat(units / 2)),
        )
        .await;
    }
    for text in [
        "x".repeat(units + 1),
        "\u{1F600}".repeat(units / 2) + "x",
        "é".repeat(units + 1),
    ] {
        let error = refuses(&table, entity("p", "r").with("Named", text)).await;
        assert!(error.is_limit_exceeded(), "{error}");
        assert!(error.to_string().contains("Named"), "{error}");
    }
}

/// Binary values: 64 KiB.
pub(crate) async fn binary_values(h: &Harness) {
    let table = h.table().await;
    takes(&table, entity("p", "r").with("A", vec![7u8; 64 * 1024])).await;
    let error = refuses(
        &table,
        entity("p", "r").with("Named", vec![7u8; 64 * 1024 + 1]),
    )
    .await;
    assert!(error.is_limit_exceeded(), "{error}");
    assert!(error.to_string().contains("Named"), "{error}");
}

/// Times before 1601 are refused.
pub(crate) async fn datetime_values(h: &Harness) {
    let table = h.table().await;
    let earliest = h.profile().datetime_min;
    takes(
        &table,
        entity("p", "r").with("A", Ticks::new(earliest).expect("a moment")),
    )
    .await;
    for before in [Ticks::MIN, Ticks::new(earliest - 1).expect("a moment")] {
        let error = refuses(&table, entity("p", "r").with("Named", before)).await;
        assert!(
            matches!(error.kind(), ErrorKind::InvalidValue { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("Named"), "{error}");
    }
}

/// The size of an entity, by the documented formula, exact to the byte.
pub(crate) async fn entity_bytes(h: &Harness) {
    let table = h.table().await;
    let full = of_size(h.profile().entity_bytes);
    assert_eq!(
        entity_size(full.key(), full.properties()),
        h.profile().entity_bytes
    );
    if !h.deviates(Deviation::EntitySize) {
        takes(&table, full).await;
    }
    assert!(
        refuses(&table, of_size(h.profile().entity_bytes + 1))
            .await
            .is_limit_exceeded()
    );
}

/// Entities of Binary properties near the size limit.
pub(crate) async fn entities_of_binary(h: &Harness) {
    let table = h.table().await;
    takes(&table, of_binary(700 << 10)).await;
    if !h.deviates(Deviation::EntitySize) {
        return takes(&table, of_binary(900 << 10)).await;
    }
    let error = refused(
        table
            .write(Operation::InsertOrReplace(of_binary(900 << 10)))
            .await,
    );
    assert!(error.to_string().contains("EntityTooLarge"), "{error}");
}

/// Returns an entity with `bytes` bytes of Binary, in properties of the maximum size.
fn of_binary(bytes: usize) -> Entity {
    let whole = (0..bytes / BINARY_BYTES).map(|_| BINARY_BYTES);
    let lengths = whole.chain([bytes % BINARY_BYTES]).enumerate();
    lengths.fold(entity("p", "r"), |row, (n, length)| {
        row.with(&format!("B{n:02}"), vec![7u8; length])
    })
}

/// A merge is limited by the bytes of the resulting entity, not by the request.
pub(crate) async fn entity_bytes_after_a_merge(h: &Harness) {
    if h.deviates(Deviation::MergesBeyondLimits) {
        return;
    }
    let table = h.table().await;
    let etag = table.insert(of_size(h.profile().entity_bytes)).await;
    for operation in merges(entity("p", "r").with("OneMore", 1)) {
        assert!(refused(table.write(operation.clone()).await).is_limit_exceeded());
        assert!(refused(table.transact("p", vec![operation]).await).is_limit_exceeded());
    }
    assert_eq!(table.existing(&key("p", "r")).await.etag(), Some(&etag));
}

/// A marked property is never sent in plaintext: a store without encryption refuses every write of it, and no
/// error contains the value.
pub(crate) async fn marked_properties_are_refused_without_encryption(h: &Harness) {
    let table = h.table().await;
    let marked = entity("p", "r")
        .with("Plain", 1)
        .with_encrypted("Secret", "hunter2");
    if h.profile().encrypts {
        table.insert(marked.clone()).await;
        assert_same(
            table.existing(marked.key()).await.properties(),
            marked.properties(),
        );
        return;
    }
    table.insert(entity("p", "r")).await;
    let writes = [
        Operation::Insert(marked.clone().with_key(key("p", "new"))),
        Operation::Replace(marked.clone(), IfMatch::Any),
        Operation::Merge(marked.clone(), IfMatch::Any),
        Operation::InsertOrReplace(marked.clone()),
        Operation::InsertOrMerge(marked),
    ];
    for operation in writes {
        let alone = refused(table.write(operation.clone()).await);
        let grouped = refused(table.transact("p", vec![operation]).await);
        for error in [alone, grouped] {
            assert!(
                matches!(error.root().kind(), ErrorKind::Unsupported { .. }),
                "{error}"
            );
            assert!(error.to_string().contains("Secret"), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }
    let left = table.all(&Query::new()).await;
    assert_eq!(left.len(), 1);
    assert!(left[0].properties().is_empty());
}

fn many(count: usize) -> Entity {
    (0..count).fold(entity("p", "r"), |e, n| e.with(&format!("P{n}"), 1))
}

fn merges(patch: Entity) -> [Operation; 2] {
    [
        Operation::Merge(patch.clone(), IfMatch::Any),
        Operation::InsertOrMerge(patch),
    ]
}

/// Returns an entity of exactly `bytes` bytes: Binary values of the maximum size, and one smaller value.
fn of_size(bytes: usize) -> Entity {
    let mut full = entity("p", "r");
    for n in 0.. {
        let name = format!("B{n:03}");
        let left = bytes - entity_size(full.key(), full.properties());
        let overhead = 8 + 2 * name.len() + 4;
        let value = (left - overhead).min(60 * 1024);
        full = full.with(&name, vec![7u8; value]);
        if value < 60 * 1024 {
            break;
        }
    }
    full
}

/// Asserts that every write operation accepts the entity, and that a get returns it. A group is sent only if
/// its payload can hold the entity.
async fn takes(table: &TestTable, sent: Entity) {
    table.put(Operation::InsertOrReplace(sent.clone())).await;
    assert_same(
        table.existing(sent.key()).await.properties(),
        sent.properties(),
    );
    let replace = Operation::Replace(sent.clone(), IfMatch::Any);
    if !table.group("p").fits(&replace) {
        return;
    }
    table.transact("p", vec![replace]).await.expect("a group");
    assert_same(
        table.existing(sent.key()).await.properties(),
        sent.properties(),
    );
}

/// Asserts that every write operation refuses the entity. Returns the first error.
async fn refuses(table: &TestTable, sent: Entity) -> table_core::Error {
    let before = table.all(&Query::new()).await;
    refused(table.write(Operation::InsertOrReplace(sent.clone())).await);
    refused(table.write(Operation::InsertOrMerge(sent.clone())).await);
    refused(
        table
            .write(Operation::Replace(sent.clone(), IfMatch::Any))
            .await,
    );
    let error = refused(
        table
            .write(Operation::Insert(sent.with_key(key("p", "new"))))
            .await,
    );
    assert!(
        table.all(&Query::new()).await == before,
        "{error}: but the entity changed"
    );
    error
}
