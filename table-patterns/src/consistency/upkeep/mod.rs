//! Upkeep: what tables with indexes need beside the programs that write them, from their manifests alone.
//!
//! # Problem
//! Writes need nobody beside them; what a crash leaves does. Journals are to be swept, tickets worked off, builds and removals of
//! indexes that were interrupted finished, entries compared with entities, blobs collected. A program that has the types of
//! every table is seldom the one that should do this.
//!
//! # What it does
//! An [`Upkeep`] needs a store and the names of tables. Of each table it reads the manifest, once a round, and then
//!
//! | it | where | as by |
//! |---|---|---|
//! | finishes writes that a crash left, gives up moves that died, releases reservations, removes old abort rows | the table, and the tables of its unique indexes, which the manifest names | [`Journal::sweep`](crate::journal::Journal::sweep) |
//! | works on tickets | the queue of its [`IndexOptions`] | [`Recovery`](crate::journal::Recovery) |
//! | goes on with builds that were interrupted | indexes that are not readable | [`IndexedEntities::build`](crate::index::IndexedEntities::build) |
//! | ends removals that were interrupted | indexes whose removal was begun | [`IndexedEntities::drop_index`](crate::index::IndexedEntities::drop_index) |
//! | repairs entries, less often | readable indexes | [`IndexedEntities::scrub_page`](crate::index::IndexedEntities::scrub_page) |
//! | removes blobs of lists that nothing names, as often | indexes with blobs | [`IndexedEntities::collect_blobs`](crate::index::IndexedEntities::collect_blobs) |
//! | removes blobs of large values that no row refers to, every 30 days | tables whose manifest names types with such values, if [`Upkeep::blobs`] has their store | [`LargeTable::collect`](crate::large::LargeTable::collect) |
//! | works on transactions | the [`eventual`](crate::eventual) transactions that [`Upkeep::transactions`] is given | [`Coordinator::run`](crate::eventual::Coordinator::run) |
//! | forgets finished transactions | tables of these, and those that [`Upkeep::transaction_tables`] names | [`Coordinator::sweep`](crate::eventual::Coordinator::sweep) |
//!
//! It declares nothing and begins neither builds nor removals: an index is built first by a program that
//! [defines](crate::index::IndexedEntities::build) it. A table that no program has opened with indexes is left as it is.
//!
//! # What it cannot do
//! - Work on [`eventual`](crate::eventual) transactions without their coordinator: their steps name stores and handlers of a program.
//! - Maintain [opaque](table_core::manifest) indexes, those of a newer format, and those that its store encrypts by a rule: they are
//!   [due](UpkeepReport::due). Writes of their entities are not finished here, and missing entries of those are counted, not added.
//! - Collect blobs of large values without their store and options: they are [due](UpkeepReport::due). The manifest names only types
//!   that a program opened with [`LargeTable::open`](crate::large::LargeTable::open).
//! - Scrub blind copies in other systems.
//!
//! # Several at once
//! Any number of processes may run it, beside programs that build and drop. A build has one builder: who finds the index's row changed within the
//! wait for a change of state and a lease leaves it to whoever changed it. One of them scrubs a table: it says so in the manifest's row `scrub`,
//! and the others wait for the next interval; a scrub that was begun a day ago and has not ended is begun again. So one of them collects the
//! blobs of a table, by the row `collection`.
//!
//! # Failure windows
//! None of its own: whatever it does can die at any request, and the next round goes on. An error of a table, or of an
//! index, stops no other; it is in the report, is traced, and the work is tried again in the next round, builds that fail less and less often.
//!
//! # Cost in requests
//! | for each table | requests |
//! |---|---|
//! | opened, once | 2, and 1 for its own row where other processes write the store, which it writes again every ten times [`IndexOptions::cache`](crate::index::IndexOptions::cache), or every lease where that is longer |
//! | a round with nothing to do | 1 for the manifest, 1 for the row of each process that is found to be gone, up to 10, and a scan of the table and of each table of unique entries: 1 per 1,000 rows; so 2 for a small table without such an index, 3 with one whose entries are in other partitions |
//! | a table without a manifest | 1 a round |
//! | a collection of blobs of large values | 2, and those of [`collect`](crate::large::LargeTable::collect) |
//! | the queue of tickets, and that of each coordinator | 1 a round to look for poison, and those of its worker |
//! | a scrub | 2, and those of [`scrub`](crate::index::IndexedEntities::scrub) for each index: 1 per entity and entry |
//! | a build that was interrupted | 3 to take it over, then those of [`run`](crate::index::IndexBuild::run) |
//! | a sweep with something to do, a blob, a ticket | see the calls above |

