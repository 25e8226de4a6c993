//! The work of an upkeep: concurrent rounds of its tables.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{join, join_all, join3, join4, select};
use table_core::manifest::{StoredIndex, StoredType};
use table_core::model::TableName;
use table_core::queue::WorkQueue;
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout};

use super::expiry::{ExpirySweep, Swept};
use super::report::{Due, IndexUpkeep, TableUpkeep, TransactionsUpkeep, UpkeepReport};
use super::{TicketPace, Upkeep};
use crate::eventual::{Coordinator, TransactionEventKind, sweep_records};
use crate::index::{
    IndexState, IndexedEntities, Obstacle, ScrubCursor, ScrubMode, ScrubReport, UpkeepManifest,
    UpkeepTable,
};
use crate::journal::{Journal, Recovery, SET_ASIDE};
#[cfg(feature = "blobs")]
use crate::large::{CollectMode, Collected, Collection, LargeOptions};

/// The longest pause after failed builds, as a multiple of the pause between rounds.
const LONGEST_WAIT: u32 = 32;
/// The maximal number of times that one round receives messages, for a queue that is filled as fast as it is emptied.
const TICKET_ROUNDS: usize = 64;

/// A running upkeep.
pub(super) struct Work<'a> {
    upkeep: &'a Upkeep,
    stopped: watch::Sender<bool>,
    /// The number of tables whose manifest was read once, also in vain, and the number of tables that were opened later.
    manifests_read: watch::Sender<usize>,
    opened: Mutex<BTreeMap<TableName, IndexedEntities>>,
    report: Mutex<UpkeepReport>,
    tickets: AtomicUsize,
    coordinators: Vec<CountedCoordinator>,
    sweep_slots: Semaphore,
    /// Slots of their own for builds, drops and scrubs, which may take hours: sweeps do not wait for them.
    maintenance_slots: Semaphore,
}

/// A coordinator whose transactions are processed, and the number of transactions whose last step this process has done.
struct CountedCoordinator {
    coordinator: Coordinator,
    applied: Arc<AtomicUsize>,
}

impl CountedCoordinator {
    fn new(coordinator: &Coordinator) -> Self {
        let applied = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&applied);
        let coordinator = coordinator.clone().also_on_event(move |event| {
            if matches!(event.kind, TransactionEventKind::Applied) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            coordinator,
            applied,
        }
    }
}

/// The state that a table keeps between rounds.
#[derive(Default)]
struct Memory {
    /// Whether a round has read the manifest, also in vain.
    has_read_manifest: bool,
    /// The failed builds of each index.
    failed: HashMap<String, FailedBuilds>,
}

/// The builds of an index that have failed one after another.
struct FailedBuilds {
    count: u32,
    last: Instant,
    /// The pause before the next attempt.
    pause: Duration,
}

