//! Queries of a logical partition: a merge of its buckets in the order of RowKeys.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{PartitionKey, key_order};
use table_core::query::{
    Continuation, Filter, Page, Position, Query, ReadablePage, Select, UnreadableEntity,
};
use table_core::store::{CycleDetector, Error, Result, TableStore as _};
use table_core::typed::{PartitionIn, Spread, TableEntity, TableQuery};

use super::place::{bucket, logical_key, stored_partition};
use super::{SpreadRow, SpreadTable};
use crate::rows::{readable, stream_readable};

/// A row, or the reason why it cannot be read.
type Read<T> = std::result::Result<SpreadRow<T>, UnreadableEntity>;
type Rows<I> = Pin<Box<dyn Stream<Item = Result<I>> + Send>>;
pub(super) type Narrow<T> =
    Arc<dyn Fn(TableQuery<SpreadRow<T>>) -> TableQuery<SpreadRow<T>> + Send + Sync>;

/// The number of entities in a page without a limit.
const PAGE: usize = 1000;
/// Marks the continuation tokens of a logical partition: no other query projects to this name, so no other query accepts
/// the token.
const SPREAD: &str = "~~spread";

/// A query of a logical partition, in the order of RowKeys. [`SpreadTable::query`] makes it; it needs a
/// [`partition`](Self::partition), and can run more than once.
///
/// # Cost
/// 1 request per page of each bucket. The first pages of several buckets are read at once
/// ([`SpreadTable::with_concurrency`]); each next page is read while the page before is consumed. Two pages of each bucket
/// are in memory.
///
/// # Consistency
/// During a migration, a query misses an entity that is moved between the reads of its two buckets. Point reads miss none.
#[must_use = "a query does nothing until it is run"]
pub struct SpreadQuery<T> {
    pub(super) table: SpreadTable<T>,
    pub(super) of: Option<PartitionKey>,
    pub(super) narrow: Narrow<T>,
    pub(super) limit: Option<usize>,
}

impl<T: TableEntity> SpreadTable<T> {
    /// A query of a logical partition, which the caller can narrow. No request. See [`SpreadQuery`].
    pub fn query(&self) -> SpreadQuery<T> {
        SpreadQuery {
            table: self.clone(),
            of: None,
            narrow: Arc::new(|rows| rows),
            limit: None,
        }
    }

    /// The rows of a logical partition in the order of their RowKeys.
    pub(super) fn merged(
        &self,
        of: &PartitionKey,
        narrow: &Narrow<T>,
    ) -> impl Stream<Item = Result<SpreadRow<T>>> + Send + use<T> {
        let rows = |key: PartitionKey| {
            let rows = narrow(self.table.query().require_order().prefetch())
                .partition(key)
                .stream();
            rows.map_ok(Ok).boxed()
        };
        self.of_buckets(of, &rows)
            .map(|row| row?.map_err(|unreadable| unreadable.error))
    }

    /// The rows of a logical partition in the order of their RowKeys, with the unreadable ones. Reads at most `limit` of each bucket, as far
    /// as they are needed.
    fn merged_readable(
        &self,
        of: &PartitionKey,
        narrow: &Narrow<T>,
        limit: usize,
    ) -> impl Stream<Item = Result<Read<T>>> + Send + use<T> {
        self.of_buckets(of, &|key| {
            readable_rows(
                narrow(self.table.query().require_order())
                    .partition(key)
                    .limit_to(limit),
                limit,
            )
        })
    }

    /// The rows of all buckets in the order of their RowKeys.
    fn of_buckets(
        &self,
        of: &PartitionKey,
        rows: &dyn Fn(PartitionKey) -> Rows<Read<T>>,
    ) -> impl Stream<Item = Result<Read<T>>> + Send + use<T> {
        let bucket = |bucket| match PartitionKey::new(stored_partition(of.as_str(), bucket)) {
            Ok(key) => rows(key),
            Err(error) => stream::iter([Err(error)]).boxed(),
        };
        let buckets: Vec<_> = self.buckets().map(bucket).collect();
        stream::once(Merge::start(buckets, self.spread, self.concurrency)).flat_map(|merge| {
            stream::unfold(merge, |mut merge| async {
                let row = merge.next().await?;
                Some((row, merge))
            })
        })
    }
}

