//! Reads tables by several scans at once, and deletes what a scan finds.

use std::ops::Bound;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{Entity, IfMatch, PartitionKey, TableName, key_order};
use table_core::query::{Continuation, Filter, Query, Range, ReadablePage, Select};
use table_core::store::{
    CycleDetector, Error, Operation, Result, TableStore, TableStoreExt as _, Written,
};

use super::{BulkOptions, BulkOutcome, BulkSummary, BulkWriter};
use crate::spread;

/// Splits all partitions at these PartitionKeys: returns one range more than there are distinct keys.
///
/// The keys may be in any order. The service does not tell which partitions exist: choose keys that split the data
/// about evenly.
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
    let starts =
        std::iter::once(Bound::Unbounded).chain(points.iter().cloned().map(Bound::Included));
    let ends = points
        .iter()
        .cloned()
        .map(Bound::Excluded)
        .chain([Bound::Unbounded]);
    starts
        .zip(ends)
        .map(|(from, to)| Range { from, to })
        .collect()
}

/// Reads several ranges of partitions at once. The entities of one range are in order; entities of different ranges mix.
///
/// 1 request per page of each range. At most `concurrency` ranges are read at a time, with one page of each in memory.
/// A range adds up to two comparisons to the query's filter. The query's `top` bounds each range.
///
/// # Errors
/// An error is an item of the stream; it ends its range, and the other ranges continue.
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
pub fn scan_partitions<S: TableStore>(
    store: S,
    table: &TableName,
    query: &Query,
    ranges: Vec<Range>,
    concurrency: usize,
) -> impl Stream<Item = Result<Entity>> + Send + use<S> {
    let store = store.into_shared();
    let queries: Vec<Query> = ranges
        .into_iter()
        .map(|range| within(query, range))
        .collect();
    let table = table.clone();
    let scans =
        stream::iter(queries).map(move |query| scan(Arc::clone(&store), table.clone(), query));
    scans.flatten_unordered(concurrency.max(1))
}

/// Where a scan continues.
struct ScanCursor {
    query: Query,
    from: Option<Continuation>,
    /// The number of entities read.
    read: usize,
    /// A store that repeats a continuation token would make the scan endless.
    cycles: CycleDetector,
}

/// Reads all entities of a query; the stream owns the store.
pub(super) fn scan(
    store: Arc<dyn TableStore>,
    table: TableName,
    query: Query,
) -> impl Stream<Item = Result<Entity>> + Send + Unpin {
    let start = ScanCursor {
        query,
        from: None,
        read: 0,
        cycles: CycleDetector::default(),
    };
    let pages = stream::unfold(Some(start), move |cursor| {
        let (store, table) = (Arc::clone(&store), table.clone());
        async move { next_page(&*store, &table, cursor?).await }
    });
    Box::pin(pages.flat_map(stream::iter))
}

/// Reads a page, and says where the scan continues.
async fn next_page(
    store: &dyn TableStore,
    table: &TableName,
    mut cursor: ScanCursor,
) -> Option<(Vec<Result<Entity>>, Option<ScanCursor>)> {
    let left = cursor.query.top.map(|top| top.saturating_sub(cursor.read));
    if left == Some(0) {
        return None;
    }
    let query = Query {
        top: left,
        ..cursor.query.clone()
    };
    let page = match store
        .query(table, &query, cursor.from.as_ref())
        .await
        .and_then(ReadablePage::into_page)
    {
        Ok(page) => page,
        Err(error) => return Some((vec![Err(error)], None)),
    };
    let rows = page.items.len();
    let mut entities: Vec<_> = page.items.into_iter().map(Ok).collect();
    let Some(next) = page.continuation else {
        return Some((entities, None));
    };
    if let Err(error) = cursor.cycles.add(&next, rows) {
        entities.push(Err(error));
        return Some((entities, None));
    }
    Some((
        entities,
        Some(ScanCursor {
            from: Some(next),
            read: cursor.read + rows,
            ..cursor
        }),
    ))
}

