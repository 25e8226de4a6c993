//! Query: access paths, order, `top`, projections.

use table_core::model::Key;
use table_core::query::{AccessPath, Filter, Query, Select};
use table_core::store::{KeyOrder, TableStore, TableStoreExt};

use super::sample::ORDERED_KEYS;
use super::table::{assert_same, entity, key, refused};
use super::{Harness, TestTable};

/// A point query returns one entity or none.
pub(crate) async fn point_query(h: &Harness) {
    let table = grid(h).await;
    let point = |partition: &str, row: &str| partition_is(partition).and(Filter::eq("RowKey", row));
    finds(&table, AccessPath::Point, point("b", "2"), &["b2"]).await;
    finds(&table, AccessPath::Point, point("b", "9"), &[]).await;
    finds(&table, AccessPath::Point, point("zz", "2"), &[]).await;
    finds(
        &table,
        AccessPath::Point,
        point("b", "2").and(Filter::eq("N", 12)),
        &["b2"],
    )
    .await;
    finds(
        &table,
        AccessPath::Point,
        point("b", "2").and(Filter::eq("N", 99)),
        &[],
    )
    .await;
}

/// A range of rows in a partition, with every kind of bound.
pub(crate) async fn range_of_rows(h: &Harness) {
    let table = grid(h).await;
    let rows = |filter: Filter| partition_is("b").and(filter);
    let path = AccessPath::RowRange;
    finds(&table, path, rows(Filter::ge("RowKey", "2")), &["b2", "b3"]).await;
    finds(&table, path, rows(Filter::gt("RowKey", "2")), &["b3"]).await;
    finds(
        &table,
        path,
        rows(Filter::le("RowKey", "2")),
        &["b1", "b10", "b2"],
    )
    .await;
    finds(
        &table,
        path,
        rows(Filter::lt("RowKey", "2")),
        &["b1", "b10"],
    )
    .await;
    finds(
        &table,
        path,
        rows(Filter::starts_with("RowKey", "1")),
        &["b1", "b10"],
    )
    .await;
    let both = Filter::gt("RowKey", "1").and(Filter::lt("RowKey", "3"));
    finds(&table, path, rows(both.clone()), &["b10", "b2"]).await;
    finds(&table, path, rows(both.and(Filter::ge("N", 12))), &["b2"]).await;
    let nothing = Filter::gt("RowKey", "2").and(Filter::lt("RowKey", "2"));
    assert_eq!(
        table.keys(&Query::new().with_filter(rows(nothing))).await,
        []
    );
}

/// A whole partition without its neighbours.
pub(crate) async fn partition_scan(h: &Harness) {
    let table = grid(h).await;
    let path = AccessPath::PartitionScan;
    finds(&table, path, partition_is("b"), &["b1", "b10", "b2", "b3"]).await;
    finds(
        &table,
        path,
        partition_is("b").and(Filter::ge("N", 12)),
        &["b2", "b3"],
    )
    .await;
    finds(&table, path, partition_is("zz"), &[]).await;
    let either = Filter::eq("RowKey", "1").or(Filter::eq("RowKey", "3"));
    let found = table
        .keys(&Query::new().with_filter(partition_is("b").and(either)))
        .await;
    assert_eq!(found, [key("b", "1"), key("b", "3")]);
}

/// A range of partitions, with every kind of bound.
pub(crate) async fn range_of_partitions(h: &Harness) {
    let table = grid(h).await;
    let path = AccessPath::PartitionRange;
    let last = ["c1", "c10", "c2", "c3"];
    finds(&table, path, Filter::gt("PartitionKey", "ba"), &last).await;
    finds(&table, path, Filter::ge("PartitionKey", "c"), &last).await;
    let first = ["a1", "a10", "a2", "a3"];
    finds(&table, path, Filter::lt("PartitionKey", "b"), &first).await;
    finds(&table, path, Filter::le("PartitionKey", "a"), &first).await;
    let between = Filter::gt("PartitionKey", "a").and(Filter::lt("PartitionKey", "ba"));
    finds(&table, path, between, &["b1", "b10", "b2", "b3"]).await;
    let prefix = Filter::starts_with("PartitionKey", "b").and(Filter::eq("RowKey", "2"));
    finds(&table, path, prefix, &["b2", "ba2"]).await;
}

/// A whole table, with and without a filter.
pub(crate) async fn table_scan(h: &Harness) {
    let table = grid(h).await;
    let path = AccessPath::TableScan;
    finds(
        &table,
        path,
        Filter::eq("RowKey", "2"),
        &["a2", "b2", "ba2", "c2"],
    )
    .await;
    finds(&table, path, Filter::eq("N", 12), &["b2"]).await;
    let others = ["a2", "ba2", "c2"];
    finds(
        &table,
        path,
        (!partition_is("b")).and(Filter::eq("RowKey", "2")),
        &others,
    )
    .await;
    assert_eq!(Query::new().access_path(), path);
    assert_eq!(table.keys(&Query::new()).await.len(), 16);
}

