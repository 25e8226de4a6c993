//! The build of an index over existing entities, while programs write.
//!
//! | state | what a build does before the next state |
//! |---|---|
//! | delete-only | waits until every writer removes entries |
//! | write-only | waits until every writer adds entries |
//! | building | writes the entries of the entities that exist, in windows; reads each window again; removes dangling entries |
//! | readable | nothing |

mod window;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::{Discriminator, EntityType, IndexState, StoredIndex};
use table_core::model::{Entity, PartitionKey, TableName};
use table_core::query::Continuation;
use table_core::store::{Duplicate, Error, ErrorKind, LocalWork, ManifestCache, Operation, Result};
use tokio::time::{Instant, sleep};

use self::window::{Window, Windows};
use super::changes::EntityChanges;
use super::consent;
use super::rows::IndexedRows;
use super::scrub::{Recount, Scrub, ScrubMode, ScrubReport};
use super::states::manifest::{Loaded, ROUNDS, TableRow};
use super::states::names::{check_generations, feed_being_dropped};
use super::states::set::IndexSet;
use super::states::waiting::{Waiting, WaitingFor, Waits, wait};
use crate::entry::shared::Merge;
use crate::entry::{Entry, Index, Location, Placement, Shape, Uniqueness};
use crate::journal::{Journal, Lease, Timing, before, has_mark, violation};

/// The number of groups of a window that are written at the same time.
const IN_PARALLEL: usize = 16;

/// Operations on one partition of a table.
type Group = ((TableName, PartitionKey), Vec<Operation>);

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BuildProgress {
    /// The state of the index.
    pub state: IndexState,
    /// Entities read.
    pub entities: usize,
    /// Entries written.
    pub entries: usize,
    /// Group transactions sent.
    pub groups: usize,
    /// The wait in progress, if there is one.
    pub waiting: Option<Waiting>,
}

/// Builds an index over existing data while programs write.
///
/// A build can be interrupted. It stores its progress in the manifest after each window of 10,000 entities or 16 MiB, and another
/// builder continues from there when the first has been silent for a lease.
///
/// Each state change waits for the longest cache time of the writers plus the longest life of a request. The removal of dangling local
/// entries waits as well. With [`IndexOptions::default`](crate::index::IndexOptions) each wait takes 90 seconds, and all waits take 6 minutes.
/// The first index of a type stays delete-only for at least 90 seconds, because of programs that write plain rows. In a store that only this
/// process writes ([`local_writers`](table_core::store::StoreContext::local_writers): the memory and the embedded store), each wait ends when the
/// writes in progress end.
pub struct IndexBuild<'a> {
    index: Arc<Index>,
    rows: IndexedRows<'a>,
    set: &'a IndexSet,
    journal: &'a Journal,
    changes: EntityChanges<'a>,
    timing: Timing,
    lease: Lease,
    /// While this value exists, the process does not consider the build abandoned.
    local_work: Option<LocalWork>,
    progress: BuildProgress,
    pause: Duration,
    duplicates: Vec<Duplicate>,
    /// Whether another process has changed the index's row since this process read it.
    is_superseded: bool,
    report: Box<dyn FnMut(BuildProgress) + Send + 'a>,
}

impl fmt::Debug for IndexBuild<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexBuild")
            .field("index", &self.index)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

impl<'a> IndexBuild<'a> {
    /// See [`IndexedEntities::build`](super::IndexedEntities::build).
    pub(super) fn new(changes: EntityChanges<'a>, timing: Timing, index: &str) -> Result<Self> {
        let EntityChanges {
            rows, set, journal, ..
        } = changes;
        set.check_writes()?;
        let index = set.find(index)?;
        set.check_can_maintain(&index)?;
        let state = IndexState::Absent;
        Ok(Self {
            index,
            rows,
            set,
            journal,
            changes,
            timing,
            lease: Lease::start(timing),
            local_work: None,
            progress: BuildProgress {
                state,
                entities: 0,
                entries: 0,
                groups: 0,
                waiting: None,
            },
            pause: Duration::ZERO,
            duplicates: Vec::new(),
            is_superseded: false,
            report: Box::new(|_| {}),
        })
    }

