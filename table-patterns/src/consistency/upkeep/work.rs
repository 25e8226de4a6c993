//! The work of an upkeep: rounds of tables, side by side.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{join, join_all, select};
use table_core::manifest::StoredIndex;
use table_core::model::TableName;
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout};

use super::Upkeep;
use super::report::{Due, IndexUpkeep, TableUpkeep, UpkeepReport};
use crate::eventual::sweep_records;
use crate::index::{IndexState, IndexedEntities, Kept, Obstacle, ScrubCursor, ScrubMode, ScrubReport};
use crate::journal::Recovery;

/// A build that failed waits at most so many times as long as a round.
const LONGEST_WAIT: u32 = 32;
/// Rounds of tickets in one round, for a queue that is filled as fast as it is emptied.
const TICKET_ROUNDS: usize = 64;

/// An upkeep that runs.
pub(super) struct Work<'a> {
    of: &'a Upkeep,
    stopped: watch::Sender<bool>,
    /// How many tables have been looked for, and how many of them were opened later.
    looked_for: watch::Sender<usize>,
    opened: Mutex<BTreeMap<TableName, IndexedEntities>>,
    report: Mutex<UpkeepReport>,
    tickets: AtomicUsize,
    /// For tables that are swept, and for those that are cared for, which may take hours.
    sweeping: Semaphore,
    caring: Semaphore,
}

/// What a table's rounds remember.
#[derive(Default)]
struct Memory {
    looked_for: bool,
    /// How often the build of an index has failed, when last, and after which time it is tried again.
    failed: HashMap<String, (u32, Instant, Duration)>,
}

