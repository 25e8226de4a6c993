//! Reads over all buckets, in the order of row keys.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::pin::Pin;

use futures_util::future::join_all;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{PartitionKey, key_order};
use table_core::store::{Error, Result};
use table_core::typed::{PartitionIn, Spread, TableEntity, TableQuery};

use super::place::{bucket, partition};
use super::{SpreadRow, SpreadTable};

type Rows<T> = Pin<Box<dyn Stream<Item = Result<SpreadRow<T>>> + Send>>;

impl<T: TableEntity> SpreadTable<T> {
    /// A logical partition in the order of its RowKeys. `narrow` is called for each bucket's query: keys of
    /// `T` need a `cast()` there, and a `limit` bounds each bucket; see [`first`](Self::first).
    ///
    /// One request a page of each bucket, the first of all at the same time, then the next while one is
    /// consumed. Two pages of each bucket are in memory. An error ends it.
    ///
    /// On a service without order it is an error, unless `narrow` asks for `sorted_on_client`, which reads
    /// everything first. While a migration runs, an entity that is moved between the reads of its two buckets is
    /// missed; points miss none.
    pub fn read<P, N>(&self, of: P, narrow: N) -> impl Stream<Item = Result<T>> + Send + Unpin + use<T, P, N>
    where
        P: PartitionIn<T>,
        N: Fn(TableQuery<SpreadRow<T>>) -> TableQuery<SpreadRow<T>>,
    {
        let of = of.partition_key();
        let last = self.previous.map_or(0, |previous| previous.buckets).max(self.spread.buckets);
        let buckets: Vec<Rows<T>> = (0..last).map(|bucket| self.bucket(of, bucket, &narrow)).collect();
        let now = self.spread;
        let merged = stream::once(Merge::start(buckets, now)).flat_map(|merge| {
            stream::unfold(merge, |mut merge| async {
                let row = merge.next().await?;
                Some((row, merge))
            })
        });
        Box::pin(merged.map(|row| row.and_then(SpreadRow::decode)))
    }

    /// The first `count` entities of a logical partition: at most so many are read from each bucket. One
    /// request per bucket, unless a service has to read on.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn first(
        &self,
        of: impl PartitionIn<T>,
        count: usize,
        narrow: impl Fn(TableQuery<SpreadRow<T>>) -> TableQuery<SpreadRow<T>>,
    ) -> Result<Vec<T>> {
        self.read(of, |rows| narrow(rows).limit_to(count)).take(count).try_collect().await
    }

    fn bucket(
        &self,
        of: &PartitionKey,
        bucket: u32,
        narrow: impl Fn(TableQuery<SpreadRow<T>>) -> TableQuery<SpreadRow<T>>,
    ) -> Rows<T> {
        match PartitionKey::new(partition(of.as_str(), bucket)) {
            Ok(key) => narrow(self.table.query().require_order().prefetch()).partition(key).stream().boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
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
    async fn start(mut buckets: Vec<Rows<T>>, now: Spread) -> Self {
        let first = join_all(buckets.iter_mut().map(StreamExt::next)).await;
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