/// At most `limit` rows of a bucket in the order of their RowKeys, with the unreadable ones.
fn readable_rows<T: TableEntity>(query: TableQuery<SpreadRow<T>>, limit: usize) -> Rows<Read<T>> {
    let state = Some((query, None, limit, CycleDetector::default()));
    let pages = stream::try_unfold(state, |state| async move {
        let Some((query, from, left, mut cycles)) = state else {
            return Ok::<_, Error>(None);
        };
        let ReadablePage { page, unreadable } = query.readable_page(from.as_ref()).await?;
        let unreadable = unreadable.into_iter().map(|row| {
            // As the readable rows: with the logical key.
            Err(UnreadableEntity {
                key: logical_key(&row.key).unwrap_or(row.key),
                ..row
            })
        });
        let mut rows: Vec<Read<T>> = page.items.into_iter().map(Ok).chain(unreadable).collect();
        rows.sort_by(|a, b| key_order::compare(row_key(a), row_key(b)));
        let left = left.saturating_sub(rows.len());
        let next = match page.continuation.filter(|_| left > 0) {
            Some(from) => {
                cycles.add(&from, rows.len())?;
                Some((query, Some(from), left, cycles))
            }
            None => None,
        };
        Ok(Some((stream::iter(rows.into_iter().map(Ok)), next)))
    });
    pages.try_flatten().boxed()
}

fn row_key<T>(row: &Read<T>) -> &str {
    match row {
        Ok(row) => row.entity.key().row(),
        Err(row) => row.key.row(),
    }
}

impl<T: TableEntity> SpreadQuery<T> {
    /// Selects the logical partition. A query needs one: buckets are merged within a partition.
    pub fn partition(mut self, of: impl PartitionIn<T>) -> Self {
        self.of = Some(of.partition_key().clone());
        self
    }

    /// Narrows the query of each bucket by rows, a filter or a page size. Keys of `T` need a `cast()`. A `limit` bounds the
    /// rows read of each bucket.
    ///
    /// If the service does not sort, a query is an error, unless this function sets `sorted_on_client`, which reads all rows
    /// first.
    pub fn narrow(
        mut self,
        narrow: impl Fn(TableQuery<SpreadRow<T>>) -> TableQuery<SpreadRow<T>> + Send + Sync + 'static,
    ) -> Self {
        self.narrow = Arc::new(narrow);
        self
    }

    /// Returns at most this many entities, and reads at most as many of each bucket. A limit is the size of a
    /// [`page`](Self::page).
    pub const fn limit(mut self, entities: usize) -> Self {
        self.limit = Some(entities);
        self
    }

    /// The results as a stream. An error ends the stream.
    ///
    /// # Errors
    /// As items: errors of the store; a row that is not a `T`; no partition.
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T> {
        let rows = match &self.of {
            Some(of) => self.table.merged(of, &self.bounded(self.limit)).boxed(),
            None => stream::iter([Err(without_partition())]).boxed(),
        };
        let rows: Rows<SpreadRow<T>> = rows;
        Box::pin(
            rows.map(|row| row.and_then(SpreadRow::decode))
                .take(self.limit.unwrap_or(usize::MAX)),
        )
    }

