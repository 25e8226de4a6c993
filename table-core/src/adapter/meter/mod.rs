//! Counts requests, which Table storage bills and which cost latency.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::{AddAssign, Sub};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::adapter::around::{Answer, Around, Call, impl_around};
use crate::model::TableName;
use crate::query::AccessPath;
use crate::store::{OperationKind, Result, TableStore};

/// The category by which a request is counted.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Request {
    /// The table; `None` for a listing of tables.
    pub table: Option<TableName>,
    /// The operation; a group transaction is one request.
    pub kind: OperationKind,
    /// The access path of a read; a get is a point query. `None` for writes, which address entities by key.
    pub path: Option<AccessPath>,
}

/// The counts of one category of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Count {
    /// Number of requests begun, including failed and cancelled ones.
    pub requests: u64,
    /// Number of requests that returned an error.
    pub failed: u64,
    /// Number of entities returned or written, or of names in a listing of tables.
    pub entities: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.failed += more.failed;
        self.entities += more.entities;
    }
}

impl Count {
    /// Returns the difference, or zero if the meter was reset in between.
    const fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            failed: self.failed.saturating_sub(earlier.failed),
            entities: self.entities.saturating_sub(earlier.entities),
        }
    }
}

/// The counts of a [`RequestMeter`] at one time, or between two times.
///
/// Prints as a table. Subtract an earlier snapshot to get the cost of a block of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    counts: BTreeMap<Request, Count>,
    round_trips: u64,
}

impl RequestCounts {
    /// Iterates over every category with its counts, by table, operation and access path.
    pub fn iter(&self) -> impl Iterator<Item = (&Request, &Count)> {
        self.counts.iter()
    }

    /// Returns the number of round trips: the length of the longest chain of requests of which each began after the end of the
    /// one before. Requests that are under way at the same time are one round trip.
    ///
    /// If a piece of work is measured alone and all of its requests take the same time, this is the number of answers that the
    /// work waited for one after the other. If the requests take different times, it is at least that number.
    pub const fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        self.sum(|_| true).requests
    }

    /// Returns the number of requests of one kind.
    pub fn of_kind(&self, kind: OperationKind) -> u64 {
        self.sum(|request| request.kind == kind).requests
    }

    /// Returns the number of requests to one table, compared without case.
    pub fn of_table(&self, table: &TableName) -> u64 {
        let is_table = |name: &TableName| name.as_str().eq_ignore_ascii_case(table.as_str());
        self.sum(|request| request.table.as_ref().is_some_and(is_table))
            .requests
    }

    /// Returns the number of reads by one access path.
    pub fn of_path(&self, path: AccessPath) -> u64 {
        self.sum(|request| request.path == Some(path)).requests
    }

    /// Returns the sum over the categories for which `keep` returns true.
    pub fn sum(&self, mut keep: impl FnMut(&Request) -> bool) -> Count {
        let mut sum = Count::default();
        self.counts
            .iter()
            .filter(|(request, _)| keep(request))
            .for_each(|(_, count)| sum += *count);
        sum
    }

    /// Returns the most expensive access path of the reads; `None` if nothing was read.
    pub fn costliest_path(&self) -> Option<AccessPath> {
        self.counts.keys().filter_map(|request| request.path).max()
    }
}

/// As `{"round_trips", "requests"}`, with a list of categories and their counts.
impl serde::Serialize for RequestCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            request: &'a Request,
            #[serde(flatten)]
            count: &'a Count,
        }
        #[derive(serde::Serialize)]
        struct Form<'a> {
            round_trips: u64,
            requests: Vec<Row<'a>>,
        }
        let requests = self
            .counts
            .iter()
            .map(|(request, count)| Row { request, count })
            .collect();
        serde::Serialize::serialize(
            &Form {
                round_trips: self.round_trips,
                requests,
            },
            serializer,
        )
    }
}

/// Returns the counts since the earlier snapshot. Categories without a new request are omitted.
impl Sub<&Self> for RequestCounts {
    type Output = Self;

