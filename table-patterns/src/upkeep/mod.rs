//! Upkeep: recovery and maintenance of tables with indexes, in a process that has only their manifests.
//!
//! # Problem
//! Crashes leave unfinished work: journals must be swept, tickets processed, interrupted builds and drops finished, entries compared
//! with entities, and unused blobs collected. A separate process should do that, without the Rust types of every table.
//!
//! # Work
//! An [`Upkeep`] needs a store and the names of tables. In each round it reads the manifest of each table, and then:
//!
//! | work | tables | the same as |
//! |---|---|---|
//! | finishes unfinished writes, gives up uncommitted moves, releases reservations, removes old abort rows | the table, and the tables of its unique indexes, which the manifest names | [`Journal::sweep`](crate::journal::Journal::sweep) |
//! | processes tickets | the queue of its [`IndexOptions`] | [`Recovery`](crate::journal::Recovery) |
//! | continues interrupted builds | indexes that are not readable | [`IndexedEntities::build`](crate::index::IndexedEntities::build) |
//! | finishes interrupted drops | indexes whose drop has begun | [`IndexedEntities::drop_index`](crate::index::IndexedEntities::drop_index) |
//! | scrubs entries, every 30 days | readable indexes | [`IndexedEntities::scrub_page`](crate::index::IndexedEntities::scrub_page) |
//! | removes unused blobs of lists, with each scrub | indexes with blobs | [`IndexedEntities::collect_blobs`](crate::index::IndexedEntities::collect_blobs) |
//! | removes unused blobs of large values, every 30 days | tables whose manifest names types with such values, if [`Upkeep::blobs`] has their store | [`Table::collect_blobs`](crate::Table::collect_blobs) |
//! | removes entities that have expired (`#[expires]`), or were deleted and kept long enough (`#[deleted_at]`), with their entries, unique values and blobs, every hour | tables whose manifest names types that expire, if the store is one of this process, or [`Upkeep::trust_expiry`] names the expiry | none |
//! | applies transactions | the [`eventual`](crate::eventual) transactions of each coordinator given to [`Upkeep::transactions`] | [`Coordinator::run`](crate::eventual::Coordinator::run) |
//! | removes records of finished transactions | the tables of these coordinators, and the tables of [`Upkeep::transaction_tables`] | [`Coordinator::sweep`](crate::eventual::Coordinator::sweep) |
//!
//! Upkeep declares no index and starts no build and no drop: a program that [defines](crate::index::IndexedEntities::build) an index
//! starts its build. Tables that no program has opened with indexes stay as they are.
//!
//! # What upkeep cannot do
//! - Apply [`eventual`](crate::eventual) transactions without their coordinator: the steps name stores and handlers of a program.
//! - Maintain [opaque](table_core::manifest) indexes, indexes of a newer format, and indexes that its store encrypts by a rule: these are
//!   [due](UpkeepReport::due). Upkeep does not finish writes of their entities; it counts the missing entries of these entities and does
//!   not add them.
//! - Collect blobs of large values without their store and options: they are [due](UpkeepReport::due). The manifest names a type from
//!   its first write or [`Table::declare`](crate::Table::declare) on.
//! - Scrub blind copies in other systems.
//!
//! # Several at once
//! Any number of processes may run upkeep, and programs may build and drop indexes at the same time. A build has one builder: a process
//! that finds the index's row changed, during the wait for a state change and a lease, leaves the build to the process that has changed it.
//! One process at a time scrubs a table: it writes the manifest's row `scrub`, and the others wait for the next interval. A scrub without
//! an end after a day is started again. In the same way one process collects the blobs of a table, by the row `collection`, and removes
//! expired entities, by the row `expiry`.
//!
//! # Failure windows
//! None: the process may die at any request, and the next round continues. An error of a table or an index does not stop the others. The error
//! is traced and in the report, and the next round tries again; failed builds are tried at growing intervals.
//!
//! # Cost in requests
//! | for each table | requests |
//! |---|---|
//! | open, once | 2, and 1 for its own registration if other processes write the store; the registration is written again every ten times [`IndexOptions::cache`](crate::index::IndexOptions::cache), or every lease if that is longer |
//! | a round without work | 1 for the manifest, 1 for each expired registration, up to 10, and a scan of the table and of each table of unique entries: 1 per 1,000 rows; that is 2 for a small table without unique index, and 3 with one whose entries are in other partitions |
//! | a table without a manifest | 1 a round |
//! | a collection of blobs of large values | 2, and the requests of [`collect_blobs`](crate::Table::collect_blobs) |
//! | a removal of expired entities | 2, and 1 to read the manifest again in a table without indexes; 1 per page of due rows for each type, and 1 per group of up to 100 of a partition without indexes, or the requests of a deletion; 1 per blob. The service reads the whole table for it. Wide entities: 1 per 1,000 rows of the table, and 1 per entity |
//! | the queue of tickets, and the queue of each coordinator | 1 a round to look for poison, and the requests of its worker |
//! | a scrub | 2, and the requests of [`scrub`](crate::index::IndexedEntities::scrub) for each index: 1 per entity and entry |
//! | an interrupted build | 3 to take it over, then the requests of [`run`](crate::index::IndexBuild::run) |
//! | a sweep with unfinished writes, a blob, a ticket | see the calls above |