    /// Reads all results into memory.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// Reads the first result; `None` if there is no result.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn first(&self) -> Result<Option<T>> {
        let limit = self.limit.map_or(1, |limit| limit.min(1));
        self.clone().limit(limit).stream().try_next().await
    }

    /// Counts the results by reading them.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn count(&self) -> Result<usize> {
        self.stream()
            .try_fold(0, |count, _| std::future::ready(Ok(count + 1)))
            .await
    }

    /// Reads one page, from the start or from a continuation token: as many entities as the [`limit`](Self::limit), or 1000.
    /// The token needs the same query, except for the limit.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); a continuation token of another query.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<T>> {
        let merged = |of: &PartitionKey, narrow: &Narrow<T>, _| {
            self.table.merged(of, narrow).map_ok(Ok).boxed()
        };
        let (rows, continuation) = self.page_of_rows(from, merged).await?;
        let decode = |row: Read<T>| row.map_err(|unreadable| unreadable.error)?.decode();
        Ok(Page {
            items: rows.into_iter().map(decode).collect::<Result<_>>()?,
            continuation,
        })
    }

    /// Reads one page like [`page`](Self::page), and lists the rows of it that cannot be read, with keys and errors: rows that are not a `T`, and
    /// rows that the store cannot decrypt.
    ///
    /// # Errors
    /// As [`page`](Self::page), without the errors of rows; the query is sorted on the client (see [`narrow`](Self::narrow)).
    pub async fn readable_page(&self, from: Option<&Continuation>) -> Result<ReadablePage<T>> {
        let merged = |of: &PartitionKey, narrow: &Narrow<T>, limit| {
            self.table.merged_readable(of, narrow, limit).boxed()
        };
        let (rows, continuation) = self.page_of_rows(from, merged).await?;
        let read = rows.into_iter().map(|row| match row {
            Ok(row) => (row.entity.key().clone(), row.decode()),
            Err(UnreadableEntity { key, error }) => (key, Err(error)),
        });
        Ok(readable(read, continuation))
    }

    /// Returns a stream of the results that goes on after an entity that cannot be read: such an entity is an `Err` with its key within an
    /// `Ok`. An error of the store ends the stream. The requests of its [pages](Self::page): each begins in all buckets. The unreadable
    /// entities of a page come after the others, and do not count towards a [`limit`](Self::limit).
    ///
    /// # Errors
    /// The errors of [`readable_page`](Self::readable_page), as items.
    pub fn stream_readable(
        &self,
    ) -> impl Stream<Item = Result<Result<T, UnreadableEntity>>> + Send + Unpin + use<T> {
        stream_readable(
            self.clone(),
            self.limit,
            Self::limit,
            |query, from| async move { query.readable_page(from.as_ref()).await },
        )
    }

    /// The rows of a page.
    async fn page_of_rows(
        &self,
        from: Option<&Continuation>,
        merged: impl FnOnce(&PartitionKey, &Narrow<T>, usize) -> Rows<Read<T>>,
    ) -> Result<(Vec<Read<T>>, Option<Continuation>)> {
        let of = self.of.as_ref().ok_or_else(without_partition)?;
        let (store, name, query) = (
            self.table.store(),
            self.table.name(),
            self.fingerprinted(of)?,
        );
        let after = match from {
            Some(from) => Some(from.position(store.profile(), name, &query)?.first.clone()),
            None => None,
        };
        let limit = self.limit.unwrap_or(PAGE);
        // One row more than the limit shows whether there are more.
        let with_next = limit.saturating_add(1);
        let bounded = self.bounded(Some(with_next));
        let narrow: Narrow<T> = match after {
            None => bounded,
            Some(after) => {
                Arc::new(move |rows| bounded(rows).raw_filter(Filter::gt(Filter::ROW_KEY, &*after)))
            }
        };
        let mut rows: Vec<Read<T>> = merged(of, &narrow, with_next)
            .take(with_next)
            .try_collect()
            .await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows
            .last()
            .filter(|_| more)
            .map(|row| row_key(row).to_owned());
        let continuation = last.map(|first| {
            Continuation::new(
                store.profile(),
                name,
                &query,
                Position {
                    first,
                    second: None,
                },
            )
        });
        Ok((rows, continuation))
    }

    /// The text that identifies the query: a cursor is valid only for queries with the same text.
    #[cfg(feature = "paging")]
    pub(crate) fn identity(&self) -> Result<String> {
        let of = self.of.as_ref().ok_or_else(without_partition)?;
        let query = self.fingerprinted(of)?;
        Ok(crate::rows::query_identity(
            self.table.store().profile(),
            self.table.name(),
            &query,
        ))
    }

    /// The query that identifies this query in a continuation token.
    fn fingerprinted(&self, of: &PartitionKey) -> Result<Query> {
        let query = (self.narrow)(self.table.table.query())
            .partition(of.clone())
            .to_query()?;
        Ok(query.with_select(Select::new([SPREAD])))
    }

    pub(super) fn bounded(&self, limit: Option<usize>) -> Narrow<T> {
        let narrow = Arc::clone(&self.narrow);
        match limit {
            None => narrow,
            Some(limit) => Arc::new(move |rows| narrow(rows).limit_to(limit)),
        }
    }
}