    fn sub(self, earlier: &Self) -> Self {
        let before = |request: &Request| earlier.counts.get(request).copied().unwrap_or_default();
        let difference = self.counts.into_iter().map(|(request, count)| {
            let count = count.since(before(&request));
            (request, count)
        });
        let counts = difference
            .filter(|(_, count)| *count != Count::default())
            .collect();
        // Zero if the meter was reset in between.
        Self {
            counts,
            round_trips: self.round_trips.saturating_sub(earlier.round_trips),
        }
    }
}

const HEADER: [&str; 6] = [
    "table",
    "operation",
    "access path",
    "requests",
    "failed",
    "entities",
];

/// Prints a table with a line per category.
impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![HEADER.map(str::to_owned)];
        rows.extend(
            self.counts
                .iter()
                .map(|(request, count)| cells(request, *count)),
        );
        let widths: [usize; 6] = std::array::from_fn(|i| {
            rows.iter()
                .map(|row| row[i].len())
                .max()
                .unwrap_or_default()
        });
        for [table, kind, path, requests, failed, entities] in &rows {
            let [w0, w1, w2, w3, w4, w5] = widths;
            write!(f, "{table:w0$}  {kind:w1$}  {path:w2$}  ")?;
            writeln!(f, "{requests:>w3$}  {failed:>w4$}  {entities:>w5$}")?;
        }
        Ok(())
    }
}

fn cells(request: &Request, count: Count) -> [String; 6] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        or_dash(request.table.as_ref().map(ToString::to_string)),
        request.kind.to_string(),
        or_dash(request.path.map(|path| path.to_string())),
        count.requests.to_string(),
        count.failed.to_string(),
        count.entities.to_string(),
    ]
}

/// Counts the requests to the stores that it is attached to.
///
/// Cloning is cheap; clones share the counts, and one meter may count several stores. A request counts when
/// it begins, so failed and cancelled requests are included, as is every attempt of a retry above the meter.
/// Counting costs no request.
///
/// # Round trips
/// The meter also counts [round trips](RequestCounts::round_trips): what a program waits for. It compares the order in which requests begin
/// and end, not the time they take. A store in memory answers before another request can begin, so there each request is a round trip.
/// Let requests take time to measure round trips, for example by [`Fault::Delay`](super::Fault::Delay) under paused Tokio time.
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
    named: HashMap<TableName, TableCounts>,
    listings: TableCounts,
    chain: Chain,
}

/// The longest chain of requests in which each request begins after the end of the request before.
///
/// If several requests can follow the chain, the request that ends first leaves the most room for further ones. Requests are added when they end, so
/// the first request that can follow the chain is that request
/// (<https://en.wikipedia.org/wiki/Interval_scheduling>).
#[derive(Debug, Default)]
pub(super) struct Chain {
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
type TableCounts = HashMap<(OperationKind, Option<AccessPath>), Count>;

impl Tables {
    fn counts_of(&mut self, table: Option<&TableName>) -> &mut TableCounts {
        match table {
            Some(table) => self.named.entry(table.clone()).or_default(),
            None => &mut self.listings,
        }
    }

    fn iter(&self) -> impl Iterator<Item = (Request, Count)> {
        let named = self
            .named
            .iter()
            .map(|(table, counts)| (Some(table), counts));
        named
            .chain([(None, &self.listings)])
            .flat_map(|(table, counts)| {
                let request = move |&(kind, path)| Request {
                    table: table.cloned(),
                    kind,
                    path,
                };
                counts
                    .iter()
                    .map(move |(category, count)| (request(category), *count))
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
        let tables = self.lock();
        RequestCounts {
            counts: tables.iter().collect(),
            round_trips: tables.chain.length,
        }
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
        *self
            .lock()
            .counts_of(call.table)
            .entry((call.kind, call.path))
            .or_default() += more;
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
        self.meter.add(
            &call,
            Count {
                requests: 1,
                ..Count::default()
            },
        );
        // The block ends the request before its answer is counted: a request that begins because of this answer must
        // see the end.
        let result = {
            let _under_way = UnderWay {
                begin: self.meter.lock().chain.begin(),
                meter: &self.meter,
            };
            request.await
        };
        self.meter.add(
            &call,
            match &result {
                Ok(answer) => Count {
                    entities: answer.items(),
                    ..Count::default()
                },
                Err(_) => Count {
                    failed: 1,
                    ..Count::default()
                },
            },
        );
        result
    }
}

impl_around!(Metered);