mod expiry;
mod expiry_index;
mod report;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
#[cfg(feature = "blobs")]
use object_store::ObjectStore;
use table_core::manifest::Expiry;
use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use tokio::time::timeout;

use crate::eventual::Coordinator;
use crate::index::IndexOptions;
use crate::journal::MAX_TICKET_FAILURES;
#[cfg(feature = "blobs")]
use crate::large::LargeOptions;
use work::Work;

pub use report::{
    Due, ExpiryUpkeep, IndexUpkeep, LargeUpkeep, Part, TableUpkeep, TransactionsUpkeep,
    UpkeepReport,
};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

type Listener = Arc<dyn Fn(&UpkeepReport) + Send + Sync>;

/// How fast tickets and transactions are processed.
#[derive(Clone, Copy, Debug)]
struct TicketPace {
    /// The number of concurrent tickets, and of concurrent transactions of each coordinator.
    at_a_time: usize,
    /// The pause between two receives of an empty queue.
    idle: Duration,
}

/// Recovers and maintains tables by their manifests. See the [module](self).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> table_core::Result<()> {
/// use std::time::Duration;
/// use table_core::prelude::*;
/// use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
/// use table_patterns::upkeep::Upkeep;
///
/// let store = MemoryStore::new().into_shared();
/// let people = TableName::new("People")?;
/// store.create_table(&people).await?;
/// let by_city = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
/// let program = IndexedEntities::open(store.clone(), people.clone(), vec![by_city], IndexOptions::local()).await?;
/// program.insert(Entity::new("p", "1")?.with("City", "oslo")).await?;
/// // An operator deletes an entry.
/// store.write(&people, Operation::Delete(Key::new("city_oslo", "1")?, IfMatch::Any)).await?;
///
/// // A process without the index definition runs upkeep until the future is ready.
/// let upkeep = Upkeep::new(store).tables(["People"]).with_options(IndexOptions::local());
/// let report = upkeep.run(tokio::time::sleep(Duration::from_secs(60))).await?;
/// let (id, city) = report.tables[&people].indexes.first_key_value().expect("an index of the manifest");
/// assert!(id.starts_with("city."));
/// assert_eq!((city.scrubbed.missing, city.scrubbed.dangling), (1, 0));
/// assert_eq!(report.due().count(), 0);
/// # Ok(())
/// # }
/// ```
///
/// With blobs of large values, and eventual transactions:
///
/// ```no_run
/// # async fn run(
/// #     store: std::sync::Arc<dyn table_core::store::TableStore>,
/// #     blobs: std::sync::Arc<dyn object_store::ObjectStore>,
/// #     coordinator: table_patterns::eventual::Coordinator,
/// #     stop: impl Future<Output = ()>,
/// # ) -> table_core::Result<()> {
/// use table_patterns::large::LargeOptions;
/// use table_patterns::upkeep::Upkeep;
///
/// let upkeep = Upkeep::new(store).tables(["Reports"]).blobs(blobs, LargeOptions::default());
/// let report = upkeep.transactions(coordinator).run(stop).await?;
/// for (table, part, due) in report.due() {
///     println!("{table}: {part}: {due:?}"); // such as large values whose blob store is missing
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Upkeep {
    store: Arc<dyn TableStore>,
    tables: Vec<TableName>,
    transactions: Vec<TableName>,
    coordinators: Vec<Coordinator>,
    /// The blob store and options of large values.
    #[cfg(feature = "blobs")]
    large: Option<(Arc<dyn ObjectStore>, LargeOptions)>,
    /// The error of a table name that is not legal; `run` returns it.
    illegal: Option<Error>,
    options: IndexOptions,
    every: Duration,
    scrub_every: Option<Duration>,
    collect_every: Option<Duration>,
    expire_every: Option<Duration>,
    /// The expiries to obey, as `Type=Property`, in a store that others may write.
    trusted_expiries: BTreeSet<String>,
    keep: Duration,
    pause: Duration,
    concurrency: usize,
    tickets: TicketPace,
    /// Failures of a ticket's work until the ticket is poisoned.
    attempts: u32,
    listener: Option<Listener>,
}

