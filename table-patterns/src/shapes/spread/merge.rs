//! Queries over all buckets, in the order of row keys.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{PartitionKey, key_order};
use table_core::query::{Continuation, Filter, Page, Position, Query, Select};
use table_core::store::{Error, Result, TableStore as _};
use table_core::typed::{PartitionIn, Spread, TableEntity, TableQuery};

use super::place::{bucket, partition};
use super::{SpreadRow, SpreadTable};

type Rows<T> = Pin<Box<dyn Stream<Item = Result<SpreadRow<T>>> + Send>>;
type Narrow<T> = Arc<dyn Fn(TableQuery<SpreadRow<T>>) -> TableQuery<SpreadRow<T>> + Send + Sync>;

/// The entities of a page unless a limit says otherwise.
const PAGE: usize = 1000;
/// Tells a continuation of a logical partition from one of the store: no query projects to it.
const SPREAD: &str = "~~spread";

/// A query on a logical partition, in the order of its RowKeys: made by [`SpreadTable::query`], given a
/// [`partition`](Self::partition), then run. It can be run more than once.
///
/// # Cost
/// One request a page of each bucket, the first of as many at the same time as [`SpreadTable::with_concurrency`] says, then
/// the next while one is consumed. Two pages of each bucket are in memory.
///
/// # Consistency
/// While a migration runs, an entity that is moved between the reads of its two buckets is missed; points miss none.
#[must_use = "a query does nothing until it is run"]
pub struct SpreadQuery<T> {
    table: SpreadTable<T>,
    of: Option<PartitionKey>,
    narrow: Narrow<T>,
    limit: Option<usize>,
}

impl<T: TableEntity> SpreadTable<T> {
    /// Everything of a logical partition, until it is narrowed down. See [`SpreadQuery`].
    pub fn query(&self) -> SpreadQuery<T> {
        SpreadQuery { table: self.clone(), of: None, narrow: Arc::new(|rows| rows), limit: None }
    }

    /// The rows of a logical partition in the order of their RowKeys.
    fn merged(
        &self,
        of: &PartitionKey,
        narrow: &Narrow<T>,
    ) -> impl Stream<Item = Result<SpreadRow<T>>> + Send + use<T> {
        let last = self.previous.map_or(0, |previous| previous.buckets).max(self.spread.buckets);
        let buckets: Vec<Rows<T>> = (0..last).map(|bucket| self.bucket(of, bucket, narrow)).collect();
        stream::once(Merge::start(buckets, self.spread, self.concurrency)).flat_map(|merge| {
            stream::unfold(merge, |mut merge| async {
                let row = merge.next().await?;
                Some((row, merge))
            })
        })
    }

    fn bucket(&self, of: &PartitionKey, bucket: u32, narrow: &Narrow<T>) -> Rows<T> {
        match PartitionKey::new(partition(of.as_str(), bucket)) {
            Ok(key) => narrow(self.table.query().require_order().prefetch()).partition(key).stream().boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

impl<T: TableEntity> SpreadQuery<T> {
    /// Only entities of this logical partition. A query needs one: buckets are merged within a partition.
    pub fn partition(mut self, of: impl PartitionIn<T>) -> Self {
        self.of = Some(of.partition_key().clone());
        self
    }

    /// Narrows the query of each bucket: rows, a filter, a page size. Keys of `T` need a `cast()` there, and a `limit` bounds what
    /// is read of each bucket. On a service without order a query is an error, unless `sorted_on_client` is asked for here,
    /// which reads everything first.
    pub fn narrow(
        mut self,
        narrow: impl Fn(TableQuery<SpreadRow<T>>) -> TableQuery<SpreadRow<T>> + Send + Sync + 'static,
    ) -> Self {
        self.narrow = Arc::new(narrow);
        self
    }

    /// Returns at most this many: at most so many are read from each bucket. It bounds a [`page`](Self::page), which goes on.
    pub const fn limit(mut self, entities: usize) -> Self {
        self.limit = Some(entities);
        self
    }

    /// The results one after another. An error ends it.
    ///
    /// # Errors
    /// As items: the store's; a row is not a `T`; no partition was given.
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T> {
        let rows = match &self.of {
            Some(of) => self.table.merged(of, &self.bounded(self.limit)).boxed(),
            None => stream::iter([Err(without_partition())]).boxed(),
        };
        let rows: Rows<T> = rows;
        Box::pin(rows.map(|row| row.and_then(SpreadRow::decode)).take(self.limit.unwrap_or(usize::MAX)))
    }

    /// All results, in memory.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// The first result.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn first(&self) -> Result<Option<T>> {
        let limit = self.limit.map_or(1, |limit| limit.min(1));
        self.clone().limit(limit).stream().try_next().await
    }

    /// How many results there are; they are read.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn count(&self) -> Result<usize> {
        self.stream().try_fold(0, |count, _| std::future::ready(Ok(count + 1))).await
    }

    /// One page, from the start or from where another ended: as many entities as the [`limit`](Self::limit) says, 1000 without.
    /// The continuation needs the same query, but for the limit.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); the continuation is another query's.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<T>> {
        let of = self.of.as_ref().ok_or_else(without_partition)?;
        let (store, name, query) = (self.table.store(), self.table.name(), self.fingerprinted(of)?);
        let after = match from {
            Some(from) => Some(from.position(store.profile(), name, &query)?.first.clone()),
            None => None,
        };
        let limit = self.limit.unwrap_or(PAGE);
        let bounded = self.bounded(Some(limit.saturating_add(1)));
        let narrow: Narrow<T> = match after {
            None => bounded,
            Some(after) => {
                Arc::new(move |rows| bounded(rows).raw_filter(Filter::gt(Filter::ROW_KEY, &*after)))
            }
        };
        // One more tells whether there are more.
        let rows = self.table.merged(of, &narrow).take(limit.saturating_add(1));
        let mut rows: Vec<SpreadRow<T>> = rows.try_collect().await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().filter(|_| more).map(|row| row.entity.key().row().to_owned());
        let continuation = last
            .map(|first| Continuation::new(store.profile(), name, &query, Position { first, second: None }));
        Ok(Page { items: rows.into_iter().map(SpreadRow::decode).collect::<Result<_>>()?, continuation })
    }

