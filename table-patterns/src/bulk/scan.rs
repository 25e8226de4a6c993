use std::ops::Bound;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use table_core::model::{Entity, TableName, key_order};
use table_core::query::{Filter, Query, Range};
use table_core::store::{Result, TableStore};

/// Ranges of partitions that split a table at these PartitionKeys: one more than there are keys.
///
/// Any order will do. There is no way to ask a service where its partitions are: choose keys that
/// split your data about evenly.
///
/// ```
/// let ranges = table_patterns::bulk::split_partitions(["F", "P"]);
/// assert_eq!(ranges.len(), 3);
/// assert!(ranges[1].contains("Marketing"));
/// ```
pub fn split_partitions<P: Into<String>>(points: impl IntoIterator<Item = P>) -> Vec<Range> {
    let mut points: Vec<String> = points.into_iter().map(Into::into).collect();
    points.sort_by(|a, b| key_order::compare(a, b));
    points.dedup();
    let starts = std::iter::once(Bound::Unbounded).chain(points.iter().cloned().map(Bound::Included));
    let ends = points.iter().cloned().map(Bound::Excluded).chain([Bound::Unbounded]);
    starts.zip(ends).map(|(from, to)| Range { from, to }).collect()
}

/// Reads several ranges of partitions at once: the entities as they come, in order within a range only.
///
/// One request a page of each range, at most `parallelism` ranges at a time, and a page of each in memory. A
/// range costs up to two comparisons of the filter. `top` bounds each range.
///
/// An error ends that range; the others go on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use futures_util::TryStreamExt;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::bulk::{scan_partitions, split_partitions};
///
/// let (store, table) = (Arc::new(MemoryStore::new()), TableName::new("Employees")?);
/// store.create_table(&table).await?;
/// store.write(&table, Operation::Insert(Entity::new("Sales", "1")?)).await?;
/// let ranges = split_partitions(["F", "P"]);
/// let all: Vec<_> = scan_partitions(store, &table, &Query::new(), ranges, 3).try_collect().await?;
/// assert_eq!(all.len(), 1);
/// # Ok(())
/// # }
/// ```
pub fn scan_partitions(
    store: Arc<dyn TableStore>,
    table: &TableName,
    query: &Query,
    ranges: Vec<Range>,
    parallelism: usize,
) -> impl Stream<Item = Result<Entity>> + Send + use<> {
    let queries: Vec<Query> = ranges.into_iter().map(|range| within(query, range)).collect();
    let table = table.clone();
    let scans = stream::iter(queries).map(move |query| scan(Arc::clone(&store), table.clone(), query));
    scans.flatten_unordered(parallelism.max(1))
}

/// The entities of a query, from a store that the stream keeps.
pub(super) fn scan(
    store: Arc<dyn TableStore>,
    table: TableName,
    query: Query,
) -> impl Stream<Item = Result<Entity>> + Send + Unpin {
    let pages = stream::unfold(Some((query, None, None)), move |rest| {
        let (store, table) = (Arc::clone(&store), table.clone());
        async move { next_page(&*store, &table, rest?).await }
    });
    Box::pin(pages.flat_map(stream::iter))
}

type Rest = (Query, Option<table_core::query::Continuation>, Option<usize>);

/// A page, and what is left to read after it.
async fn next_page(
    store: &dyn TableStore,
    table: &TableName,
    (query, from, read): Rest,
) -> Option<(Vec<Result<Entity>>, Option<Rest>)> {
    let read = read.unwrap_or_default();
    let left = query.top.map(|top| top.saturating_sub(read));
    if left == Some(0) {
        return None;
    }
    let page = match store.query(table, &Query { top: left, ..query.clone() }, from.as_ref()).await {
        Ok(page) => page,
        Err(error) => return Some((vec![Err(error)], None)),
    };
    let read = read + page.items.len();
    let rest = page.continuation.map(|next| (query, Some(next), Some(read)));
    Some((page.items.into_iter().map(Ok).collect(), rest))
}

fn within(query: &Query, range: Range) -> Query {
    let start = match range.from {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(Filter::ge(Filter::PARTITION_KEY, key)),
        Bound::Excluded(key) => Some(Filter::gt(Filter::PARTITION_KEY, key)),
    };
    let end = match range.to {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(Filter::le(Filter::PARTITION_KEY, key)),
        Bound::Excluded(key) => Some(Filter::lt(Filter::PARTITION_KEY, key)),
    };
    let keys = Filter::and_maybe(start, end);
    Query { filter: Filter::and_maybe(keys, query.filter.clone()), ..query.clone() }
}
