//! Finds the partitions with the most requests, with a bounded number of counters.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use table_core::forward_to_store;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Query, ReadablePage, Select};
use table_core::store::{GroupTransaction, Operation, Result, TableStore, Written};
use tokio::time::Instant;

/// Counts the requests to each partition, and finds the partitions with the most requests.
///
/// Clones are cheap and share the counts. Wrap a store in [`Watched`] to count its requests.
///
/// The watch covers a window of time in two halves: the present half and the one before. Each half has 1,024 counters,
/// which bounds the memory. If no counter is free, a new partition takes over the smallest counter with its count: the
/// *space-saving* sketch. A count may therefore be too high, by less than 1/1,024 of all requests, and no partition with a
/// larger share is missed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::time::Duration;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::spread::{PartitionWatch, Watched};
///
/// let watch = PartitionWatch::new(Duration::from_secs(60));
/// let (store, table) = (Watched::new(MemoryStore::new(), watch.clone()), TableName::new("Events")?);
/// store.create_table(&table).await?;
/// for number in 0..100 {
///     let day = if number % 10 == 0 { "2013-01-01" } else { "2013-01-02" };
///     store.write(&table, Operation::Insert(Entity::new(day, format!("{number:03}"))?)).await?;
/// }
/// let hot = watch.hot(0.5);
/// assert_eq!((hot[0].partition.as_str(), hot[0].requests), ("2013-01-02", 90));
/// assert!(hot[0].to_string().contains("spread"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PartitionWatch {
    counts: Arc<Mutex<Counts>>,
}

/// A partition with many requests.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct HotPartition {
    /// The table.
    pub table: TableName,
    /// The PartitionKey.
    pub partition: String,
    /// The number of requests in the window, too high by less than 1/1,024 of all requests.
    pub requests: u64,
    /// The number of these requests that only read.
    pub reads: u64,
    /// The share of all requests to partitions, from 0 to 1.
    pub share: f64,
}

impl PartitionWatch {
    /// Makes a watch over a window of this length.
    pub fn new(window: Duration) -> Self {
        Self {
            counts: Arc::new(Mutex::new(Counts::new(window))),
        }
    }

    /// The partitions with more than this share (from 0 to 1) of the requests in the window, largest first.
    pub fn hot(&self, share: f64) -> Vec<HotPartition> {
        let counts = self.lock();
        let (all, total) = (counts.sums(), counts.total());
        let mut hot: Vec<_> = all
            .into_iter()
            .map(|(partition, count)| hot_partition(partition, count, total))
            .collect();
        hot.retain(|partition| partition.share > share);
        hot.sort_by(|a, b| {
            b.requests
                .cmp(&a.requests)
                .then_with(|| a.partition.cmp(&b.partition))
        });
        hot
    }

    fn count(&self, table: &TableName, partition: &str, reads: bool) {
        self.lock().add(table, partition, u64::from(reads));
    }

    fn query(&self, table: &TableName, query: &Query) {
        if let Some(partition) = query.bounds().partition.as_single() {
            self.count(table, partition, true);
        }
    }

    // A poisoned lock is safe to use: the counts are consistent after every statement.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.advance();
        counts
    }
}

/// A partition with its counts and its share of all requests.
fn hot_partition((table, partition): (&TableName, &str), count: Count, total: u64) -> HotPartition {
    let share = if total == 0 {
        0.0
    } else {
        count.requests as f64 / total as f64
    };
    let (table, partition) = (table.clone(), partition.to_owned());
    HotPartition {
        table,
        partition,
        requests: count.requests,
        reads: count.reads,
        share,
    }
}

/// Describes the partition and says what to do.
impl fmt::Display for HotPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            table,
            partition,
            requests,
            reads,
            share,
        } = self;
        let percent = share * 100.0;
        write!(
            f,
            "the partition '{partition}' of '{table}' got {requests} requests, {percent:.0} % of all requests: "
        )?;
        if *reads * 10 >= *requests * 9 {
            return f.write_str(
                "most of them read, so cache the entities, or spread the keys over buckets",
            );
        }
        f.write_str("spread the keys over buckets (`#[partition_key(spread = 16)]`, `SpreadTable`)")
    }
}

/// A store whose requests to partitions are counted by a [`PartitionWatch`]. A request to several partitions, such as a
/// scan, is not counted.
#[derive(Debug)]
pub struct Watched<S> {
    store: S,
    watch: PartitionWatch,
}