    /// What a continuation belongs to.
    fn fingerprinted(&self, of: &PartitionKey) -> Result<Query> {
        let query = (self.narrow)(self.table.table.query()).partition(of.clone()).to_query()?;
        Ok(query.with_select(Select::new([SPREAD])))
    }

    fn bounded(&self, limit: Option<usize>) -> Narrow<T> {
        let narrow = Arc::clone(&self.narrow);
        match limit {
            None => narrow,
            Some(limit) => Arc::new(move |rows| narrow(rows).limit_to(limit)),
        }
    }
}

fn without_partition() -> Error {
    Error::invalid_request(
        "a query of a spread table needs a partition, whose buckets it merges: name it by `partition`",
    )
}

impl<T> Clone for SpreadQuery<T> {
    fn clone(&self) -> Self {
        let (table, narrow) = (self.table.clone(), Arc::clone(&self.narrow));
        Self { table, of: self.of.clone(), narrow, limit: self.limit }
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

/// A bucket and its first row.
type Opened<T> = (Rows<T>, Option<Result<SpreadRow<T>>>);

fn open<T: TableEntity>(mut bucket: Rows<T>) -> BoxFuture<'static, Opened<T>> {
    async move {
        let first = bucket.next().await;
        (bucket, first)
    }
    .boxed()
}

/// The next row of each bucket, and what follows.
struct Merge<T> {
    buckets: Vec<Rows<T>>,
    heads: BinaryHeap<Reverse<Head<T>>>,
    failure: Option<Error>,
    /// The RowKey that was returned last: while it is moved, an entity is there twice.
    last: Option<String>,
    now: Spread,
}

struct Head<T> {
    row: SpreadRow<T>,
    bucket: usize,
    /// Whether it is where the present number of buckets does not put it.
    is_old: bool,
}

impl<T: TableEntity> Merge<T> {
    async fn start(buckets: Vec<Rows<T>>, now: Spread, concurrency: usize) -> Self {
        let opened: Vec<BoxFuture<'static, Opened<T>>> = buckets.into_iter().map(open).collect();
        let opened: Vec<Opened<T>> = stream::iter(opened).buffered(concurrency).collect().await;
        let (buckets, first): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
        let mut this = Self { buckets, heads: BinaryHeap::new(), failure: None, last: None, now };
        first.into_iter().enumerate().for_each(|(bucket, row)| this.push(bucket, row));
        this
    }

    fn push(&mut self, place: usize, row: Option<Result<SpreadRow<T>>>) {
        match row {
            Some(Ok(row)) => {
                let is_old = bucket(row.entity.key().row(), self.now) as usize != place;
                self.heads.push(Reverse(Head { row, bucket: place, is_old }));
            }
            Some(Err(error)) => self.failure = Some(error),
            None => {}
        }
    }

    async fn next(&mut self) -> Option<Result<SpreadRow<T>>> {
        loop {
            if let Some(error) = self.failure.take() {
                self.heads.clear();
                return Some(Err(error));
            }
            let Reverse(Head { row, bucket, .. }) = self.heads.pop()?;
            let next = self.buckets[bucket].next().await;
            self.push(bucket, next);
            let key = row.entity.key().row();
            if self.last.as_deref() != Some(key) {
                self.last = Some(key.to_owned());
                return Some(Ok(row));
            }
        }
    }
}

impl<T> Ord for Head<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rows = key_order::compare(self.row.entity.key().row(), other.row.entity.key().row());
        rows.then(self.is_old.cmp(&other.is_old)).then(self.bucket.cmp(&other.bucket))
    }
}

impl<T> PartialOrd for Head<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Head<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Head<T> {}