impl<'a> Work<'a> {
    pub(super) fn new(upkeep: &'a Upkeep) -> Self {
        let mut report = UpkeepReport::default();
        report.tables.extend(
            upkeep
                .tables
                .iter()
                .map(|table| (table.clone(), TableUpkeep::default())),
        );
        let transactions = upkeep
            .transactions
            .iter()
            .chain(upkeep.coordinators.iter().map(Coordinator::table));
        report
            .transactions
            .extend(transactions.map(|table| (table.clone(), Default::default())));
        Self {
            upkeep,
            stopped: watch::Sender::new(false),
            manifests_read: watch::Sender::new(0),
            opened: Mutex::default(),
            report: Mutex::new(report),
            tickets: AtomicUsize::new(0),
            coordinators: upkeep
                .coordinators
                .iter()
                .map(CountedCoordinator::new)
                .collect(),
            sweep_slots: Semaphore::new(upkeep.concurrency.min(Semaphore::MAX_PERMITS)),
            maintenance_slots: Semaphore::new(upkeep.concurrency.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Runs one round of all tables and queues.
    pub(super) async fn once(&self) {
        if self.upkeep.options.queue.is_some() {
            // Tickets before sweeps: after a sweep has finished a write, its ticket is received a second time.
            let reads = self
                .upkeep
                .tables
                .iter()
                .map(|table| self.read_manifest(table));
            let failed = join_all(reads)
                .await
                .into_iter()
                .filter_map(Result::err)
                .count();
            tracing::debug!(failed, "tables were opened; a round reports the failures");
            self.process_tickets().await;
        }
        let tables = self.upkeep.tables.iter().map(|table| async move {
            self.round(table, &mut Memory::default()).await;
            self.notify_listener();
        });
        let records = self
            .upkeep
            .transactions
            .iter()
            .map(|table| self.remove_records(table));
        let transactions = self.coordinators.iter().map(|counted| async {
            self.count_poisoned_transactions(&counted.coordinator).await;
            self.process_transactions(&counted.coordinator).await;
            self.remove_records_of(&counted.coordinator).await;
        });
        join3(join_all(tables), join_all(records), join_all(transactions)).await;
    }

    /// Runs rounds until it is stopped.
    pub(super) async fn run_rounds(&self) {
        let tables = self.upkeep.tables.iter().map(|table| async move {
            let mut memory = Memory::default();
            while !self.is_stopped() {
                self.round(table, &mut memory).await;
                self.notify_listener();
                self.pause(self.upkeep.every).await;
            }
        });
        let records = self.upkeep.transactions.iter();
        let records = records.map(|table| self.repeat_until_stopped(|| self.remove_records(table)));
        let transactions =
            self.coordinators
                .iter()
                .map(|CountedCoordinator { coordinator, .. }| {
                    let rounds = self.repeat_until_stopped(|| async {
                        self.count_poisoned_transactions(coordinator).await;
                        self.remove_records_of(coordinator).await;
                        self.notify_listener();
                    });
                    join(rounds, self.process_transactions_until_stopped(coordinator))
                });
        // Without a queue, each round does nothing.
        let poisoned = self.repeat_until_stopped(|| self.count_poisoned_tickets());
        let transactions = join(join_all(records), join_all(transactions));
        join4(
            join_all(tables),
            transactions,
            self.process_tickets_until_stopped(),
            poisoned,
        )
        .await;
    }

    /// Repeats a round, with the pause between rounds, until it is stopped.
    async fn repeat_until_stopped<F: Future<Output = ()>>(&self, round: impl Fn() -> F) {
        while !self.is_stopped() {
            round().await;
            self.pause(self.upkeep.every).await;
        }
    }

    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    pub(super) fn into_report(self) -> UpkeepReport {
        let report = self.report().clone();
        self.with_counts(report)
    }

    /// The report with the counts of tickets and transactions.
    fn with_counts(&self, mut report: UpkeepReport) -> UpkeepReport {
        report.tickets = self.tickets.load(Ordering::Relaxed);
        // The counters have the sums since the start, and the report may have those of an earlier call.
        for transactions in report.transactions.values_mut() {
            transactions.applied = 0;
        }
        for CountedCoordinator {
            coordinator,
            applied,
        } in &self.coordinators
        {
            let transactions = report
                .transactions
                .entry(coordinator.table().clone())
                .or_default();
            transactions.applied += applied.load(Ordering::Relaxed);
        }
        report
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    async fn until_stopped(&self) {
        // The sender lives as long as `self`.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Waits for a time, or until it is stopped.
    async fn pause(&self, pause: Duration) {
        let _ = timeout(pause, self.until_stopped()).await;
    }

    fn report(&self) -> MutexGuard<'_, UpkeepReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<TableName, IndexedEntities>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_listener(&self) {
        if let Some(listener) = &self.upkeep.listener {
            let report = self.report().clone();
            listener(&self.with_counts(report));
        }
    }

    fn update_table(&self, table: &TableName, change: impl FnOnce(&mut TableUpkeep)) {
        change(self.report().tables.entry(table.clone()).or_default());
    }

    fn update_index(
        &self,
        entities: &IndexedEntities,
        id: &str,
        change: impl FnOnce(&mut IndexUpkeep),
    ) {
        let state = entities.state(id);
        self.update_table(entities.table(), |table| {
            let index = table
                .indexes
                .entry(id.to_owned())
                .or_insert_with(|| IndexUpkeep::new(state));
            change(index);
        });
    }

    /// Reports the error of a round.
    fn failed(&self, table: &TableName, error: Error) {
        tracing::warn!(%error, %table, "a round of upkeep failed");
        self.update_table(table, |report| report.error = Some(error));
    }

    /// Runs a round of one table.
    async fn round(&self, table: &TableName, memory: &mut Memory) {
        self.update_table(table, |report| report.error = None);
        let was_open = self.opened().contains_key(table);
        let found = self.read_manifest(table).await;
        // `process_tickets_until_stopped` starts when every manifest was read once, also in vain, and again when another table was
        // opened.
        let is_first = !std::mem::replace(&mut memory.has_read_manifest, true);
        if is_first || (!was_open && self.opened().contains_key(table)) {
            self.manifests_read.send_modify(|tables| *tables += 1);
        }
        match found {
            Ok(UpkeepTable {
                entities: Some(entities),
                manifest,
            }) => {
                self.keep(&entities, &manifest, memory).await;
            }
            Ok(UpkeepTable {
                entities: None,
                manifest,
            }) => {
                self.update_table(table, |table| table.has_manifest = false);
                let _slot = slot(&self.maintenance_slots).await;
                let expired = self.expire(table, None, &manifest).await;
                if let Err(error) = expired.and(self.collect(table, &manifest).await) {
                    self.failed(table, error);
                }
            }
            Err(error) => self.failed(table, error),
        }
        self.update_table(table, |report| report.rounds += 1);
    }

    /// Reads the manifest, and opens the table if it is not open yet.
    async fn read_manifest(&self, table: &TableName) -> Result<UpkeepTable> {
        let known = self.opened().get(table).cloned();
        if let Some(entities) = known {
            if let Some(manifest) = UpkeepManifest::of_open(&entities).await? {
                return Ok(UpkeepTable {
                    entities: Some(entities),
                    manifest,
                });
            }
            self.opened().remove(table);
        }
        let (store, options) = (self.upkeep.store.clone(), self.upkeep.options.clone());
        let found = UpkeepTable::find(store, table.clone(), options).await?;
        if let Some(entities) = &found.entities {
            self.opened().insert(table.clone(), entities.clone());
        }
        Ok(found)
    }

    /// Runs a round of a table with a manifest. The table is swept in every round, also while a build runs.
    async fn keep(
        &self,
        entities: &IndexedEntities,
        manifest: &UpkeepManifest,
        memory: &mut Memory,
    ) {
        self.update_table(entities.table(), |table| {
            table.has_manifest = true;
            for (id, index) in &mut table.indexes {
                if !manifest.indexes.iter().any(|stored| stored.id() == *id) {
                    (index.state, index.due) = (IndexState::Absent, None);
                }
            }
        });
        // A build may take hours, in which interrupted writes must be finished too. So sweeps go on at the same time, at least one in
        // each round.
        let is_maintained = Notify::new();
        let maintain = async {
            if let Err(error) = self.maintain(entities, manifest, memory).await {
                self.failed(entities.table(), error);
            }
            is_maintained.notify_one();
        };
        let sweeps = async {
            let unique = manifest.unique_tables(entities.table());
            loop {
                self.sweep(entities, &unique).await;
                if timeout(self.upkeep.every, is_maintained.notified())
                    .await
                    .is_ok()
                    || self.is_stopped()
                {
                    break;
                }
            }
        };
        join(maintain, sweeps).await;
    }

    async fn sweep(&self, entities: &IndexedEntities, unique: &[TableName]) {
        let _slot = slot(&self.sweep_slots).await;
        match entities.journal().sweep(unique, self.upkeep.keep).await {
            Ok(swept) => self.update_table(entities.table(), |table| table.add(swept)),
            Err(error) => self.failed(entities.table(), error),
        }
    }

    /// Builds and drops indexes, removes expired entities, scrubs entries and collects blobs, where that is due.
    async fn maintain(
        &self,
        entities: &IndexedEntities,
        manifest: &UpkeepManifest,
        memory: &mut Memory,
    ) -> Result<()> {
        let _slot = slot(&self.maintenance_slots).await;
        for stored in &manifest.indexes {
            if self.is_stopped() {
                return Ok(());
            }
            self.finish_build_or_drop(entities, stored, memory).await;
        }
        let expired = self
            .expire(entities.table(), Some(entities), manifest)
            .await;
        let scrubbed = self.scrub_all(entities, manifest).await;
        // Each part runs also if one before it has failed. The first error is reported.
        expired
            .and(scrubbed)
            .and(self.collect(entities.table(), manifest).await)
    }

    /// Scrubs the indexes that can be scrubbed, if that is due and no other process has begun to.
    async fn scrub_all(&self, entities: &IndexedEntities, manifest: &UpkeepManifest) -> Result<()> {
        let readable = |stored: &&StoredIndex| self.may_scrub(entities, stored);
        let indexes: Vec<_> = manifest.indexes.iter().filter(readable).collect();
        let is_due = self
            .upkeep
            .scrub_every
            .is_some_and(|every| manifest.scrub.is_due(every));
        if !is_due || indexes.is_empty() {
            return Ok(());
        }
        let (store, table) = (&*self.upkeep.store, entities.table());
        // `None`: another process has claimed this run first.
        let Some(begun) = manifest.scrub.begin(store, table).await? else {
            return Ok(());
        };
        for stored in indexes {
            self.scrub(entities, stored, manifest).await;
        }
        if self.is_stopped() {
            Ok(())
        } else {
            begun.end(store, table).await
        }
    }

    /// Removes the entities that have expired, if that is due.
    async fn expire(
        &self,
        table: &TableName,
        entities: Option<&IndexedEntities>,
        manifest: &UpkeepManifest,
    ) -> Result<()> {
        if manifest.expiring.is_empty() {
            self.update_table(table, |table| table.expiry = None);
            return Ok(());
        }
        let types = manifest
            .expiring
            .iter()
            .map(|stored| stored.name().to_owned())
            .collect();
        self.update_table(table, |table| {
            table.expiry.get_or_insert_default().types = types;
        });
        let Some(every) = self.upkeep.expire_every.filter(|_| !self.is_stopped()) else {
            return Ok(());
        };
        let named = |stored: &StoredType| {
            stored
                .expiry
                .as_ref()
                .map(|expiry| self.upkeep.untrusted(stored.name(), expiry))
                .unwrap_or_default()
        };
        let (trusted, others): (Vec<_>, Vec<_>) = manifest
            .expiring
            .iter()
            .partition(|stored| named(stored).is_empty());
        let expiries: Vec<_> = others.iter().flat_map(|stored| named(stored)).collect();
        let mut due = (!expiries.is_empty()).then_some(Due::UntrustedExpiry(expiries));
        if trusted.is_empty() {
            self.update_table(table, |table| {
                table.expiry.get_or_insert_default().due = due;
            });
            return Ok(());
        }
        if !manifest.expiry.is_due(every) {
            return Ok(());
        }
        let store = &*self.upkeep.store;
        let Some(begun) = manifest.expiry.begin(store, table).await? else {
            return Ok(());
        };
        let mut ended = true;
        for stored in trusted {
            let Some(expiry) = &stored.expiry else {
                continue;
            };
            let indexes = &manifest.indexes[..];
            let sweep = ExpirySweep {
                upkeep: self.upkeep,
                table,
                entities,
                indexes,
                stored,
                expiry,
            };
            let swept = sweep
                .run(|| self.is_stopped())
                .await
                .unwrap_or_else(|error| {
                    tracing::warn!(%error, %table, "expired entities were not removed");
                    Swept {
                        due: Some(Due::Failed(error)),
                        ended: true,
                        ..Swept::default()
                    }
                });
            ended &= swept.ended;
            due = due.or(swept.due);
            self.update_table(table, |table| {
                let expiry = table.expiry.get_or_insert_default();
                expiry.removed += swept.summary.written;
                expiry.failed += swept.summary.failed;
            });
        }
        self.update_table(table, |table| {
            let expiry = table.expiry.get_or_insert_default();
            expiry.sweeps += usize::from(ended);
            expiry.due = due;
        });
        if ended {
            begun.end(store, table).await
        } else {
            Ok(())
        }
    }

    /// Removes the unused blobs of large values, if that is due.
    async fn collect(&self, table: &TableName, manifest: &UpkeepManifest) -> Result<()> {
        if manifest.large.is_empty() {
            self.update_table(table, |table| table.large = None);
            return Ok(());
        }
        let Some(every) = self.upkeep.collect_every.filter(|_| !self.is_stopped()) else {
            return Ok(());
        };
        let due = self.upkeep.has_no_blobs().then_some(Due::NoLargeBlobs);
        self.update_table(table, |table| {
            let large = table.large.get_or_insert_default();
            large.types.clone_from(&manifest.large);
            if due.is_some() {
                large.due = due;
            }
        });
        #[cfg(feature = "blobs")]
        if let Some((blobs, options)) = self
            .upkeep
            .large
            .as_ref()
            .filter(|_| manifest.collection.is_due(every))
        {
            return self.collect_blobs(table, manifest, &**blobs, options).await;
        }
        #[cfg(not(feature = "blobs"))]
        let _ = every;
        Ok(())
    }

    /// Removes blobs of large values that no row names, unless another process has done so lately, and records what was found.
    #[cfg(feature = "blobs")]
    async fn collect_blobs(
        &self,
        table: &TableName,
        manifest: &UpkeepManifest,
        blobs: &dyn object_store::ObjectStore,
        options: &LargeOptions,
    ) -> Result<()> {
        let store = &*self.upkeep.store;
        let Some(begun) = manifest.collection.begin(store, table).await? else {
            return Ok(());
        };
        let (mut found, mut is_first) = (Collected::default(), true);
        let next = || {
            let pause = if std::mem::take(&mut is_first) {
                Duration::ZERO
            } else {
                self.upkeep.pause
            };
            async move {
                sleep(pause).await;
                !self.is_stopped()
            }
        };
        // Longer than any write may take: a younger blob may belong to a row that is not written yet.
        let grace = self.upkeep.keep.max(options.write_deadline * 2);
        let collection = Collection {
            store,
            table,
            blobs,
            options,
            concurrency: self.upkeep.options.concurrency.max(1),
        };
        let ended = collection
            .run(grace, CollectMode::Remove, &mut found, next)
            .await;
        self.update_table(table, |table| {
            let large = table.large.get_or_insert_default();
            large.collected.add(found);
            large.collections += usize::from(matches!(ended, Ok(true)));
            large.due = ended.as_ref().err().cloned().map(Due::Failed);
        });
        match ended {
            Ok(true) => begun.end(store, table).await,
            Ok(false) => Ok(()),
            Err(error) => {
                // The report has it as due. The next collection starts a day later.
                tracing::warn!(%error, %table, "blobs were not collected");
                Ok(())
            }
        }
    }

    /// Finishes the build or the drop of an index.
    async fn finish_build_or_drop(
        &self,
        entities: &IndexedEntities,
        stored: &StoredIndex,
        memory: &mut Memory,
    ) {
        let id = stored.id();
        if stored.is_dropping() {
            return self.finish_drop(entities, stored).await;
        }
        let obstacle = Obstacle::of(stored, entities).map(|obstacle| match obstacle {
            Obstacle::Opaque => Due::Opaque,
            Obstacle::Newer => Due::Newer {
                format: stored.format,
            },
            Obstacle::Encrypted => Due::Encrypted,
            Obstacle::NoBlobs => Due::NoBlobs,
        });
        let (may_build, is_readable) = (obstacle.is_none(), stored.state == IndexState::Readable);
        self.update_index(entities, &id, |index| {
            index.state = stored.state;
            // The result of a scrub is due until the next scrub.
            let of_scrub = matches!(index.due, Some(Due::Taken(_) | Due::NotRepaired(_)));
            if obstacle.is_some() || (is_readable && !of_scrub) {
                index.due = obstacle;
            }
        });
        let waits = memory
            .failed
            .get(&id)
            .is_some_and(|failed| failed.last.elapsed() < failed.pause);
        if may_build && !is_readable && !waits {
            self.build(entities, stored, memory).await;
        }
    }

    async fn finish_drop(&self, entities: &IndexedEntities, stored: &StoredIndex) {
        let id = stored.id();
        match entities.index_drop(&mut |_| ()).finish(&id).await {
            Ok(removed) => self.update_index(entities, &id, |index| {
                index.dropped += usize::from(removed);
                (index.state, index.due) = (IndexState::Absent, None);
            }),
            Err(error) => self.update_index(entities, &id, |index| {
                (index.state, index.due) = (stored.state, Some(Due::Failed(error)));
            }),
        }
    }

    async fn build(&self, entities: &IndexedEntities, stored: &StoredIndex, memory: &mut Memory) {
        let id = stored.id();
        let built = match entities.build(&id) {
            // Boxed: the stack would hold the future of a build in the frame of each caller.
            Ok(build) => Box::pin(build.throttled(self.upkeep.pause).take_over()).await,
            Err(error) => Err(error),
        };
        let due = match &built {
            Ok(Some(_)) => None,
            // `None`: another process builds, or has ended the build since the manifest was read.
            Ok(None) => {
                Some(Due::BuiltElsewhere).filter(|_| entities.state(&id) != IndexState::Readable)
            }
            Err(error) => Some(match error.root().kind() {
                ErrorKind::DuplicateValues { duplicates, .. } => {
                    Due::Duplicates(duplicates.clone())
                }
                _ => Due::Failed(error.clone()),
            }),
        };
        match built {
            Ok(_) => {
                memory.failed.remove(&id);
            }
            Err(_) => {
                let earlier = memory.failed.get(&id).map_or(0, |failed| failed.count);
                // A build that fails reads the whole table each time. The pause doubles, so that a lasting
                // reason does not cost that in every round.
                let pause = self
                    .upkeep
                    .every
                    .saturating_mul(2u32.saturating_pow(earlier).min(LONGEST_WAIT));
                let (count, last) = (earlier.saturating_add(1), Instant::now());
                memory
                    .failed
                    .insert(id.clone(), FailedBuilds { count, last, pause });
            }
        }
        let state = entities.state(&id);
        self.update_index(entities, &id, |index| {
            index.built += usize::from(matches!(built, Ok(Some(_))));
            (index.state, index.due) = (state, due);
        });
    }

    /// Whether an index can be scrubbed: it is readable, and this program can maintain it.
    fn may_scrub(&self, entities: &IndexedEntities, stored: &StoredIndex) -> bool {
        let is_readable = entities.state(&stored.id()) == IndexState::Readable;
        is_readable && !stored.is_dropping() && Obstacle::of(stored, entities).is_none()
    }

    /// Scrubs an index, and collects its blobs.
    async fn scrub(
        &self,
        entities: &IndexedEntities,
        stored: &StoredIndex,
        manifest: &UpkeepManifest,
    ) {
        let (id, mut found) = (stored.id(), ScrubReport::default());
        let leaves_entities = manifest.leaves_entities_of(stored, entities);
        let scrubbed = self
            .scrub_pages(entities, &id, leaves_entities, &mut found)
            .await;
        // Not if the upkeep was stopped or the scrub has failed: a collection waits for the longest lease.
        let collected = match (
            &scrubbed,
            stored
                .shape
                .as_ref()
                .is_some_and(|shape| shape.needs_blobs()),
        ) {
            (Ok(true), true) => entities.collect_blobs(&id).await,
            _ => Ok(0),
        };
        self.update_index(entities, &id, |index| {
            index.add(&found);
            let missing = Some(Due::NotRepaired(found.missing))
                .filter(|_| leaves_entities && found.missing > 0);
            let due = if found.taken_keys > 0 {
                Some(Due::Taken(found.taken_keys))
            } else {
                missing
            };
            match scrubbed.and_then(|ended| collected.map(|blobs| (ended, blobs))) {
                Ok((ended, blobs)) => {
                    index.scrubs += usize::from(ended);
                    index.blobs += blobs;
                    index.due = due;
                }
                Err(error) => index.due = Some(Due::Failed(error)),
            }
        });
    }

    /// Scrubs an index page by page. Returns whether the scrub has ended and was not stopped.
    async fn scrub_pages(
        &self,
        entities: &IndexedEntities,
        id: &str,
        leaves_entities: bool,
        found: &mut ScrubReport,
    ) -> Result<bool> {
        let mut cursor = Some(ScrubCursor::default());
        while let Some(at) = cursor {
            if self.is_stopped() {
                return Ok(false);
            }
            // Entities with an index that only another program can maintain are not written.
            let mode = if leaves_entities && at.is_among_entities() {
                ScrubMode::Report
            } else {
                ScrubMode::Repair
            };
            cursor = entities.scrub_page(id, mode, at, found).await?;
            if cursor.is_some() && !self.upkeep.pause.is_zero() {
                sleep(self.upkeep.pause).await;
            }
        }
        Ok(true)
    }

    /// Removes the records of finished transactions of a table whose coordinator this process does not have.
    async fn remove_records(&self, table: &TableName) {
        let keep = self.upkeep.keep.max(self.upkeep.options.timing.lease() * 2);
        let removal = sweep_records(self.upkeep.store.clone(), table.clone(), keep);
        self.run_removal(table, removal).await;
    }

    /// Removes the records of finished transactions of a coordinator.
    async fn remove_records_of(&self, coordinator: &Coordinator) {
        self.run_removal(coordinator.table(), coordinator.sweep(self.upkeep.keep))
            .await;
    }

    /// Runs a removal of records when a slot is free, and reports its result.
    async fn run_removal(&self, table: &TableName, removal: impl Future<Output = Result<usize>>) {
        let removed = {
            let _slot = slot(&self.sweep_slots).await;
            removal.await
        };
        self.update_transactions(table, |report| match removed {
            Ok(removed) => {
                report.sweeps += 1;
                report.removed += removed;
                report.error = None;
            }
            Err(error) => {
                tracing::warn!(%error, %table, "transactions were not swept");
                report.error = Some(error);
            }
        });
    }

    fn update_transactions(&self, table: &TableName, change: impl FnOnce(&mut TransactionsUpkeep)) {
        change(self.report().transactions.entry(table.clone()).or_default());
    }

    /// Counts the transactions that are poisoned, and puts back messages that the queue set aside for another reason.
    async fn count_poisoned_transactions(&self, coordinator: &Coordinator) {
        let poisoned = coordinator.poison(SET_ASIDE).await;
        self.update_transactions(coordinator.table(), |report| match poisoned {
            Ok(poisoned) => {
                report.poisoned = poisoned.len();
                report.queue_error = None;
            }
            Err(error) => report.queue_error = Some(error),
        });
    }

    /// Works on the transactions that the queue has now.
    async fn process_transactions(&self, coordinator: &Coordinator) {
        if let Err(error) =
            until_empty(|| coordinator.run_once(self.upkeep.tickets.at_a_time)).await
        {
            self.update_transactions(coordinator.table(), |report| {
                report.queue_error = Some(error);
            });
        }
    }

    /// Works on transactions until it is stopped.
    async fn process_transactions_until_stopped(&self, coordinator: &Coordinator) {
        let TicketPace { at_a_time, idle } = self.upkeep.tickets;
        while !self.is_stopped() {
            if let Err(error) = coordinator.run(at_a_time, idle, self.until_stopped()).await {
                tracing::warn!(%error, table = %coordinator.table(), "transactions are not worked on");
                self.update_transactions(coordinator.table(), |report| {
                    report.queue_error = Some(error);
                });
                self.pause(self.upkeep.every).await;
            }
        }
    }

    /// Counts the tickets that are poisoned, and puts back messages that the queue set aside for another reason.
    async fn count_poisoned_tickets(&self) {
        let Some(queue) = &self.upkeep.options.queue else {
            return;
        };
        let recovery = Recovery::new(&**queue, Vec::new()).with_attempts(self.upkeep.attempts);
        match recovery.poison(SET_ASIDE).await {
            Ok(poisoned) => self.report().poisoned_tickets = poisoned.len(),
            Err(error) => self.report().queue_error = Some(error),
        }
    }

    fn recovery<'w>(
        &'w self,
        queue: &'w dyn WorkQueue,
        journals: Vec<&'w Journal>,
    ) -> Recovery<'w> {
        Recovery::new(queue, journals)
            .with_attempts(self.upkeep.attempts)
            .counting(&self.tickets)
    }

    /// Processes the tickets that the queue has now.
    async fn process_tickets(&self) {
        let opened: Vec<_> = self.opened().values().cloned().collect();
        let (Some(queue), false) = (&self.upkeep.options.queue, opened.is_empty()) else {
            return;
        };
        let journals = opened.iter().map(IndexedEntities::journal).collect();
        let recovery = self.recovery(&**queue, journals);
        self.count_poisoned_tickets().await;
        if let Err(error) = until_empty(|| recovery.run_once(self.upkeep.tickets.at_a_time)).await {
            self.report().queue_error = Some(error);
        }
    }

    /// Processes tickets until it is stopped. Starts after every manifest was read, and again after another table was opened: a ticket of an
    /// unknown table would wait for a lease.
    async fn process_tickets_until_stopped(&self) {
        let Some(queue) = &self.upkeep.options.queue else {
            return;
        };
        let mut manifests_read = self.manifests_read.subscribe();
        while !self.is_stopped() {
            let all_read = *manifests_read.borrow_and_update() >= self.upkeep.tables.len();
            let opened: Vec<_> = self.opened().values().cloned().collect();
            let another_opened = async {
                // The sender lives as long as `self`.
                let changed = pin!(manifests_read.changed());
                select(changed, pin!(self.until_stopped())).await;
            };
            if !all_read || opened.is_empty() {
                another_opened.await;
                continue;
            }
            let journals = opened.iter().map(IndexedEntities::journal).collect();
            let recovery = self.recovery(&**queue, journals);
            let TicketPace { at_a_time, idle } = self.upkeep.tickets;
            let failure = recovery.run(at_a_time, idle, another_opened).await.err();
            let has_failed = failure.is_some();
            self.report().queue_error = failure;
            if has_failed {
                self.pause(self.upkeep.every).await;
            }
        }
    }
}

/// A slot that is released when it is dropped.
async fn slot(slots: &Semaphore) -> Option<SemaphorePermit<'_>> {
    // The semaphore is never closed.
    slots.acquire().await.ok()
}

/// Repeats `receive`, which returns the number of messages that it has processed, until the queue is empty.
async fn until_empty<F: Future<Output = Result<usize>>>(receive: impl Fn() -> F) -> Result<()> {
    for _ in 0..TICKET_ROUNDS {
        if receive().await? == 0 {
            break;
        }
    }
    Ok(())
}