/// An `or` of two points returns both entities, whatever its access path.
pub(crate) async fn either_of_two_points(h: &Harness) {
    let table = grid(h).await;
    let point = |partition: &str, row: &str| partition_is(partition).and(Filter::eq("RowKey", row));
    let query = Query::new().with_filter(point("a", "1").or(point("c", "3")));
    assert_eq!(table.keys(&query).await, [key("a", "1"), key("c", "3")]);
}

/// On a sorted service keys are ordered by UTF-16 code unit: an emoji precedes U+E000.
pub(crate) async fn order_of_keys(h: &Harness) {
    let table = h.table().await;
    let mut expected = Vec::new();
    for partition in ORDERED_KEYS {
        table
            .load(
                partition,
                ORDERED_KEYS.iter().rev().map(|row| entity(partition, row)),
            )
            .await;
        expected.extend(ORDERED_KEYS.map(|row| key(partition, row)));
    }
    let found = h
        .store()
        .query_all(table.name(), &Query::new())
        .await
        .expect("a table scan");
    let mut found: Vec<Key> = found.iter().map(|e| e.key().clone()).collect();
    if h.profile().order == KeyOrder::Unsorted {
        found.sort();
    }
    assert_eq!(found, expected);
}

/// Ranges follow the order of keys at every bound.
pub(crate) async fn ranges_in_the_order_of_keys(h: &Harness) {
    let table = h.table().await;
    table
        .load("p", ORDERED_KEYS.iter().map(|row| entity("p", row)))
        .await;
    for (at, bound) in ORDERED_KEYS.iter().enumerate() {
        let rows = |filter: Filter| Query::new().with_filter(partition_is("p").and(filter));
        let keys = |rows: &[&str]| rows.iter().map(|row| key("p", row)).collect::<Vec<_>>();
        let above = table.keys(&rows(Filter::gt("RowKey", *bound))).await;
        assert_eq!(above, keys(&ORDERED_KEYS[at + 1..]), "after {bound:?}");
        let up_to = table.keys(&rows(Filter::le("RowKey", *bound))).await;
        assert_eq!(up_to, keys(&ORDERED_KEYS[..=at]), "up to {bound:?}");
    }
}

/// A prefix finds the keys that start with it, at every boundary of the order of keys.
pub(crate) async fn prefixes_in_the_order_of_keys(h: &Harness) {
    let table = h.table().await;
    let rows = [
        "a",
        "a.",
        "a.b",
        "a0",
        "\u{D7FF}",
        "\u{D7FF}x",
        "\u{10000}",
        "\u{10FFFF}z",
        "\u{E000}",
        "\u{FFFF}y",
    ];
    table
        .load(
            "p",
            rows.iter().map(|row| entity("p", row).with("Text", *row)),
        )
        .await;
    for prefix in ["", "a", "a.", "\u{D7FF}", "\u{10FFFF}", "\u{FFFF}", "x"] {
        let expected: Vec<_> = rows.iter().filter(|row| row.starts_with(prefix)).collect();
        for property in ["RowKey", "Text"] {
            let filter = partition_is("p").and(Filter::starts_with(property, prefix));
            let found = table.keys(&Query::new().with_filter(filter)).await;
            assert_eq!(
                found.iter().map(Key::row).collect::<Vec<_>>().len(),
                expected.len(),
                "{prefix:?}"
            );
            assert!(
                expected.iter().all(|row| found.contains(&key("p", row))),
                "{property} {prefix:?}"
            );
        }
    }
}

/// A prefix of a string property can contain characters that keys forbid.
pub(crate) async fn prefixes_of_any_text(h: &Harness) {
    let table = h.table().await;
    let texts = ["a.b", "a/b", "a0", "x~", "x\u{7f}", "x\u{a0}"];
    for (n, text) in texts.iter().enumerate() {
        table
            .insert(entity("p", &n.to_string()).with("Text", *text))
            .await;
    }
    for (prefix, row) in [("a.", "0"), ("x~", "3")] {
        let found = table
            .keys(&Query::new().with_filter(Filter::starts_with("Text", prefix)))
            .await;
        assert_eq!(found, [key("p", row)], "{prefix:?}");
    }
}

/// `top` bounds a page, and a stream over all pages.
pub(crate) async fn top_limits_pages_and_streams(h: &Harness) {
    let table = grid(h).await;
    for top in [1, 3, 15, 16, 17] {
        let query = Query::new().with_top(top);
        assert!(table.page(&query, None).await.items.len() <= top);
        let found = h
            .store()
            .query_all(table.name(), &query)
            .await
            .expect("a table scan");
        assert_eq!(found.len(), top.min(16));
    }
    let filtered = Query::new().with_filter(Filter::ge("N", 12)).with_top(2);
    assert_eq!(table.all(&filtered).await.len(), 2);
    refused(
        h.store()
            .query(table.name(), &Query::new().with_top(0), None)
            .await,
    );
}