/// The query, with its partitions limited to the range.
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
    Query {
        filter: Filter::and_maybe(keys, query.filter.clone()),
        ..query.clone()
    }
}

/// Whether a deletion takes entities that another writer changes after the deletion has found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// A changed entity stays, and is reported with a failed precondition: it may no longer match.
    Required,
    /// A changed entity is deleted too.
    Ignored,
}

/// Deletes all rows of a partition in any version, including rows that patterns keep there.
///
/// 1 request per page of keys and 1 per group of 100 rows. If the partition is empty, up to 3 more requests check that
/// it is not spread over buckets. A row that another writer deletes during the call counts as written. A row that
/// another writer adds during the call may stay. Blobs of large entities stay until
/// [`Table::collect_blobs`](crate::Table::collect_blobs) removes them.
///
/// # Errors
/// A failed read; a row that an index may cover; a partition that is spread over buckets. Failed deletes are in the
/// summary.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::bulk::{BulkOptions, delete_partition};
///
/// let (store, table) = (Arc::new(MemoryStore::new()), TableName::new("Employees")?);
/// store.create_table(&table).await?;
/// store.write(&table, Operation::Insert(Entity::new("Sales", "1")?)).await?;
/// let sales = PartitionKey::new("Sales")?;
/// let summary = delete_partition(store, &table, &sales, BulkOptions::default()).await?;
/// assert_eq!(summary.written, 1);
/// # Ok(())
/// # }
/// ```
pub async fn delete_partition(
    store: impl TableStore,
    table: &TableName,
    partition: &PartitionKey,
    options: BulkOptions,
) -> Result<BulkSummary> {
    let store = store.into_shared();
    let all = Filter::eq(Filter::PARTITION_KEY, partition.as_str());
    let deleted = delete_where(Arc::clone(&store), table, all, Unchanged::Ignored, options).await?;
    let is_empty = deleted.written + deleted.failed + deleted.ambiguous == 0;
    // Nothing found may mean that the rows are in buckets: no deletion must look successful that deleted
    // nothing.
    if is_empty && spread::is_there(&*store, table, partition.as_str(), None).await? {
        return Err(Error::misuse(format!(
            "the partition '{partition}' of '{table}' is spread over buckets: delete each stored partition \
             (`SpreadTable::stored_partitions`)"
        )));
    }
    Ok(deleted)
}

/// Deletes the entities that match a filter.
///
/// 1 request per page of keys and 1 per group of 100 entities of one partition. The deletion is not atomic and not a
/// snapshot. Blobs of large entities stay until [`Table::collect_blobs`](crate::Table::collect_blobs) removes them.
///
/// # Errors
/// A failed read; an entity that an index may cover. Failed deletes are in the summary.
pub async fn delete_where(
    store: impl TableStore,
    table: &TableName,
    filter: Filter,
    unchanged: Unchanged,
    options: BulkOptions,
) -> Result<BulkSummary> {
    let keys = Query::new()
        .with_filter(filter)
        .with_select(Select::new([Filter::PARTITION_KEY]));
    let store = store.into_shared();
    let found = scan(Arc::clone(&store), table.clone(), keys);
    let name = table.clone();
    let deletes =
        found.map(move |entity| Ok((name.clone(), delete_operation(&entity?, unchanged)?)));
    let deleted = BulkWriter::with_options(store, options)
        .outcomes(deletes)
        .map_ok(not_found_is_deleted);
    BulkSummary::of(deleted).await
}

pub(super) fn delete_operation(entity: &Entity, unchanged: Unchanged) -> Result<Operation> {
    let version = match unchanged {
        Unchanged::Required => entity.version()?,
        Unchanged::Ignored => IfMatch::Any,
    };
    Ok(Operation::Delete(entity.key().clone(), version))
}

/// Counts an entity that another writer has deleted as deleted.
fn not_found_is_deleted(mut outcome: BulkOutcome) -> BulkOutcome {
    if outcome
        .result
        .as_ref()
        .is_err_and(Error::is_certainly_missing)
    {
        outcome.result = Ok(Written::deleted());
    }
    outcome
}