    /// Calls `report` after each window and each state, and before each wait, with its cause and its latest end.
    #[must_use]
    pub fn on_progress(mut self, report: impl FnMut(BuildProgress) + Send + 'a) -> Self {
        self.report = Box::new(report);
        self
    }

    /// Pauses between windows, to leave the store to other tasks.
    #[must_use]
    pub const fn throttled(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Runs the build to its end.
    ///
    /// # Cost in requests
    /// The pages of the table twice (1,000 rows each, index entries and system rows included), and 1 write of the manifest per window; at most
    /// one group transaction per 100 entries of a target partition within a window; a scrub of dangling entries. For a unique index one write
    /// of the journal per entity. For lists and copies 2 requests per changed row. For a summary instead: the pages of each partition's
    /// summaries, entities and summaries again, and 1 write of the manifest per partition. Each change of state costs at least 2 requests of the
    /// manifest.
    ///
    /// # Errors
    /// Several entities have the same value of a unique index: [`DuplicateValues`](ErrorKind::DuplicateValues) lists all of them. The index stays
    /// *building* and gives no values away until a build without duplicates. Other errors: the definition changed; another process
    /// builds or drops the index; errors of the store. After an error the build can be run again, and continues.
    pub async fn run(mut self) -> Result<BuildProgress> {
        self.run_steps().await
    }

    /// Continues an interrupted build after its builder has been silent for a lease. Returns `None` if another process works on the index, or if
    /// there is nothing to do.
    pub(crate) async fn take_over(mut self) -> Result<Option<BuildProgress>> {
        let built = self.take_over_steps().await;
        if self.is_superseded { Ok(None) } else { built }
    }

    /// Continues the build of an interrupted builder, when that builder has been silent for a lease.
    async fn take_over_steps(&mut self) -> Result<Option<BuildProgress>> {
        let loaded = self.set.manifest().load().await?;
        let stored = loaded.index(self.index.id()).cloned();
        let interrupted =
            |stored: &StoredIndex| stored.state != IndexState::Readable && !stored.is_dropping();
        let Some(mut stored) = stored.filter(interrupted) else {
            return Ok(None);
        };
        let may_have = may_have_plain_writers(&loaded, &self.index.definition().entity);
        self.settle_declared(stored.state, may_have).await?;
        // Also before the state is *building*: a live builder changes the row during this time.
        self.wait_for_builder().await;
        self.register_local_work();
        self.claim(&mut stored).await?;
        self.finish(stored).await.map(Some)
    }

    async fn run_steps(&mut self) -> Result<BuildProgress> {
        let stored = self.start().await?;
        self.finish(stored).await
    }

    async fn finish(&mut self, mut stored: StoredIndex) -> Result<BuildProgress> {
        self.progress.state = stored.state;
        while stored.state != IndexState::Readable {
            self.step(&mut stored).await?;
            self.report_state(stored.state);
        }
        Ok(self.progress)
    }

    /// Declares the index, or finds it declared, and waits for an earlier builder.
    async fn start(&mut self) -> Result<StoredIndex> {
        let may_have_plain_writers = declare(self.set, &self.index).await?;
        let mut stored = stored_of(self.set, &self.index).await?;
        // A build fills an index again, but it cannot bring back what the drop has removed of a feed. Changes that are left would have the
        // numbers of new ones.
        if self.index.definition().is_feed() && stored.is_dropping() {
            return Err(feed_being_dropped(&stored, self.set.table()));
        }
        if stored.state == IndexState::Readable {
            self.set.refresh().await?;
            return Ok(stored);
        }
        // In an earlier state a second builder does no harm: it writes no entries, and `advance` is under the ETag of the row.
        let may_have_builder = stored.state == IndexState::Building;
        if !may_have_builder {
            self.register_local_work();
        }
        self.settle_declared(stored.state, may_have_plain_writers)
            .await?;
        if may_have_builder {
            self.wait_for_builder().await;
            self.register_local_work();
            self.claim(&mut stored).await?;
        }
        Ok(stored)
    }

    /// Waits for another builder of the index, which may have crashed.
    async fn wait_for_builder(&mut self) {
        let (set, id) = (self.set, self.index.id().to_owned());
        let lease = set.slowest().durations.lease;
        Waits {
            set,
            report: &mut self.wait_reporter(),
        }
        .until_builder_ends(&id, lease)
        .await;
        self.progress.waiting = None;
    }

    /// Marks the build as in progress until this build is dropped. A process that shares the local store, and takes over or drops the
    /// index, waits until then (docs/manifest.md).
    fn register_local_work(&mut self) {
        self.local_work = self.set.register_build(&self.index);
    }

    /// Waits until every writer knows the state in which the build found the index. For a type's first index that includes programs that
    /// write plain rows. Such a program knows no state before it knows the index, and must have stopped when writers add entries.
    async fn settle_declared(
        &mut self,
        state: IndexState,
        may_have_plain_writers: bool,
    ) -> Result<()> {
        let declared = Instant::now();
        let is_known = self.settle(state, WaitingFor::State(state)).await?;
        // `WaitForPlainWriters`: such programs have no row in the manifest, so only their longest cache time
        // helps.
        if state != IndexState::DeleteOnly || !may_have_plain_writers || is_known {
            return Ok(());
        }
        let until = declared + ManifestCache::LIFE + Timing::default().request();
        let waiting = Waiting {
            for_what: WaitingFor::PlainWriters,
            process: None,
            until,
        };
        wait(waiting, &mut self.wait_reporter(), pending()).await;
        self.progress.waiting = None;
        Ok(())
    }

    /// Waits until every writer and this process know the state. Returns `true` where all writes that began before have ended, and
    /// `false` where durations have passed.
    async fn settle(&mut self, state: IndexState, for_what: WaitingFor) -> Result<bool> {
        self.progress.state = state;
        let set = self.set;
        let settled = Waits {
            set,
            report: &mut self.wait_reporter(),
        }
        .until_states_known(for_what)
        .await;
        self.progress.waiting = None;
        settled
    }

    /// Returns a function that reports a wait.
    fn wait_reporter(&mut self) -> impl FnMut(Waiting) + Send {
        move |waiting| {
            self.progress.waiting = Some(waiting);
            (self.report)(self.progress);
        }
    }

    /// Continues as the only builder. Fails if another process has changed the index's row since it was read.
    async fn claim(&mut self, stored: &mut StoredIndex) -> Result<()> {
        // The lease starts before the claim is sent: another builder counts from the moment at which it sees the changed row.
        let lease = Lease::start(self.timing);
        // Registered first: a process that takes over waits for the leases of the processes whose rows it finds.
        self.set.ensure_registered().await?;
        let progress = stored.progress.clone();
        self.advance(stored, stored.state, progress).await?;
        self.lease = lease;
        Ok(())
    }

    /// Works as the one builder for longer than a lease: claims the index again when half of the lease is over. Work that goes on
    /// after another builder has taken over is dropped.
    async fn while_claimed<T>(
        &mut self,
        stored: &mut StoredIndex,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut work = pin!(work);
        loop {
            // A process that slept beyond the moment claims before it sends anything more. Where the claim itself took so long, the
            // work goes on while requests may be sent.
            let moment = if self.lease.is_half_over() {
                self.lease.last_send()
            } else {
                self.lease.half()
            };
            if let Some(done) = before(moment, work.as_mut()).await {
                return done;
            }
            self.claim(stored).await?;
        }
    }

    /// Changes the row of the index in the manifest, under its ETag. 1 request.
    ///
    /// # Errors
    /// Another process has changed the row.
    async fn advance(
        &mut self,
        stored: &mut StoredIndex,
        state: IndexState,
        progress: Option<String>,
    ) -> Result<()> {
        let name = self.index.name();
        match self.set.manifest().advance(stored, state, progress).await {
            Err(e) if e.is_conflict() => {
                self.is_superseded = true;
                Err(Error::wrong_state(format!(
                    "another process builds or drops the index '{name}' of '{}': wait for that process, or start the build again after it has \
                     been silent for a lease",
                    self.rows.table
                )))
            }
            advanced => advanced,
        }
    }

    /// Does the work of the present state, then sets the next state and waits until every writer knows it.
    async fn step(&mut self, stored: &mut StoredIndex) -> Result<()> {
        let next = match stored.state {
            IndexState::Absent | IndexState::DeleteOnly => IndexState::WriteOnly,
            IndexState::WriteOnly => IndexState::Building,
            // `finish` ends before the state *readable*.
            IndexState::Building | IndexState::Readable => {
                self.fill(stored).await?;
                IndexState::Readable
            }
        };
        self.advance(stored, next, None).await?;
        self.settle(next, WaitingFor::State(next)).await.map(drop)
    }

    /// Writes the entries of existing entities, then removes dangling entries. A summary is counted instead.
    async fn fill(&mut self, stored: &mut StoredIndex) -> Result<()> {
        if self.index.definition().is_feed() {
            // Every writer emits by now. A feed begins here: entities that exist are no changes.
            return Ok(());
        }
        if matches!(self.index.shape(), Shape::Summary { .. }) {
            return self.count(stored).await;
        }
        self.backfill(stored).await?;
        self.check_duplicates()?;
        self.drain_in_flight_writes(stored.state).await?;
        let (changes, timing, index) = (self.changes, self.timing, Arc::clone(&self.index));
        let scrub = Scrub::new(changes, timing, &index, ScrubMode::Repair);
        self.while_claimed(stored, remove_dangling(scrub)).await
    }

    /// Waits for writers that derived no local entry to remove: such a writer may commit without the removal. It must have committed, or have
    /// started again, before dangling entries are searched.
    async fn drain_in_flight_writes(&mut self, state: IndexState) -> Result<()> {
        let is_local = *self.index.placement() == Placement::SamePartition;
        // `DrainInFlightWrites`: a group leaves out the removal of a row that it did not find. Remote entries are
        // removed after the commit, whatever was there before it.
        if is_local {
            self.settle(state, WaitingFor::Writers).await?;
        }
        Ok(())
    }

    /// Fails if the build has found duplicates. The index stays unreadable until the duplicates are removed and the build runs again.
    fn check_duplicates(&mut self) -> Result<()> {
        if self.duplicates.is_empty() {
            return Ok(());
        }
        let (index, duplicates) = (
            self.index.name().to_owned(),
            std::mem::take(&mut self.duplicates),
        );
        Err(ErrorKind::DuplicateValues { index, duplicates }.into())
    }

    /// Writes the entries of the entities that exist, window by window, from the stored progress on.
    async fn backfill(&mut self, stored: &mut StoredIndex) -> Result<()> {
        let mut from = stored.progress.as_deref().map(str::parse).transpose()?;
        loop {
            let (window, next) = self.windows().read(from.as_ref()).await?;
            self.progress.entities += window.entities.len();
            self.write_window(window, from.as_ref(), stored).await?;
            let Some(next) = next else { return Ok(()) };
            // The next build begins with the first window that had duplicates.
            if self.duplicates.is_empty() {
                stored.progress = Some(next.to_string());
            }
            self.claim(stored).await?;
            self.report_state(stored.state);
            from = Some(next);
            sleep(self.pause).await;
        }
    }

    /// Writes the entries of the entities of a window.
    async fn write_window(
        &mut self,
        mut window: Window,
        from: Option<&Continuation>,
        stored: &mut StoredIndex,
    ) -> Result<()> {
        window.entities = self.without_moves(window.entities, stored).await?;
        window.entities.iter().try_for_each(Entry::check_owner)?;
        if self.index.uniqueness() != Uniqueness::No {
            // By the journal: only reservations decide between two entities with one value.
            return self.rewrite(window.entities, stored).await;
        }
        if self.index.shape().is_shared() {
            self.merge_window(&window.entities, stored).await?;
            return self.rewrite_changed(&window, from, stored).await;
        }
        let mut groups: BTreeMap<(TableName, PartitionKey), Vec<Operation>> = BTreeMap::new();
        let mut owners = HashMap::new();
        for entity in &window.entities {
            for entry in self.index.entries(self.rows.table, entity)? {
                if let Some(other) = owners.insert(entry.location.clone(), entry.owner.clone()) {
                    return Err(violation(&entry, &other));
                }
                let (at, row) = (entry.location.clone(), entry.to_entity());
                // An insert, so that the row of another entity at this key is found. A row that the entity
                // already has is replaced (`RemoteRows::put_while`).
                groups
                    .entry((at.table, at.key.partition_key()))
                    .or_default()
                    .push(Operation::Insert(row));
                self.progress.entries += 1;
            }
        }
        // This may replace the entry of a newer state by that of the state that was read. The second read finds
        // such entities, and the journal writes their entries again.
        self.send(groups.into_iter().collect(), stored).await?;
        self.rewrite_changed(&window, from, stored).await
    }

    /// Ends the moves of the entities of a window. The source and the target of a committed move would otherwise claim the same entries.
    async fn without_moves(
        &mut self,
        all: Vec<Entity>,
        stored: &mut StoredIndex,
    ) -> Result<Vec<Entity>> {
        let mut entities = Vec::with_capacity(all.len());
        for entity in all {
            if has_mark(&entity) {
                let journal = self.journal;
                entities.extend(self.while_claimed(stored, journal.end_move(entity)).await?);
            } else {
                entities.push(entity);
            }
        }
        Ok(entities)
    }

    /// Writes the entries of the entities of a window again that have changed since they were read: their writers may not have
    /// seen the entries that the build wrote for the earlier state.
    async fn rewrite_changed(
        &mut self,
        window: &Window,
        from: Option<&Continuation>,
        stored: &mut StoredIndex,
    ) -> Result<()> {
        let windows = self.windows();
        let changed = self
            .while_claimed(stored, windows.changed_since(window, from))
            .await?;
        self.rewrite(changed, stored).await
    }

    const fn windows(&self) -> Windows<'a> {
        Windows { rows: self.rows }
    }