mod report;
#[cfg(test)]
mod tests;
mod work;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use object_store::ObjectStore;
use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use tokio::time::timeout;

use crate::eventual::Coordinator;
use crate::index::IndexOptions;
use crate::journal::ATTEMPTS;
use crate::large::LargeOptions;
use work::Work;

pub use report::{Due, IndexUpkeep, LargeUpkeep, Part, TableUpkeep, TransactionsUpkeep, UpkeepReport};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

type Listener = Arc<dyn Fn(&UpkeepReport) + Send + Sync>;

/// Looks after tables by their manifests. See the [module](self).
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
/// // Somebody deletes an entry by hand.
/// store.write(&people, Operation::Delete(Key::new("city_oslo", "1")?, IfMatch::Any)).await?;
///
/// // Another program, without the index: it runs until the future is ready.
/// let upkeep = Upkeep::new(store).tables(["People"]).with_options(IndexOptions::local());
/// let report = upkeep.run(tokio::time::sleep(Duration::from_secs(60))).await?;
/// let (id, city) = report.tables[&people].indexes.first_key_value().expect("what the manifest names");
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
    /// Where the blobs of large values are.
    large: Option<(Arc<dyn ObjectStore>, LargeOptions)>,
    /// A name that is not legal, for the call that would use it.
    illegal: Option<Error>,
    options: IndexOptions,
    every: Duration,
    scrub_every: Option<Duration>,
    collect_every: Option<Duration>,
    keep: Duration,
    pause: Duration,
    concurrency: usize,
    /// Tickets at a time, and between two looks at an empty queue.
    tickets: (usize, Duration),
    /// How often the work of a ticket fails before the ticket is poisoned.
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
            .finish_non_exhaustive()
    }
}

impl Upkeep {
    /// Upkeep of tables of a store: a round every 10 minutes, a scrub and a collection of blobs every 30 days, abort rows, heads and
    /// blobs kept for 7 days, 4 tables at a time, no pause between pages, the default [`IndexOptions`], no queue, no blobs of large
    /// values and no transactions.
    pub fn new(store: impl TableStore) -> Self {
        Self {
            store: store.into_shared(),
            tables: Vec::new(),
            transactions: Vec::new(),
            coordinators: Vec::new(),
            large: None,
            illegal: None,
            options: IndexOptions::default(),
            every: 10 * MINUTE,
            scrub_every: Some(30 * DAY),
            collect_every: Some(30 * DAY),
            keep: 7 * DAY,
            pause: Duration::ZERO,
            concurrency: 4,
            tickets: (16, Duration::from_secs(1)),
            attempts: ATTEMPTS,
            listener: None,
        }
    }

