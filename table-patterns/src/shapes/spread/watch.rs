use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    EncryptedNames, GroupTransaction, LocalWriters, Operation, Result, ServiceProfile, TableStore, Written,
};

use super::counts::{Count, Counts};

/// Counts the requests to each partition, and names those that get too many.
///
/// A cheap handle: clones share the counts. Put [`Watched`] around a store.
///
/// It looks at a window of time, in two halves: the present and the one before. Each half has 1,024 counters, so
/// that memory is bounded: a partition that finds none free takes over the smallest, with its count, as the
/// *space-saving* sketch does. So counts may be too high, by less than 1/1,024 of all requests, and no partition
/// with a larger share is missed.
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

/// A partition that gets more than its share.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HotPartition {
    /// The table.
    pub table: TableName,
    /// The PartitionKey.
    pub partition: String,
    /// Requests within the window, to within 1/1,024 of all.
    pub requests: u64,
    /// How many of them only read.
    pub reads: u64,
    /// The part of all requests to partitions, from 0 to 1.
    pub share: f64,
}

impl PartitionWatch {
    /// A watch over a window of time.
    pub fn new(window: Duration) -> Self {
        Self { counts: Arc::new(Mutex::new(Counts::new(window))) }
    }

    /// The partitions that got more than this share, from 0 to 1, of the requests in the window, the
    /// hottest first.
    pub fn hot(&self, share: f64) -> Vec<HotPartition> {
        let counts = self.lock();
        let (all, total) = (counts.sums(), counts.total());
        let mut hot: Vec<_> =
            all.into_iter().map(|(partition, count)| found(partition, count, total)).collect();
        hot.retain(|partition| partition.share > share);
        hot.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.partition.cmp(&b.partition)));
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

    /// Counts are whole after every statement.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.turn();
        counts
    }
}

fn found((table, partition): (&TableName, &str), count: Count, total: u64) -> HotPartition {
    let share = if total == 0 { 0.0 } else { count.requests as f64 / total as f64 };
    let (table, partition) = (table.clone(), partition.to_owned());
    HotPartition { table, partition, requests: count.requests, reads: count.reads, share }
}

/// Names the remedy.
impl fmt::Display for HotPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, partition, requests, reads, share } = self;
        let percent = share * 100.0;
        write!(
            f,
            "the partition '{partition}' of '{table}' got {requests} requests, {percent:.0} % of all: "
        )?;
        if *reads * 10 >= *requests * 9 {
            return f
                .write_str("they read, so keep what they read in a cache, or spread its keys over buckets");
        }
        f.write_str("spread its keys over buckets (`#[partition_key(spread = 16)]`, `SpreadTable`)")
    }
}

/// A store whose requests to partitions a [`PartitionWatch`] counts. A request to several partitions, as a
/// scan is, counts for none.
#[derive(Debug)]
pub struct Watched<S> {
    store: S,
    watch: PartitionWatch,
}

impl<S: TableStore> Watched<S> {
    /// Watches a store.
    pub const fn new(store: S, watch: PartitionWatch) -> Self {
        Self { store, watch }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for Watched<S> {
    fn profile(&self) -> &ServiceProfile {
        self.store.profile()
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.store.create_table(table).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.store.delete_table(table).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.store.list_tables(prefix, from).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        self.watch.count(table, key.partition(), true);
        self.store.get(table, key, select).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        self.watch.query(table, query);
        self.store.query(table, query, from).await
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        self.watch.query(table, query);
        self.store.query_readable(table, query, from).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.watch.count(table, operation.key().partition(), false);
        self.store.write(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.watch.count(table, group.partition().as_str(), false);
        self.store.transact(table, group).await
    }

    fn declare_encrypted(&self, table: &TableName, names: &[&str]) {
        self.store.declare_encrypted(table, names);
    }

    fn encrypted_names(&self, table: &TableName) -> EncryptedNames {
        self.store.encrypted_names(table)
    }

    fn local_writers(&self) -> Option<Arc<LocalWriters>> {
        self.store.local_writers()
    }

    fn manifests(&self) -> Option<Arc<table_core::store::ManifestCache>> {
        self.store.manifests()
    }
}