impl<S: TableStore> Watched<S> {
    /// Wraps a store.
    pub const fn new(store: S, watch: PartitionWatch) -> Self {
        Self { store, watch }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for Watched<S> {
    forward_to_store!(self => self.store; profile, create_table, delete_table, list_tables, context);

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        self.watch.count(table, key.partition(), true);
        self.store.get(table, key, select).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        self.watch.query(table, query);
        self.store.query(table, query, from).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.watch.count(table, operation.key().partition(), false);
        self.store.write(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.watch.count(table, group.partition().as_str(), false);
        self.store.transact(table, group).await
    }
}

/// The number of counters of a half of the window.
const COUNTERS: usize = 1024;

/// The number of requests to one partition.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u64,
    reads: u64,
}

/// A half of the window.
#[derive(Debug, Default)]
struct Half {
    tables: HashMap<TableName, HashMap<Arc<str>, Count>>,
    counters: usize,
    total: u64,
    /// The partitions whose count was `least`, the smallest count, at the last search. Some may have more now.
    smallest: Vec<(TableName, Arc<str>)>,
    least: u64,
}

/// The requests of a window, in two halves.
#[derive(Debug)]
struct Counts {
    half: Duration,
    since: Instant,
    now: Half,
    before: Half,
}

impl Counts {
    fn new(window: Duration) -> Self {
        let (now, before) = (Half::default(), Half::default());
        Self {
            half: window / 2,
            since: Instant::now(),
            now,
            before,
        }
    }

    /// The number of all requests.
    const fn total(&self) -> u64 {
        self.now.total + self.before.total
    }

    /// The counts of each partition.
    fn sums(&self) -> HashMap<(&TableName, &str), Count> {
        let mut all: HashMap<(&TableName, &str), Count> = HashMap::new();
        for (partition, count) in self.now.all().chain(self.before.all()) {
            let sum = all.entry(partition).or_default();
            *sum = Count {
                requests: sum.requests + count.requests,
                reads: sum.reads + count.reads,
            };
        }
        all
    }

    /// Starts a new half if the present half is over, and drops counts that are older than the window.
    fn advance(&mut self) {
        let passed = self.since.elapsed();
        if passed < self.half {
            return;
        }
        let last = std::mem::take(&mut self.now);
        // Without a request for longer than two halves, the last half is outside of the window, too.
        self.before = if passed < self.half * 2 {
            last
        } else {
            Half::default()
        };
        self.since = Instant::now();
    }

    /// Counts a request, with the counter of its partition or a freed one.
    fn add(&mut self, table: &TableName, partition: &str, reads: u64) {
        let half = &mut self.now;
        half.total += 1;
        if let Some(count) = half
            .tables
            .get_mut(table)
            .and_then(|counters| counters.get_mut(partition))
        {
            *count = Count {
                requests: count.requests + 1,
                reads: count.reads + reads,
            };
            return;
        }
        let before = if half.counters < COUNTERS {
            Count::default()
        } else {
            half.take_smallest()
        };
        let count = Count {
            requests: before.requests + 1,
            reads: before.reads + reads,
        };
        half.tables
            .entry(table.clone())
            .or_default()
            .insert(partition.into(), count);
        half.counters += 1;
    }
}

impl Half {
    fn all(&self) -> impl Iterator<Item = ((&TableName, &str), &Count)> {
        let tables = self.tables.iter();
        tables.flat_map(|(table, counters)| {
            counters
                .iter()
                .map(move |(name, count)| ((table, &**name), count))
        })
    }

    /// Frees a counter with the smallest count, which the next partition takes over.
    ///
    /// The new partition starts with the count of the one that it replaces (Metwally et al., *Efficient Computation of Frequent and Top-k
    /// Elements in Data Streams*, ICDT 2005): it may have had that many requests while it had no counter. So counts are never too low,
    /// and the sum of all counters stays the number of requests, which bounds the smallest count by 1/1,024 of it.
    ///
    /// A search of all counters finds all partitions with the smallest count, so that later calls need no search.
    fn take_smallest(&mut self) -> Count {
        if let Some(count) = self.take_found() {
            return count;
        }
        self.least = self
            .all()
            .map(|(_, count)| count.requests)
            .min()
            .unwrap_or_default();
        let least = self.tables.iter().flat_map(|(table, counters)| {
            let least = counters
                .iter()
                .filter(|(_, count)| count.requests == self.least);
            least.map(|(partition, _)| (table.clone(), Arc::clone(partition)))
        });
        self.smallest = least.collect();
        self.take_found().unwrap_or_default()
    }

    /// Frees a counter of the last search that still has the smallest count.
    fn take_found(&mut self) -> Option<Count> {
        while let Some((table, partition)) = self.smallest.pop() {
            let Some(counters) = self.tables.get_mut(&table) else {
                continue;
            };
            // The list is from an earlier search: this partition has more requests by now, or is gone.
            if counters
                .get(&partition)
                .is_none_or(|count| count.requests != self.least)
            {
                continue;
            }
            let count = counters.remove(&partition);
            if counters.is_empty() {
                self.tables.remove(&table);
            }
            self.counters -= 1;
            return count;
        }
        None
    }
}