impl<'a> Work<'a> {
    pub(super) fn new(of: &'a Upkeep) -> Self {
        let mut report = UpkeepReport::default();
        report.tables.extend(of.tables.iter().map(|table| (table.clone(), TableUpkeep::default())));
        report.transactions.extend(of.transactions.iter().map(|table| (table.clone(), Default::default())));
        Self {
            of,
            stopped: watch::Sender::new(false),
            looked_for: watch::Sender::new(0),
            opened: Mutex::default(),
            report: Mutex::new(report),
            tickets: AtomicUsize::new(0),
            sweeping: Semaphore::new(of.concurrency.min(Semaphore::MAX_PERMITS)),
            caring: Semaphore::new(of.concurrency.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// One round of everything.
    pub(super) async fn once(&self) {
        if self.of.options.queue.is_some() {
            // Before the sweeps: a ticket whose write a sweep has finished tells nobody so, and comes a second time.
            let looks = self.of.tables.iter().map(|table| self.look(table));
            let failed = join_all(looks).await.into_iter().filter_map(Result::err).count();
            tracing::debug!(failed, "tables were opened, which a round tells of");
            self.work_off().await;
        }
        let tables = self.of.tables.iter().map(|table| async move {
            self.round(table, &mut Memory::default()).await;
            self.tell();
        });
        let transactions = self.of.transactions.iter().map(|table| self.forget_heads(table));
        join(join_all(tables), join_all(transactions)).await;
    }

    /// Everything, again and again, until it is stopped.
    pub(super) async fn go_on(&self) {
        let tables = self.of.tables.iter().map(|table| async move {
            let mut memory = Memory::default();
            while !self.is_stopped() {
                self.round(table, &mut memory).await;
                self.tell();
                self.pause(self.of.every).await;
            }
        });
        let transactions = self.of.transactions.iter().map(|table| async move {
            while !self.is_stopped() {
                self.forget_heads(table).await;
                self.pause(self.of.every).await;
            }
        });
        join(join(join_all(tables), join_all(transactions)), self.take_tickets()).await;
    }

    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    pub(super) fn into_report(self) -> UpkeepReport {
        let tickets = self.tickets.into_inner();
        let report = self.report.into_inner().unwrap_or_else(PoisonError::into_inner);
        UpkeepReport { tickets, ..report }
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    async fn until_stopped(&self) {
        // The sender lives as long as this.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Waits, no longer than until it is stopped.
    async fn pause(&self, pause: Duration) {
        let _ = timeout(pause, self.until_stopped()).await;
    }

    fn report(&self) -> MutexGuard<'_, UpkeepReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> MutexGuard<'_, BTreeMap<TableName, IndexedEntities>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        if let Some(listener) = &self.of.listener {
            let report =
                UpkeepReport { tickets: self.tickets.load(Ordering::Relaxed), ..self.report().clone() };
            listener(&report);
        }
    }

    fn of_table(&self, table: &TableName, change: impl FnOnce(&mut TableUpkeep)) {
        change(self.report().tables.entry(table.clone()).or_default());
    }

    fn of_index(&self, entities: &IndexedEntities, id: &str, change: impl FnOnce(&mut IndexUpkeep)) {
        let state = entities.state(id);
        self.of_table(entities.table(), |table| {
            let index = table.indexes.entry(id.to_owned()).or_insert_with(|| IndexUpkeep::new(state));
            change(index);
        });
    }

    fn failed(&self, table: &TableName, error: Error) {
        tracing::warn!(%error, %table, "a round of upkeep failed");
        self.of_table(table, |kept| kept.error = Some(error));
    }

    async fn round(&self, table: &TableName, memory: &mut Memory) {
        self.of_table(table, |kept| kept.error = None);
        let was_open = self.opened().contains_key(table);
        let looked = self.look(table).await;
        let is_first = !std::mem::replace(&mut memory.looked_for, true);
        if is_first || (!was_open && self.opened().contains_key(table)) {
            self.looked_for.send_modify(|tables| *tables += 1);
        }
        match looked {
            Ok(Some((entities, kept))) => self.keep(&entities, &kept, memory).await,
            Ok(None) => self.of_table(table, |kept| kept.has_manifest = false),
            Err(error) => self.failed(table, error),
        }
        self.of_table(table, |kept| kept.rounds += 1);
    }

    /// What the manifest says now. `None` if there is none.
    async fn look(&self, table: &TableName) -> Result<Option<(IndexedEntities, Kept)>> {
        let known = self.opened().get(table).cloned();
        if let Some(entities) = known {
            if let Some(kept) = entities.kept().await? {
                return Ok(Some((entities, kept)));
            }
            self.opened().remove(table);
        }
        let (store, options) = (self.of.store.clone(), self.of.options.clone());
        let Some(entities) = IndexedEntities::open_to_keep(store, table.clone(), options).await? else {
            return Ok(None);
        };
        self.opened().insert(table.clone(), entities.clone());
        Ok(entities.kept().await?.map(|kept| (entities, kept)))
    }

    /// A round of a table with a manifest. It is swept as often as there are rounds, also while a build goes on.
    async fn keep(&self, entities: &IndexedEntities, kept: &Kept, memory: &mut Memory) {
        self.of_table(entities.table(), |table| {
            table.has_manifest = true;
            for (id, index) in &mut table.indexes {
                if !kept.indexes.iter().any(|stored| stored.id() == *id) {
                    (index.state, index.due) = (IndexState::Absent, None);
                }
            }
        });
        let cared = Notify::new();
        let care = async {
            if let Err(error) = self.care(entities, kept, memory).await {
                self.failed(entities.table(), error);
            }
            cared.notify_one();
        };
        let sweeps = async {
            let unique = entities.unique_tables(&kept.indexes);
            loop {
                self.sweep(entities, &unique).await;
                if timeout(self.of.every, cared.notified()).await.is_ok() || self.is_stopped() {
                    break;
                }
            }
        };
        join(care, sweeps).await;
    }

    async fn sweep(&self, entities: &IndexedEntities, unique: &[TableName]) {
        let _place = place(&self.sweeping).await;
        match entities.journal().sweep(unique, self.of.keep).await {
            Ok(swept) => self.of_table(entities.table(), |table| table.add(swept)),
            Err(error) => self.failed(entities.table(), error),
        }
    }

    async fn care(&self, entities: &IndexedEntities, kept: &Kept, memory: &mut Memory) -> Result<()> {
        let _place = place(&self.caring).await;
        for stored in &kept.indexes {
            if self.is_stopped() {
                return Ok(());
            }
            self.settle(entities, stored, memory).await;
        }
        let readable = |stored: &&StoredIndex| self.may_scrub(entities, stored);
        let indexes: Vec<_> = kept.indexes.iter().filter(readable).collect();
        let is_due = self.of.scrub_every.is_some_and(|every| kept.scrub.is_due(every));
        if !is_due || indexes.is_empty() {
            return Ok(());
        }
        let Some(begun) = entities.begin_scrub(&kept.scrub).await? else { return Ok(()) };
        for stored in indexes {
            self.scrub(entities, stored, &kept.indexes).await;
        }
        if self.is_stopped() { Ok(()) } else { entities.end_scrub(&begun).await }
    }

    /// Brings an index to where it was going.
    async fn settle(&self, entities: &IndexedEntities, stored: &StoredIndex, memory: &mut Memory) {
        let id = stored.id();
        if stored.is_dropping() {
            return self.finish_drop(entities, stored).await;
        }
        let obstacle = entities.obstacle(stored).map(|obstacle| match obstacle {
            Obstacle::Opaque => Due::Opaque,
            Obstacle::Newer => Due::Newer { format: stored.format },
            Obstacle::Encrypted => Due::Encrypted,
            Obstacle::NoBlobs => Due::NoBlobs,
        });
        let (may_build, is_readable) = (obstacle.is_none(), stored.state == IndexState::Readable);
        self.of_index(entities, &id, |index| {
            index.state = stored.state;
            // What a scrub has found is due until the next one.
            let of_scrub = matches!(index.due, Some(Due::Taken(_) | Due::NotRepaired(_)));
            if obstacle.is_some() || (is_readable && !of_scrub) {
                index.due = obstacle;
            }
        });
        let waits = memory.failed.get(&id).is_some_and(|(_, last, wait)| last.elapsed() < *wait);
        if may_build && !is_readable && !waits {
            self.build(entities, stored, memory).await;
        }
    }

    async fn finish_drop(&self, entities: &IndexedEntities, stored: &StoredIndex) {
        let id = stored.id();
        match entities.finish_drop(&id).await {
            Ok(removed) => self.of_index(entities, &id, |index| {
                index.dropped += usize::from(removed);
                (index.state, index.due) = (IndexState::Absent, None);
            }),
            Err(error) => self.of_index(entities, &id, |index| {
                (index.state, index.due) = (stored.state, Some(Due::Failed(error)));
            }),
        }
    }

    async fn build(&self, entities: &IndexedEntities, stored: &StoredIndex, memory: &mut Memory) {
        let id = stored.id();
        let built = match entities.build(&id) {
            Ok(build) => build.throttled(self.of.pause).take_over().await,
            Err(error) => Err(error),
        };
        let due = match &built {
            Ok(Some(_)) => None,
            Ok(None) => Some(Due::BuiltElsewhere).filter(|_| entities.state(&id) != IndexState::Readable),
            Err(error) => Some(match error.root().kind() {
                ErrorKind::DuplicateValues { duplicates, .. } => Due::Duplicates(duplicates.clone()),
                _ => Due::Failed(error.clone()),
            }),
        };
        match built {
            Ok(_) => {
                memory.failed.remove(&id);
            }
            Err(_) => {
                let failures = memory.failed.get(&id).map_or(0, |(failures, ..)| *failures);
                let wait = self.of.every.saturating_mul(2u32.saturating_pow(failures).min(LONGEST_WAIT));
                memory.failed.insert(id.clone(), (failures.saturating_add(1), Instant::now(), wait));
            }
        }
        let state = entities.state(&id);
        self.of_index(entities, &id, |index| {
            index.built += usize::from(matches!(built, Ok(Some(_))));
            (index.state, index.due) = (state, due);
        });
    }

    fn may_scrub(&self, entities: &IndexedEntities, stored: &StoredIndex) -> bool {
        let is_readable = entities.state(&stored.id()) == IndexState::Readable;
        is_readable && !stored.is_dropping() && entities.obstacle(stored).is_none()
    }

    async fn scrub(&self, entities: &IndexedEntities, stored: &StoredIndex, all: &[StoredIndex]) {
        let (id, mut found) = (stored.id(), ScrubReport::default());
        let left = entities.leaves_entities_of(stored, all);
        let scrubbed = self.scrub_pages(entities, &id, left, &mut found).await;
        let collected = match (&scrubbed, stored.shape.as_ref().is_some_and(|shape| shape.needs_blobs())) {
            (Ok(true), true) => entities.collect_blobs(&id).await,
            _ => Ok(0),
        };
        self.of_index(entities, &id, |index| {
            index.add(&found);
            let missing = Some(Due::NotRepaired(found.missing)).filter(|_| left && found.missing > 0);
            let due = if found.taken > 0 { Some(Due::Taken(found.taken)) } else { missing };
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

    /// Whether it has ended, and was not stopped.
    async fn scrub_pages(
        &self,
        entities: &IndexedEntities,
        id: &str,
        left: bool,
        found: &mut ScrubReport,
    ) -> Result<bool> {
        let mut cursor = Some(ScrubCursor::default());
        while let Some(at) = cursor {
            if self.is_stopped() {
                return Ok(false);
            }
            // Entities are not written here that have an index which only another program can maintain.
            let mode = if left && at.is_among_entities() { ScrubMode::Report } else { ScrubMode::Repair };
            cursor = entities.scrub_page(id, mode, at, found).await?;
            if cursor.is_some() && !self.of.pause.is_zero() {
                sleep(self.of.pause).await;
            }
        }
        Ok(true)
    }

    async fn forget_heads(&self, table: &TableName) {
        let keep = self.of.keep.max(self.of.options.timing.lease() * 2);
        let swept = {
            let _place = place(&self.sweeping).await;
            sweep_records(self.of.store.clone(), table.clone(), keep).await
        };
        let mut report = self.report();
        let heads = report.transactions.entry(table.clone()).or_default();
        match swept {
            Ok(removed) => {
                heads.sweeps += 1;
                heads.removed += removed;
                heads.error = None;
            }
            Err(error) => {
                tracing::warn!(%error, %table, "transactions were not swept");
                heads.error = Some(error);
            }
        }
    }

    /// Works on what the queue has now.
    async fn work_off(&self) {
        let opened: Vec<_> = self.opened().values().cloned().collect();
        let (Some(queue), false) = (&self.of.options.queue, opened.is_empty()) else { return };
        let journals = opened.iter().map(IndexedEntities::journal).collect();
        let recovery = Recovery::new(&**queue, journals).counting(&self.tickets);
        for _ in 0..TICKET_ROUNDS {
            match recovery.run_once(self.of.tickets.0).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    self.report().queue_error = Some(error);
                    break;
                }
            }
        }
    }

    /// Works on tickets until it is stopped. It begins when every table has been looked for, and anew when another one was opened: a ticket of a
    /// table that it does not know would wait for a lease.
    async fn take_tickets(&self) {
        let Some(queue) = &self.of.options.queue else { return };
        let mut looked_for = self.looked_for.subscribe();
        while !self.is_stopped() {
            let all_tried = *looked_for.borrow_and_update() >= self.of.tables.len();
            let opened: Vec<_> = self.opened().values().cloned().collect();
            let another = async {
                // The sender lives as long as this.
                let changed = pin!(looked_for.changed());
                select(changed, pin!(self.until_stopped())).await;
            };
            if !all_tried || opened.is_empty() {
                another.await;
                continue;
            }
            let journals = opened.iter().map(IndexedEntities::journal).collect();
            let recovery = Recovery::new(&**queue, journals).counting(&self.tickets);
            let (at_a_time, idle) = self.of.tickets;
            let failed = recovery.run(at_a_time, idle, another).await.err();
            let pause = failed.is_some();
            self.report().queue_error = failed;
            if pause {
                self.pause(self.of.every).await;
            }
        }
    }
}

/// A place that is given back when it is dropped.
async fn place(places: &Semaphore) -> Option<SemaphorePermit<'_>> {
    // The semaphore is never closed.
    places.acquire().await.ok()
}