impl fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upkeep")
            .field("tables", &self.tables)
            .field("transactions", &self.transactions)
            .field("coordinators", &self.coordinators)
            .field("options", &self.options)
            .field("every", &self.every)
            .field("scrub_every", &self.scrub_every)
            .field("collect_every", &self.collect_every)
            .field("expire_every", &self.expire_every)
            .finish_non_exhaustive()
    }
}

impl Upkeep {
    /// Upkeep of tables of a store: a round every 10 minutes, a removal of expired entities every hour, a scrub and a collection of blobs
    /// every 30 days, abort rows, records of transactions and blobs kept for 7 days, 4 tables at a time, no pause between pages, the
    /// default [`IndexOptions`], no queue, no blobs of large values and no transactions.
    pub fn new(store: impl TableStore) -> Self {
        Self {
            store: store.into_shared(),
            tables: Vec::new(),
            transactions: Vec::new(),
            coordinators: Vec::new(),
            #[cfg(feature = "blobs")]
            large: None,
            illegal: None,
            options: IndexOptions::default(),
            every: 10 * MINUTE,
            scrub_every: Some(30 * DAY),
            collect_every: Some(30 * DAY),
            expire_every: Some(60 * MINUTE),
            trusted_expiries: BTreeSet::new(),
            keep: 7 * DAY,
            pause: Duration::ZERO,
            concurrency: 4,
            tickets: TicketPace {
                at_a_time: 16,
                idle: Duration::from_secs(1),
            },
            attempts: MAX_TICKET_FAILURES,
            listener: None,
        }
    }