    /// Writes entities unchanged, with all their entries, by the journal. Collects duplicates of a unique index.
    async fn rewrite(&mut self, entities: Vec<Entity>, stored: &mut StoredIndex) -> Result<()> {
        for entity in entities {
            // The builder's lease is renewed between two writes, and never interrupts one of them: a write that is dropped half-way leaves
            // its journal row and reservations to recovery.
            if self.lease.is_half_over() {
                self.claim(stored).await?;
            }
            match self.changes.rewrite(entity).await {
                Ok(exists) => self.progress.entries += usize::from(exists),
                Err(error) => match self.duplicate(&error) {
                    Some(duplicate) if self.duplicates.contains(&duplicate) => {}
                    Some(duplicate) => self.duplicates.push(duplicate),
                    None => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// The two entities that have one value of the index, if the error names them.
    fn duplicate(&self, error: &Error) -> Option<Duplicate> {
        match error.root().kind() {
            ErrorKind::UniqueViolation {
                index,
                entry,
                owner,
                wanted_by,
            } if index == self.index.name() => {
                let (entry, owner, other) = (entry.clone(), owner.clone(), wanted_by.clone());
                Some(Duplicate {
                    entry,
                    owner,
                    other,
                })
            }
            _ => None,
        }
    }

    fn report_state(&mut self, state: IndexState) {
        self.progress.state = state;
        (self.report)(self.progress);
    }

    /// Sends groups under the builder's lease, because another builder may replace a builder that is silent for a lease.
    async fn send(&mut self, groups: Vec<Group>, stored: &mut StoredIndex) -> Result<()> {
        let mut groups = divided(groups, self.rows.store.profile().group_operations);
        while !groups.is_empty() {
            let (lease, journal, timing) = (self.lease, self.journal, self.timing);
            let sends = groups
                .into_iter()
                .map(|group| put(journal, timing, group, lease))
                .collect::<Vec<_>>();
            let sent: Vec<_> = stream::iter(sends)
                .buffer_unordered(IN_PARALLEL)
                .try_collect()
                .await?;
            self.progress.groups += sent.iter().map(|(_, groups)| groups).sum::<usize>();
            // The lease was over before the rest was sent: it goes on after another claim.
            groups = sent
                .into_iter()
                .map(|(left, _)| left)
                .filter(|left| !left.1.is_empty())
                .collect();
            if !groups.is_empty() {
                self.claim(stored).await?;
            }
        }
        Ok(())
    }

    /// Counts partition by partition; progress is the partition counted last.
    async fn count(&mut self, stored: &mut StoredIndex) -> Result<()> {
        loop {
            let mut report = ScrubReport::default();
            let (index, after) = (Arc::clone(&self.index), stored.progress.clone());
            let (rows, set, timing, mode) = (self.rows, self.set, self.timing, ScrubMode::Repair);
            let recount = Recount {
                rows,
                set,
                timing,
                index: &index,
                mode,
            };
            let next = self
                .while_claimed(stored, recount.next(after.as_deref(), &mut report))
                .await?;
            self.progress.entities += report.entities;
            self.progress.entries += report.missing;
            let Some(next) = next else { return Ok(()) };
            stored.progress = Some(next);
            self.claim(stored).await?;
            self.report_state(stored.state);
            sleep(self.pause).await;
        }
    }

    /// Adds the entries of a window to the rows that they share.
    async fn merge_window(&mut self, window: &[Entity], stored: &mut StoredIndex) -> Result<()> {
        let mut merges: BTreeMap<(TableName, PartitionKey), BTreeMap<Location, Merge>> =
            BTreeMap::new();
        for entity in window {
            for put in self.index.entries(self.rows.table, entity)? {
                let at = put.location.clone();
                let partition = merges
                    .entry((at.table.clone(), at.key.partition_key()))
                    .or_default();
                let new = || Merge::new(at.clone(), put.index.clone(), put.shape.clone());
                partition
                    .entry(at.clone())
                    .or_insert_with(new)
                    .put
                    .push(put);
                self.progress.entries += 1;
            }
        }
        for (partition, merges) in merges {
            let mut merges: Vec<_> = merges.into_values().collect();
            while !self.merge_in_lease(&partition, &mut merges).await? {
                self.claim(stored).await?;
            }
        }
        Ok(())
    }

    /// Sends changes while the lease lasts; the remaining changes stay in `merges`. Returns whether all were sent.
    async fn merge_in_lease(
        &mut self,
        to: &(TableName, PartitionKey),
        merges: &mut Vec<Merge>,
    ) -> Result<bool> {
        let (lease, sent) = (self.lease, &mut self.progress.groups);
        if !lease.may_send() {
            return Ok(false);
        }
        let may_send = || {
            *sent += usize::from(lease.may_send());
            lease.may_send()
        };
        let rows = self.journal.remote_rows();
        let merged = rows.merge_while(to, merges, may_send);
        self.timing.until(lease.cut_off(), merged).await
    }
}

/// The row of an index that is being built.
async fn stored_of(set: &IndexSet, index: &Index) -> Result<StoredIndex> {
    set.manifest().index(index.id()).await?.ok_or_else(|| {
        Error::wrong_state(format!(
            "the index '{}' was dropped during the build",
            index.name()
        ))
    })
}

/// Adds an index to the manifest if it is absent, with the consent of another table that its entries need. Returns whether programs may
/// still write plain rows of its entities. 2 requests, and 2 more for an index whose entries are in another table; again for each conflict
/// with another program.
///
/// # Errors
/// The manifest has an index of the same name whose entries could have the same rows.
async fn declare(set: &IndexSet, index: &Index) -> Result<bool> {
    let rows = set.manifest();
    let declared = [StoredIndex::new(index.definition(), IndexState::DeleteOnly)];
    for _ in 0..ROUNDS {
        let known = rows.load().await?;
        let may_have_plain_writers = may_have_plain_writers(&known, &index.definition().entity);
        if known.index(index.id()).is_some() {
            return Ok(may_have_plain_writers);
        }
        check_generations(index.definition(), &known, set.table())?;
        let is_declared = match known.not_in_force(index.id()) {
            // The program defines the index: with that it consents.
            Some(stored) => consent::bring_into_force(set, &known, stored).await?,
            None => {
                consent::give(set, &known, &declared).await?;
                // `DeclareInVersion`: another program may declare a colliding generation after this read.
                rows.declare(&known.table, &[], &declared).await?
            }
        };
        if is_declared {
            return Ok(may_have_plain_writers);
        }
    }
    Err(Error::precondition_failed(set.table(), TableRow::NAME))
}

/// Removes entries of older states of entities, which a crash or a race may have left. A readable index must have none.
async fn remove_dangling(scrub: Scrub<'_>) -> Result<()> {
    // `DanglingLast`: every lookup that does not read the entity would return a stale entry.
    let (mut report, mut from) = (ScrubReport::default(), None);
    loop {
        from = scrub.dangling(from.as_ref(), &mut report).await?;
        if from.is_none() {
            return Ok(());
        }
    }
}

/// The groups in parts of at most `most` operations.
fn divided(groups: Vec<Group>, most: usize) -> Vec<Group> {
    let mut parts = Vec::with_capacity(groups.len());
    for (to, operations) in groups {
        let mut operations = operations.into_iter().peekable();
        while operations.peek().is_some() {
            parts.push((to.clone(), operations.by_ref().take(most).collect()));
        }
    }
    parts
}

/// Sends a part of a window while the lease lasts. Returns the remaining operations and the number of sent groups.
async fn put(
    journal: &Journal,
    timing: Timing,
    (to, mut operations): Group,
    lease: Lease,
) -> Result<(Group, usize)> {
    let mut sent = 0;
    if lease.may_send() {
        let may_send = || {
            let may_send = lease.may_send();
            sent += usize::from(may_send);
            may_send
        };
        let rows = journal.remote_rows();
        let put = rows.put_while(&to, &mut operations, may_send);
        // `OneBuilder`: after the lease another builder may work on the index, and this one must not write
        // any more.
        timing.until(lease.cut_off(), put).await?;
    }
    Ok(((to, operations), sent))
}

/// Whether programs may still write plain rows of these entities. An index of all these entities prevents that once it is beyond
/// delete-only. A delete-only index may have been declared a moment ago.
fn may_have_plain_writers(known: &Loaded, entity: &EntityType) -> bool {
    let is_of_all =
        |of: &EntityType| of.discriminator == Discriminator::None || of.has_same_rows(entity);
    let excludes_plain_writers = |index: &StoredIndex| {
        index.state != IndexState::DeleteOnly && index.entity.as_ref().is_none_or(is_of_all)
    };
    !known.manifest.indexes.iter().any(excludes_plain_writers)
}