pub(super) fn without_partition() -> Error {
    Error::misuse(
        "a query of a spread table merges the buckets of one partition: give the partition (`SpreadQuery::partition`)",
    )
}

impl<T> Clone for SpreadQuery<T> {
    fn clone(&self) -> Self {
        let (table, narrow) = (self.table.clone(), Arc::clone(&self.narrow));
        Self {
            table,
            of: self.of.clone(),
            narrow,
            limit: self.limit,
        }
    }
}

impl<T> fmt::Debug for SpreadQuery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpreadQuery")
            .field("table", &self.table)
            .field("partition", &self.of)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The rows of a bucket, and its first row.
type Opened<T> = (Rows<Read<T>>, Option<Result<Read<T>>>);

/// Reads the first row of a bucket.
fn open<T: TableEntity>(mut bucket: Rows<Read<T>>) -> BoxFuture<'static, Opened<T>> {
    async move {
        let first = bucket.next().await;
        (bucket, first)
    }
    .boxed()
}

/// Merges the buckets: a heap holds the next row of each bucket.
struct Merge<T> {
    buckets: Vec<Rows<Read<T>>>,
    next_rows: BinaryHeap<Reverse<NextRow<T>>>,
    failure: Option<Error>,
    /// The RowKey that was returned last. An entity that is being moved is in two buckets, and is returned once.
    last: Option<String>,
    /// The present spread of the table, by which a row is in its new or its previous bucket.
    now: Spread,
}

/// The next row of a bucket.
struct NextRow<T> {
    row: Read<T>,
    bucket: usize,
    /// Whether the row is in its previous bucket. The row in the new bucket comes first.
    is_old: bool,
}

impl<T: TableEntity> Merge<T> {
    /// Opens the buckets, several at a time, and reads the first row of each.
    async fn start(buckets: Vec<Rows<Read<T>>>, now: Spread, concurrency: usize) -> Self {
        let opened: Vec<BoxFuture<'static, Opened<T>>> = buckets.into_iter().map(open).collect();
        let opened: Vec<Opened<T>> = stream::iter(opened).buffered(concurrency).collect().await;
        let (buckets, first): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
        let mut this = Self {
            buckets,
            next_rows: BinaryHeap::new(),
            failure: None,
            last: None,
            now,
        };
        first
            .into_iter()
            .enumerate()
            .for_each(|(bucket, row)| this.push(bucket, row));
        this
    }

    /// Adds the next row of a bucket; `None` at the end of the bucket.
    fn push(&mut self, number: usize, row: Option<Result<Read<T>>>) {
        match row {
            Some(Ok(row)) => {
                let is_old = bucket(row_key(&row), self.now) as usize != number;
                self.next_rows.push(Reverse(NextRow {
                    row,
                    bucket: number,
                    is_old,
                }));
            }
            Some(Err(error)) => self.failure = Some(error),
            None => {}
        }
    }

    async fn next(&mut self) -> Option<Result<Read<T>>> {
        loop {
            // A bucket that failed may have the next row, so no row of another bucket may be returned.
            if let Some(error) = self.failure.take() {
                self.next_rows.clear();
                return Some(Err(error));
            }
            let Reverse(NextRow { row, bucket, .. }) = self.next_rows.pop()?;
            // The invariant of the merge: `next_rows` has the next row of every bucket that has one. So the bucket of the popped row is read
            // before the row is returned; otherwise the following call would miss a smaller row of that bucket.
            let next = self.buckets[bucket].next().await;
            self.push(bucket, next);
            // During a migration both buckets have the row, and the order puts the row of the new bucket first: the old one is left out.
            let key = row_key(&row);
            if self.last.as_deref() != Some(key) {
                self.last = Some(key.to_owned());
                return Some(Ok(row));
            }
        }
    }
}

impl<T> Ord for NextRow<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rows = key_order::compare(row_key(&self.row), row_key(&other.row));
        rows.then(self.is_old.cmp(&other.is_old))
            .then(self.bucket.cmp(&other.bucket))
    }
}

impl<T> PartialOrd for NextRow<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for NextRow<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for NextRow<T> {}
