use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Count, Request, RequestCounts};
use crate::adapter::around::{Around, impl_around};
use crate::adapter::call::{Answer, Call};
use crate::model::TableName;
use crate::query::AccessPath;
use crate::store::{OperationKind, Result, TableStore};

/// Counts the requests to the stores that it is attached to.
///
/// Cloning is cheap; clones share the counts, and one meter may count several stores. A request counts when
/// it begins, so failed and cancelled requests are included, as is every attempt of a retry above the meter.
/// Counting costs no request.
///
/// # Round trips
/// The meter also counts [round trips](RequestCounts::round_trips): what a program waits for. It compares the order in which requests begin
/// and end, not the time they take. A store in memory answers before another request can begin, so there each request is a round trip.
/// Let requests take time to measure round trips, for example by [`Fault::Delay`](super::super::Fault::Delay) under paused Tokio time.
///
/// ```
/// use table_core::adapter::{Metered, RequestMeter};
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{Operation, OperationKind, TableStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let meter = RequestMeter::new();
/// let store = Metered::new(MemoryStore::new(), meter.clone());
/// let table = TableName::new("Employees")?;
/// store.create_table(&table).await?;
///
/// let ken = Entity::new("Sales", "empid_000223")?.with("FirstName", "Ken");
/// let (read, cost) = meter
///     .measure(async {
///         store.write(&table, Operation::Insert(ken.clone())).await?;
///         store.get(&table, ken.key(), None).await
///     })
///     .await;
/// assert!(read?.is_some());
/// assert_eq!(cost.total(), 2);
/// assert_eq!(cost.of_kind(OperationKind::Get), 1);
/// assert_eq!(meter.total(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestMeter {
    tables: Arc<Mutex<Tables>>,
}

#[derive(Debug, Default)]
struct Tables {
    named: HashMap<TableName, Sorts>,
    listings: Sorts,
    chain: Chain,
}

/// The longest chain of requests of which each began after the end of the one before. Of the requests that can follow the chain, the one
/// that ends first keeps the chain longest, so it is enough to look at each request when it ends.
#[derive(Debug, Default)]
pub(in crate::adapter) struct Chain {
    /// Counts the begins and the ends of requests: their order, whatever the time on the clock.
    events: u64,
    /// The end of the last request of the chain.
    end: u64,
    length: u64,
}

impl Chain {
    /// Returns the begin of a request, for its [`end`](Self::end).
    pub(in crate::adapter) fn begin(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Ends a request. Returns whether it made the chain longer.
    pub(in crate::adapter) fn end(&mut self, begin: u64) -> bool {
        // Requests are looked at in the order of their ends. The first one that began after the chain's last end is
        // thus the one that ends first of all that can follow, and taking it is the optimal choice
        // (<https://en.wikipedia.org/wiki/Interval_scheduling>).
        self.events += 1;
        let is_longer = begin > self.end;
        if is_longer {
            self.end = self.events;
            self.length += 1;
        }
        is_longer
    }

    /// Starts a new chain of requests that begin from now on.
    fn reset(&mut self) {
        (self.end, self.length) = (self.events, 0);
    }
}

/// The counts of the requests to one table, by operation and access path.
type Sorts = HashMap<(OperationKind, Option<AccessPath>), Count>;

impl Tables {
    fn sorts(&mut self, table: Option<&TableName>) -> &mut Sorts {
        match table {
            Some(table) => self.named.entry(table.clone()).or_default(),
            None => &mut self.listings,
        }
    }

    fn iter(&self) -> impl Iterator<Item = (Request, Count)> {
        let named = self.named.iter().map(|(table, sorts)| (Some(table), sorts));
        named.chain([(None, &self.listings)]).flat_map(|(table, sorts)| {
            let request = move |&(kind, path)| Request { table: table.cloned(), kind, path };
            sorts.iter().map(move |(sort, count)| (request(sort), *count))
        })
    }
}

impl RequestMeter {
    /// Creates a meter with all counts at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of requests so far.
    pub fn total(&self) -> u64 {
        self.snapshot().total()
    }

    /// Returns the counts so far.
    pub fn snapshot(&self) -> RequestCounts {
        let mut counts = RequestCounts::default();
        let tables = self.lock();
        tables.iter().for_each(|(request, count)| counts.add(request, count));
        counts.set_round_trips(tables.chain.length);
        counts
    }

    /// Returns the counts since an earlier snapshot.
    pub fn since(&self, earlier: &RequestCounts) -> RequestCounts {
        self.snapshot() - earlier
    }

    /// Runs the work and returns the counts during that time, including requests of other tasks. A request that is under way at the end
    /// counts as a request, but not as a round trip.
    pub async fn measure<T>(&self, work: impl Future<Output = T>) -> (T, RequestCounts) {
        let before = self.snapshot();
        let result = work.await;
        (result, self.since(&before))
    }

    /// Resets all counts to zero.
    pub fn reset(&self) {
        let mut tables = self.lock();
        (tables.named, tables.listings) = Default::default();
        tables.chain.reset();
    }

    fn add(&self, call: &Call<'_>, more: Count) {
        *self.lock().sorts(call.table).entry((call.kind, call.path)).or_default() += more;
    }

    // The counts are consistent after every statement, so a panic of another holder leaves nothing to repair.
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store whose requests a [`RequestMeter`] counts.
#[derive(Debug)]
pub struct Metered<S> {
    store: S,
    meter: RequestMeter,
}

impl<S: TableStore> Metered<S> {
    /// Counts the requests to `store`.
    pub const fn new(store: S, meter: RequestMeter) -> Self {
        Self { store, meter }
    }

    /// Returns the meter.
    pub const fn meter(&self) -> &RequestMeter {
        &self.meter
    }
}

/// A request between its begin and its end. Dropping it registers the end, also if the request was cancelled.
struct UnderWay<'a> {
    begin: u64,
    meter: &'a RequestMeter,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.meter.lock().chain.end(self.begin);
    }
}

impl<S: TableStore> Around for Metered<S> {
    async fn around<T: Answer + Send>(
        &self,
        call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.meter.add(&call, Count { requests: 1, ..Count::default() });
        // The block ends the request before its answer is counted: a request that begins because of this answer must
        // see the end.
        let result = {
            let _under_way = UnderWay { begin: self.meter.lock().chain.begin(), meter: &self.meter };
            request.await
        };
        self.meter.add(
            &call,
            match &result {
                Ok(answer) => Count { entities: answer.items(), ..Count::default() },
                Err(_) => Count { failed: 1, ..Count::default() },
            },
        );
        result
    }
}

impl_around!(Metered);