    /// Looks after these tables too. Those that have nothing but entries of theirs need not be named. A name that is not legal is an error when it runs.
    #[must_use]
    pub fn tables<N>(mut self, names: impl IntoIterator<Item = N>) -> Self
    where
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let tables = self.named(names);
        self.tables.extend(tables);
        self
    }

    /// Works on these [eventual](crate::eventual) transactions, and forgets finished ones: as [`Coordinator::run`] and
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
    /// values. The store and the options are those of the programs that write the tables: a blob goes when it is older than twice
    /// their [`write_deadline`](LargeOptions::write_deadline), and older than [`keep`](Self::keep) says. No other store may keep the
    /// blobs of tables of these names in the same [`root`](LargeOptions::root).
    #[must_use]
    pub fn blobs(self, store: Arc<dyn ObjectStore>, options: LargeOptions) -> Self {
        Self { large: Some((store, options)), ..self }
    }

    /// Takes the timing, the queue of tickets, the blobs and the requests at once of the programs that write the tables. A table remembers the
    /// longest durations of all who have opened it: state changes wait that long.
    #[must_use]
    pub fn with_options(self, options: IndexOptions) -> Self {
        Self { options, ..self }
    }

    /// Sets the pause between two rounds: how long what a crash left, and an interrupted build, may wait.
    #[must_use]
    pub fn every(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    /// Sets how often a table's indexes are scrubbed, by whichever process; `None` for never. The manifest has when it was done last: the
    /// first round of a process scrubs where that is too long ago.
    #[must_use]
    pub fn scrub_every(self, every: impl Into<Option<Duration>>) -> Self {
        Self { scrub_every: every.into(), ..self }
    }

    /// Sets how often the blobs of large values of a table are collected, by whichever process; `None` for never. The manifest has
    /// when they were collected last, as for scrubs.
    #[must_use]
    pub fn collect_every(self, every: impl Into<Option<Duration>>) -> Self {
        Self { collect_every: every.into(), ..self }
    }

    /// Sets for how long abort rows, heads of finished transactions, and blobs that no row refers to are kept: longer than any
    /// writer can be paused, and any message can lie in a queue.
    #[must_use]
    pub fn keep(self, keep: Duration) -> Self {
        Self { keep, ..self }
    }

    /// Pauses between the pages of scrubs and the windows of builds, to leave the store to others.
    #[must_use]
    pub fn throttled(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Sets how many tables are swept, and how many others are built and scrubbed, at a time; at least one. A table makes one request at a time,
    /// but for what [`IndexOptions::concurrency`] is for.
    #[must_use]
    pub fn with_concurrency(self, tables: usize) -> Self {
        Self { concurrency: tables.max(1), ..self }
    }

    /// Sets how many tickets, and how many transactions of each coordinator, are worked on at a time, 16 unless set, and how often an
    /// empty queue is asked, once per second unless set.
    #[must_use]
    pub fn with_tickets(self, at_a_time: usize, idle: Duration) -> Self {
        Self { tickets: (at_a_time.max(1), idle), ..self }
    }

    /// Sets how often the work of a ticket may fail before the ticket is poisoned: 5 times unless set, at least once. See
    /// [`Recovery`](crate::journal::Recovery).
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    /// Calls this after each round of a table or of transactions, with all that was done until then.
    #[must_use]
    pub fn on_round(self, listener: impl Fn(&UpkeepReport) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Arc::new(listener)), ..self }
    }

    /// Goes on until `stop` is ready, and says what it has done. What is under way then has the longest life of a request
    /// ([`Timing::request`](crate::journal::Timing::request)) to end; then it is dropped, as if the process had ended, and the next
    /// upkeep goes on with it. So is everything where the future is dropped.
    ///
    /// # Errors
    /// A name is not legal, no table is named, or the durations make no sense. All else is in the report.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<UpkeepReport> {
        self.check()?;
        let work = Work::new(self);
        {
            let (stop, running) = (pin!(stop), pin!(work.go_on()));
            if let Either::Left(((), running)) = select(stop, running).await {
                work.stop();
                let timings = self.coordinators.iter().map(Coordinator::timing);
                let requests = timings.chain([self.options.timing]).map(|timing| timing.request());
                if timeout(requests.max().unwrap_or_default(), running).await.is_err() {
                    tracing::info!("upkeep was stopped amid its work, which the next one goes on with");
                }
            }
        }
        Ok(work.into_report())
    }

    /// One round: what is in the queue is worked off; then each table is swept, cared for and, where a scrub is due, scrubbed. It ends
    /// when builds that were interrupted have ended. With a queue, 1 request more for each table.
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
            return Err(Error::invalid_request(reason.to_owned()));
        }
        self.options.check()?;
        self.store.profile().check_reads("upkeep")
    }
}
