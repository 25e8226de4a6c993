//! Pages: every row once, whatever the page size and the concurrent writes.

use std::collections::BTreeSet;

use table_core::model::{Entity, IfMatch, Key};
use table_core::query::{Continuation, Filter, Query, Select};
use table_core::store::{ErrorKind, KeyOrder, Operation, TableStore};

use super::table::{entity, key, refused};
use super::{Harness, TestTable};

/// Pages of any size return each row once, in order, across several partitions.
pub(crate) async fn pages_of_any_size_return_each_row_once(h: &Harness) {
    let table = three_partitions(h, 7).await;
    let expected = table.keys(&Query::new()).await;
    assert_eq!(expected.len(), 21);
    for top in [1, 2, 3, 7, 20, 21, 22] {
        let mut seen = walk(&table, &Query::new().with_top(top)).await;
        if h.profile().order == KeyOrder::Unsorted {
            seen.sort();
        }
        assert_eq!(seen, expected, "pages of {top}");
    }
}

/// A large table is returned in pages of at most the size that the service allows.
pub(crate) async fn pages_have_at_most_the_size_of_the_service(h: &Harness) {
    let table = h.table().await;
    let count = h.scale().rows;
    table
        .load("p", (0..count).map(|n| entity("p", &format!("{n:06}"))))
        .await;
    let page = table.page(&Query::new(), None).await;
    assert!(page.items.len() <= h.profile().page_size);
    let asked = table.page(&Query::new().with_top(count), None).await;
    assert!(asked.items.len() <= h.profile().page_size);
    let seen: BTreeSet<Key> = walk(&table, &Query::new()).await.into_iter().collect();
    assert_eq!(seen.len(), count);
}

/// A filter with few matches finds them across empty pages.
pub(crate) async fn a_filter_finds_its_match_across_empty_pages(h: &Harness) {
    let table = h.table().await;
    let count = h.scale().rows;
    let rows = (0..count).map(|n| entity("p", &format!("{n:06}")).with("Last", n + 1 == count));
    table.load("p", rows).await;
    let found = table
        .keys(&Query::new().with_filter(Filter::eq("Last", true)))
        .await;
    assert_eq!(found, [key("p", &format!("{:06}", count - 1))]);
}

/// The next page keeps the filter, the projection and the range.
pub(crate) async fn the_next_page_keeps_filter_and_projection(h: &Harness) {
    let table = three_partitions(h, 7).await;
    let filter = Filter::ge("PartitionKey", "b")
        .and(Filter::gt("RowKey", "2"))
        .and(Filter::ne("N", 4));
    let query = Query::new()
        .with_filter(filter)
        .with_select(Select::new(["N"]));
    let expected = table.keys(&query).await;
    assert_eq!(expected.len(), 8);
    let mut seen = walk(&table, &query.with_top(2)).await;
    seen.sort();
    assert_eq!(seen, expected);
}

/// A continuation token belongs to its table, filter and projection. The page size can change.
pub(crate) async fn a_continuation_belongs_to_its_query(h: &Harness) {
    let table = three_partitions(h, 3).await;
    let other = three_partitions(h, 3).await;
    let query = Query::new().with_filter(Filter::ge("N", 0));
    let first = table.page(&query.clone().with_top(2), None).await;
    let from = first
        .continuation
        .expect("two of nine rows are not the end");
    let filter = Query::new().with_filter(Filter::ge("N", 1));
    let select = query.clone().with_select(Select::new(["N"]));
    for (table, query) in [
        (&table, &filter),
        (&table, &select),
        (&table, &Query::new()),
        (&other, &query),
    ] {
        let error = refused(h.store().query(table.name(), query, Some(&from)).await);
        assert!(
            matches!(error.kind(), ErrorKind::InvalidContinuation(_)),
            "{error}"
        );
    }
    let mut rest = rest(&table, &query.with_top(5), Some(from)).await;
    rest.sort();
    rest.dedup();
    assert_eq!(rest.len(), 9 - first.items.len());
}