    /// Adds tables. Tables that contain only index entries need not be named. [`run`](Self::run) returns the error of a name that is not
    /// legal.
    #[must_use]
    pub fn tables<N>(mut self, names: impl IntoIterator<Item = N>) -> Self
    where
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let tables = self.named(names);
        self.tables.extend(tables);
        self
    }

    /// Applies these [eventual](crate::eventual) transactions and removes records of finished ones, as [`Coordinator::run`] and
    /// [`Coordinator::sweep`] do. The coordinator has the stores, the blobs and the handlers that the steps name. Every coordinator
    /// needs a table name of its own.
    #[must_use]
    pub fn transactions(mut self, coordinator: Coordinator) -> Self {
        self.coordinators.push(coordinator);
        self
    }

    /// Forgets finished transactions in these tables of [eventual](crate::eventual) transactions, which other processes work on. A
    /// table whose coordinator [is given](Self::transactions) need not be named.
    #[must_use]
    pub fn transaction_tables<N>(mut self, names: impl IntoIterator<Item = N>) -> Self
    where
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let tables = self.named(names);
        self.transactions.extend(tables);
        self
    }

    /// Collects the blobs of [large](crate::large) values that no row refers to, in tables whose manifest names types with such
    /// values. Use the same store and options as the programs that write the tables: a blob goes when it is older than twice
    /// their [`write_deadline`](LargeOptions::write_deadline), and older than [`keep`](Self::keep) says. No other store may keep the
    /// blobs of tables of these names in the same [`root`](LargeOptions::root).
    #[cfg(feature = "blobs")]
    #[must_use]
    pub fn blobs(self, store: Arc<dyn ObjectStore>, options: LargeOptions) -> Self {
        Self {
            large: Some((store, options)),
            ..self
        }
    }

    /// Whether this process has no blob store of large values.
    #[cfg_attr(
        not(feature = "blobs"),
        expect(clippy::unused_self, reason = "it has no blob store")
    )]
    const fn has_no_blobs(&self) -> bool {
        #[cfg(feature = "blobs")]
        return self.large.is_none();
        #[cfg(not(feature = "blobs"))]
        true
    }

    /// Sets the options: use the timing, the ticket queue, the blobs and the concurrency of the programs that write the tables. A manifest has the
    /// longest durations of all processes that have opened its table: state changes wait that long.
    #[must_use]
    pub fn with_options(self, options: IndexOptions) -> Self {
        Self { options, ..self }
    }

    /// Sets the pause between two rounds. Unfinished writes and interrupted builds may wait that long.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Sets the interval of scrubs of a table by any process; `None` for never. The manifest has the time of the last scrub: the first round of a
    /// process scrubs the tables whose last scrub is too old.
    #[must_use]
    pub fn scrub_every(self, every: impl Into<Option<Duration>>) -> Self {
        Self {
            scrub_every: every.into(),
            ..self
        }
    }

    /// Sets the interval of collections of the blobs of large values of a table by any process; `None` for never. The manifest has
    /// when they were collected last, as for scrubs.
    #[must_use]
    pub fn collect_every(self, every: impl Into<Option<Duration>>) -> Self {
        Self {
            collect_every: every.into(),
            ..self
        }
    }

    /// Sets the interval of removals of entities that have expired or were deleted and kept long enough, in a table by any process; `None`
    /// for never. The manifest has when they were removed last, as for scrubs.
    #[must_use]
    pub fn expire_every(self, every: impl Into<Option<Duration>>) -> Self {
        Self {
            expire_every: every.into(),
            ..self
        }
    }

    /// Obeys the expiry that the manifest has for a type, if it is by this property: removes entities whose time has come. Call it
    /// for each property. A store of this process is obeyed without. In any other store a client that may add rows to a table can
    /// have added an expiry, by which a removal would delete every entity; one that is not obeyed is [due](UpkeepReport::due).
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_patterns::upkeep::Upkeep;
    /// let upkeep = Upkeep::new(MemoryStore::new()).tables(["Sessions"]).trust_expiry("Session", "Expires");
    /// ```
    #[must_use]
    pub fn trust_expiry(mut self, type_name: &str, property: &str) -> Self {
        self.trusted_expiries
            .insert(format!("{type_name}={property}"));
        self
    }

    /// The expiry of a type, as an operator names it, if it is not to be obeyed.
    fn untrusted(&self, type_name: &str, expiry: &Expiry) -> Vec<String> {
        if self.store.context().local_writers().is_some() {
            return Vec::new();
        }
        let named = expiry
            .names()
            .map(|property| format!("{type_name}={property}"));
        named
            .filter(|named| !self.trusted_expiries.contains(named))
            .collect()
    }

    /// Sets for how long abort rows, records of finished transactions, and blobs that no row refers to are kept: longer than any
    /// writer can be paused, and any message can lie in a queue.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Sets a pause between the pages of scrubs and between the windows of builds, which reduces the load of the store.
    #[must_use]
    pub fn throttled(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Sets the number of tables that are swept concurrently, and the number of others that are built and scrubbed; at least 1. A table sends one
    /// request at a time, except where [`IndexOptions::concurrency`] applies.
    #[must_use]
    pub fn with_concurrency(self, tables: usize) -> Self {
        Self {
            concurrency: tables.max(1),
            ..self
        }
    }

    /// Sets the number of concurrent tickets, and of concurrent transactions of each coordinator, 16 unless set, and how often an
    /// empty queue is asked, once per second unless set.
    #[must_use]
    pub fn with_tickets(self, at_a_time: usize, idle: Duration) -> Self {
        Self {
            tickets: TicketPace {
                at_a_time: at_a_time.max(1),
                idle,
            },
            ..self
        }
    }

    /// Sets after how many failures of its work a ticket is poisoned: 5 unless set, at least 1. See
    /// [`Recovery`](crate::journal::Recovery).
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self {
            attempts: attempts.max(1),
            ..self
        }
    }

    /// Sets a listener that is called after each round of a table or of transactions, with the report so far.
    #[must_use]
    pub fn on_round(self, listener: impl Fn(&UpkeepReport) + Send + Sync + 'static) -> Self {
        Self {
            listener: Some(Arc::new(listener)),
            ..self
        }
    }

    /// Runs rounds until `stop` is ready, and returns the report.
    ///
    /// The work under way may then continue for the longest life of a request ([`Timing::request`](crate::journal::Timing::request)). After that it
    /// is dropped, as in a crash, and the next upkeep continues it. If this future is dropped, all work is dropped in the same way.
    ///
    /// # Errors
    /// A name is not legal, no table is named, or the durations contradict each other. Other errors are in the report.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<UpkeepReport> {
        self.check()?;
        let work = Work::new(self);
        {
            let (stop, running) = (pin!(stop), pin!(work.run_rounds()));
            if let Either::Left(((), running)) = select(stop, running).await {
                work.stop();
                let timings = self.coordinators.iter().map(Coordinator::timing);
                let requests = timings
                    .chain([self.options.timing])
                    .map(|timing| timing.request());
                // A request under way gets its time. Longer work, such as a build, is dropped between its
                // requests.
                if timeout(requests.max().unwrap_or_default(), running)
                    .await
                    .is_err()
                {
                    tracing::info!(
                        "upkeep was stopped during its work: the next upkeep continues the work"
                    );
                }
            }
        }
        Ok(work.into_report())
    }

    /// Runs one round: processes the queue; then sweeps each table, continues its builds and drops, and scrubs it if a scrub is due. Returns after
    /// the interrupted builds. With a queue, 1 more request for each table.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_once(&self) -> Result<UpkeepReport> {
        self.check()?;
        let work = Work::new(self);
        work.once().await;
        Ok(work.into_report())
    }

    fn named<N>(&mut self, names: impl IntoIterator<Item = N>) -> Vec<TableName>
    where
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let (mut legal, known) = (Vec::new(), self.tables.iter().chain(&self.transactions));
        let known: Vec<_> = known.cloned().collect();
        for name in names {
            match name.try_into() {
                // A table that is named twice would have two rounds at the same time.
                Ok(name) if known.contains(&name) || legal.contains(&name) => {}
                Ok(name) => legal.push(name),
                Err(error) => self.illegal = Some(error.into()),
            }
        }
        legal
    }

    fn check(&self) -> Result<()> {
        if let Some(illegal) = &self.illegal {
            return Err(illegal.clone());
        }
        if self.tables.is_empty() && self.transactions.is_empty() && self.coordinators.is_empty() {
            let reason = "upkeep has no table and no transactions: name tables by `tables`, or give `transactions` a coordinator";
            return Err(Error::misuse(reason.to_owned()));
        }
        self.options.check()?;
        self.store.profile().check_reads("upkeep")
    }
}