/// In a sorted partition `top` returns the first entities: a log tail depends on that.
pub(crate) async fn top_returns_the_first_entities_of_a_partition(h: &Harness) {
    let table = grid(h).await;
    let query = Query::new().with_filter(partition_is("b")).with_top(2);
    let found = table.keys(&query).await;
    match h.profile().order {
        KeyOrder::Sorted => assert_eq!(found, [key("b", "1"), key("b", "10")]),
        KeyOrder::Unsorted => assert_eq!(found.len(), 2),
    }
}

/// A projection returns the named properties of every entity. The filter can use other properties.
pub(crate) async fn projections(h: &Harness) {
    let table = h.table().await;
    table
        .insert(entity("p", "1").with("A", 1).with("B", "x"))
        .await;
    table.insert(entity("p", "2").with("A", 2)).await;
    table
        .insert(entity("p", "3").with("A", 0).with("B", "y"))
        .await;
    let filter = partition_is("p").and(Filter::ge("A", 1));
    let query = Query::new()
        .with_filter(filter)
        .with_select(Select::new(["B", "Missing"]));
    let found = table.all(&query).await;
    assert_eq!(found.len(), 2);
    assert_same(
        found[0].properties(),
        entity("p", "1").with("B", "x").properties(),
    );
    assert_same(found[1].properties(), entity("p", "2").properties());
    assert_eq!(found[1].key(), &key("p", "2"));
    assert!(
        found
            .iter()
            .all(|e| e.etag().is_some() && e.timestamp().is_some())
    );
}

/// The name `*` selects all properties, alone and among others, in queries and gets.
pub(crate) async fn projection_of_everything(h: &Harness) {
    let table = h.table().await;
    table
        .insert(entity("p", "1").with("A", 1).with("B", "x"))
        .await;
    table.insert(entity("p", "2").with("C", 2)).await;
    let whole = table.all(&Query::new()).await;
    for names in [vec!["*"], vec!["A", "*"], vec!["*", "Missing"]] {
        let select = Select::new(&names);
        for filter in [
            partition_is("p"),
            partition_is("p")
                .and(Filter::lt("A", 5))
                .or(Filter::ge("C", 1)),
        ] {
            let query = Query::new().with_filter(filter).with_select(select.clone());
            assert_eq!(table.all(&query).await, whole, "{names:?}");
        }
        let read = table
            .store()
            .get(table.name(), &key("p", "1"), Some(&select))
            .await
            .expect("an answer");
        assert_eq!(read.as_ref(), Some(&whole[0]), "{names:?}");
    }
}

/// A query returns the same entities as a get.
pub(crate) async fn returns_the_same_entities_as_a_get(h: &Harness) {
    let table = grid(h).await;
    for found in table.all(&Query::new()).await {
        assert_eq!(table.existing(found.key()).await, found);
    }
}

/// A query without matches returns no entity and ends.
pub(crate) async fn empty_result(h: &Harness) {
    let table = h.table().await;
    assert!(table.all(&Query::new()).await.is_empty());
    table.insert(entity("p", "r")).await;
    assert!(
        table
            .all(&Query::new().with_filter(Filter::eq("A", 1)))
            .await
            .is_empty()
    );
}

fn partition_is(partition: &str) -> Filter {
    Filter::eq("PartitionKey", partition)
}

/// Partitions a, b, ba, c with rows 1, 10, 2, 3. Only the entities of b have the property N, 10 to 13.
async fn grid(h: &Harness) -> TestTable {
    let table = h.table().await;
    for partition in ["a", "b", "ba", "c"] {
        let rows = ["1", "10", "2", "3"].into_iter().zip(10..);
        table
            .load(partition, rows.map(|(row, n)| numbered(partition, row, n)))
            .await;
    }
    table
}

fn numbered(partition: &str, row: &str, n: i32) -> table_core::model::Entity {
    let plain = entity(partition, row);
    if partition == "b" {
        plain.with("N", n)
    } else {
        plain
    }
}

/// Asserts the access path of the filter, and the keys that the query finds, as partition and row in one text.
async fn finds(table: &TestTable, path: AccessPath, filter: Filter, expected: &[&str]) {
    let query = Query::new().with_filter(filter);
    assert_eq!(query.access_path(), path, "{query:?}");
    let found = table.keys(&query).await;
    let found: Vec<String> = found
        .iter()
        .map(|key| format!("{}{}", key.partition(), key.row()))
        .collect();
    assert_eq!(found, expected, "{query:?}");
}