/// A continuation token holds the whole state: a second use returns the same page.
pub(crate) async fn a_page_can_be_read_twice(h: &Harness) {
    let table = three_partitions(h, 3).await;
    let query = Query::new().with_top(2);
    let from = table.page(&query, None).await.continuation;
    let first = rest(&table, &query, from.clone()).await;
    assert_eq!(rest(&table, &query, from).await, first);
}

/// Concurrent inserts and deletes do not repeat or hide other rows.
pub(crate) async fn concurrent_writes_do_not_hide_or_repeat_rows(h: &Harness) {
    let table = three_partitions(h, 7).await;
    let stable: BTreeSet<Key> = table.keys(&Query::new()).await.into_iter().collect();
    let query = Query::new().with_top(2);
    let (mut seen, mut from, mut round) = (Vec::new(), None, 0);
    loop {
        let page = table.page(&query, from.as_ref()).await;
        seen.extend(page.items.iter().map(|e| e.key().clone()));
        let Some(next) = page.continuation else { break };
        from = Some(next);
        for partition in ["a", "b", "c"] {
            for row in ["", "35", "9"] {
                come_and_go(&table, entity(partition, row), round).await;
            }
        }
        round += 1;
    }
    let stable_seen: Vec<_> = seen.iter().filter(|key| stable.contains(key)).collect();
    let distinct: BTreeSet<_> = stable_seen.iter().copied().cloned().collect();
    assert_eq!(stable_seen.len(), distinct.len(), "a row was seen twice");
    assert_eq!(distinct, stable);
}

/// The first row of the next page can be deleted before the page is read.
pub(crate) async fn the_first_row_of_the_next_page_can_be_deleted(h: &Harness) {
    let table = three_partitions(h, 7).await;
    let all = table.keys(&Query::new()).await;
    let query = Query::new().with_top(10);
    let page = table.page(&query, None).await;
    let seen: Vec<Key> = page.items.iter().map(|e| e.key().clone()).collect();
    let unseen: Vec<Key> = all.into_iter().filter(|key| !seen.contains(key)).collect();
    let (gone, left) = unseen.split_first().expect("more than a page");
    table
        .write(Operation::Delete(gone.clone(), IfMatch::Any))
        .await
        .expect("a delete");
    let mut found = rest(&table, &query, page.continuation).await;
    found.sort();
    assert_eq!(found, left);
}

async fn come_and_go(table: &TestTable, entity: Entity, round: usize) {
    let key = entity.key().clone();
    if round.is_multiple_of(2) {
        table.put(Operation::InsertOrReplace(entity)).await;
    } else {
        table
            .write(Operation::Delete(key, IfMatch::Any))
            .await
            .expect("a delete");
    }
}

/// Partitions a, b, c with rows 1, 2, …, and `N` counted from 0.
async fn three_partitions(h: &Harness, rows: i32) -> TestTable {
    let table = h.table().await;
    for partition in ["a", "b", "c"] {
        table
            .load(
                partition,
                (0..rows).map(|n| entity(partition, &(n + 1).to_string()).with("N", n)),
            )
            .await;
    }
    table
}

async fn walk(table: &TestTable, query: &Query) -> Vec<Key> {
    rest(table, query, None).await
}

/// Reads the keys from a continuation token on. Each token is converted to text and back.
async fn rest(table: &TestTable, query: &Query, mut from: Option<Continuation>) -> Vec<Key> {
    let mut seen = Vec::new();
    loop {
        let page = table.page(query, from.as_ref()).await;
        assert!(query.top.is_none_or(|top| page.items.len() <= top));
        seen.extend(page.items.iter().map(|e| e.key().clone()));
        let Some(next) = page.continuation else {
            return seen;
        };
        from = Some(next.to_string().parse().expect("a stored continuation"));
    }
}
