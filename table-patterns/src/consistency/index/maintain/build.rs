use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::{Discriminator, EntityType, IndexState, StoredIndex};
use table_core::model::{ETag, Entity, Key};
use table_core::query::{Continuation, Query};
use table_core::store::{Duplicate, Error, ErrorKind, LocalWork, ManifestCache, Operation, Result};
use tokio::time::{Instant, sleep};

use super::build_groups::Groups;
use super::scrub::{ScrubMode, ScrubReport};
use crate::bulk::WINDOW_BYTES;
use crate::entry::shared::is_conflict;
use crate::entry::{Entry, Index, Maintainer as _, Placement, Shape, Uniqueness};
use crate::index::handle::IndexedEntities;
use crate::index::read::entries::is_entity;
use crate::index::states::manifest::Loaded;
use crate::index::states::names::check_generations;
use crate::index::states::set::FORGOTTEN_AT_ONCE;
use crate::index::states::waiting::{Waiting, WaitingFor, wait};
use crate::journal::{Invariant, Lease, Timing, before, violation};

/// Entities whose entries are sorted into groups together; fewer where they are large.
const WINDOW: usize = 10_000;

/// Entities that are done together, and the pages in which they were read.
#[derive(Default)]
struct Window {
    entities: Vec<Entity>,
    pages: usize,
}

/// What a build has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// The state the index is in.
    pub state: IndexState,
    /// Entities read.
    pub entities: usize,
    /// Entries written.
    pub entries: usize,
    /// Group transactions sent.
    pub groups: usize,
    /// What it waits for, while it does.
    pub waiting: Option<Waiting>,
}

/// Builds an index over existing data while writers go on.
///
/// Resumable: progress is stored in the manifest after each window of 10,000 entities, or of 16 MiB, and
/// another builder takes over from it, once the first has been silent for a lease. Each change of state waits
/// for the longest cache time of writers and the longest life of a request, and so does, in the entities' partitions,
/// the removal of what dangles: with [`IndexOptions::default`](crate::index::IndexOptions), 90 seconds each, and 6 minutes in all. With shorter
/// durations the first index of a type waits for 90 seconds before it is write-only all the same, for programs that write plain rows. In a store
/// that only this process writes ([`local_writers`](table_core::store::TableStore::local_writers): memory, and the embedded
/// store) it waits for the writes that are under way instead, which takes as long as these do.
pub struct IndexBuild<'a> {
    pub(crate) entities: &'a IndexedEntities,
    pub(crate) index: Arc<Index>,
    pub(crate) lease: Lease,
    /// While it is kept, nobody of this process takes the index to be abandoned.
    at_work: Option<LocalWork>,
    pub(crate) progress: BuildProgress,
    pub(crate) pause: Duration,
    duplicates: Vec<Duplicate>,
    /// Whether another process has changed the index's row since this one read it.
    outrun: bool,
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

impl IndexedEntities {
    /// Prepares the build of an index that is absent or only partly built.
    ///
    /// A program that writes the table by a plain [`Table`](table_core::typed::Table) refuses to write what an index is of, once it
    /// has read the manifest again: the build of a type's first index waits for that. One that asked for
    /// [`unmanaged`](table_core::typed::Table::unmanaged) is not refused: stop it first.
    ///
    /// # Errors
    /// The index is unknown.
    pub fn build(&self, index: &str) -> Result<IndexBuild<'_>> {
        self.set.check_writes()?;
        let index = self.set.find(index)?;
        self.set.check_kept(&index)?;
        let state = IndexState::Absent;
        let progress = BuildProgress { state, entities: 0, entries: 0, groups: 0, waiting: None };
        let lease = Lease::start(self.options.timing);
        let (pause, duplicates, report) = (Duration::ZERO, Vec::new(), Box::new(|_| {}));
        let (at_work, outrun) = (None, false);
        Ok(IndexBuild { entities: self, index, lease, at_work, progress, pause, duplicates, outrun, report })
    }

    async fn stored(&self, index: &Index) -> Result<StoredIndex> {
        self.rows().index(index.id()).await?.ok_or_else(|| {
            Error::invalid_request(format!("the index '{}' was dropped meanwhile", index.name()))
        })
    }

    /// Adds an index to the manifest, unless it is there; whether it is the first of its entities. Two requests.
    async fn declare(&self, index: &Index) -> Result<bool> {
        let rows = self.rows();
        let known = rows.load().await?;
        let is_first = is_first(&known, &index.definition().entity);
        if known.index(index.id()).is_some() {
            return Ok(is_first);
        }
        check_generations(index, &known, self.table())?;
        rows.insert(&StoredIndex::new(index.definition(), IndexState::DeleteOnly)).await?;
        Ok(is_first)
    }

    /// The entities of a window that are in another version than they were read in: done again, by the
    /// journal. The same pages are read once more; what is new in them has a writer that knows the index. Where
    /// there is no order, pages may hold other entities the second time: those that are not met are read alone.
    async fn changed_since(&self, window: &Window, from: Option<&Continuation>) -> Result<Vec<Entity>> {
        if !self.enforces(Invariant::ReadWindowAgain) {
            return Ok(Vec::new());
        }
        let entities = &window.entities;
        let mut versions: HashMap<_, _> = entities.iter().map(|e| (e.key(), e.etag())).collect();
        let last = entities.last().map(Entity::key);
        let (mut changed, mut from, mut pages) = (Vec::new(), from.cloned(), 0);
        loop {
            let page = self.store().query(self.table(), &Query::new(), from.as_ref()).await?;
            pages += 1;
            let done = match self.is_sorted() {
                true => page.items.last().map(Entity::key) >= last,
                // Twice: the entries of the window may be in between.
                false => pages >= 2 * window.pages,
            };
            let other = |e: &Entity| versions.remove(e.key()).is_some_and(|before| before != e.etag());
            changed.extend(page.items.into_iter().filter(other));
            let done = done || versions.is_empty();
            from = page.continuation;
            if done || from.is_none() {
                break;
            }
        }
        if !self.is_sorted() {
            changed.extend(self.changed_of(versions).await?);
        }
        Ok(changed)
    }

    /// Those of some entities that are in another version now. One request for each.
    async fn changed_of(&self, versions: HashMap<&Key, Option<&ETag>>) -> Result<Vec<Entity>> {
        let reads = versions.into_iter().map(|(key, before)| async move {
            let now = self.read(key).await?;
            Ok(now.filter(|now| now.etag() != before))
        });
        let reads = stream::iter(reads.collect::<Vec<_>>()).buffered(self.at_once());
        reads.try_filter_map(|changed| async move { Ok(changed) }).try_collect().await
    }

    /// A crash or a race may have left an entry of an older state: none may, once the index is read.
    async fn remove_dangling(&self, index: &Index) -> Result<()> {
        let (mut report, mut from) = (ScrubReport::default(), None);
        while self.enforces(Invariant::DanglingLast) {
            from = self.scrub_dangling(index, ScrubMode::Repair, from.as_ref(), &mut report).await?;
            if from.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// What a builder does under its lease: what is still on its way at the end is dropped, and nobody knows
    /// what became of it.
    pub(crate) async fn while_leased<T>(
        &self,
        lease: Lease,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if !self.enforces(Invariant::OneBuilder) {
            return work.await;
        }
        before(lease.cut_off(), work).await.unwrap_or_else(|| Err(self.options.timing.cut_off()))
    }

    /// What a build found out about keys, for all who write the table.
    async fn remember_collision<T: Sync>(&self, built: &Result<T>) {
        if let Err(error) = built
            && error.is_key_collision()
            && let Err(unrecorded) = self.set.collided(&**self.store()).await
        {
            tracing::warn!(error = %unrecorded, "a collision of keys was not written down");
        }
    }

    /// Waits until every writer knows the states that the manifest has by now, and no request of one that did not know them is
    /// under way; what the manifest holds then is known here. One request, one where a process that takes longer was not heard of for
    /// as long as states are cached, and one for each process that was found to be gone, up to ten.
    /// In a store that only this process writes,
    /// until the writes are done that began before, and the answer is `true`; elsewhere, and where one of these is not gone on with, as long
    /// as the slowest process needs that is registered.
    pub(crate) async fn let_states_settle(
        &self,
        for_what: WaitingFor,
        tell: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<bool> {
        let changed = Instant::now();
        let told = self.set.tell_change();
        // A process that takes longer may be gone since it was heard of.
        if self.set.slowest().process.is_some() && self.set.are_old() {
            self.refresh().await?;
        }
        let mut slowest = self.set.slowest();
        let mut is_known = false;
        loop {
            let waited = slowest.durations.to_settle();
            if self.enforces(Invariant::WaitForWriters) {
                let over = async {
                    match &told {
                        Some(change) => change.known().await,
                        None => pending().await,
                    }
                };
                let waiting = Waiting { for_what, process: slowest.process, until: changed + waited };
                is_known = wait(waiting, tell, over).await;
            }
            // Who was registered before the state changed is found now, unless it is gone.
            let asked = self.set.ask(&**self.store()).await?;
            let loaded = self.rows().load().await?;
            self.set.load(&loaded, asked)?;
            slowest = self.set.slowest();
            if is_known || slowest.durations.to_settle() <= waited {
                self.set.forget_gone(&**self.store(), FORGOTTEN_AT_ONCE).await;
                return Ok(is_known);
            }
        }
    }

    /// Waits for a builder of the index that was told to stop, or may be dead: until it is gone, where only this process
    /// writes the store; a lease elsewhere.
    pub(crate) async fn let_builder_end(
        &self,
        id: &str,
        lease: Duration,
        tell: &mut (dyn FnMut(Waiting) + Send),
    ) {
        let until = Instant::now() + lease;
        let waiting = Waiting { for_what: WaitingFor::Builder, process: None, until };
        wait(waiting, tell, self.set.until_not_built(id)).await;
    }
}

impl<'a> IndexBuild<'a> {
    /// Calls `report` after each window and state, and before it waits: for what, and until when at most.
    #[must_use]
    pub fn on_progress(mut self, report: impl FnMut(BuildProgress) + Send + 'a) -> Self {
        self.report = Box::new(report);
        self
    }

    /// Pauses between windows, to leave the store to others.
    #[must_use]
    pub const fn throttled(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Builds to the end. Requests: the pages of the table, of 1,000 rows with entries and system rows among them,
    /// twice; at most one group transaction per
    /// 100 entries of a target partition within a window; the scrub of what dangles; a write per
    /// entity for a unique index.
    ///
    /// # Errors
    /// Entities share values of a unique index ([`DuplicateValues`](ErrorKind::DuplicateValues) lists all of them): it stays
    /// *building*, so that nobody gets another of its values, until it is built again without them. The definition changed; another process builds or drops the index; the
    /// storage's. The build can be run
    /// again and goes on where it was.
    pub async fn run(mut self) -> Result<BuildProgress> {
        let built = self.run_steps().await;
        self.entities.remember_collision(&built).await;
        built
    }

    /// Goes on with a build that was interrupted, as soon as whoever began it has been silent for a lease. `None` if
    /// somebody is at work on the index, or nothing is left to be done.
    pub(crate) async fn take_over(mut self) -> Result<Option<BuildProgress>> {
        let built = self.take_over_steps().await;
        self.entities.remember_collision(&built).await;
        if self.outrun { Ok(None) } else { built }
    }

    async fn take_over_steps(&mut self) -> Result<Option<BuildProgress>> {
        let loaded = self.entities.rows().load().await?;
        let stored = loaded.index(self.index.id()).cloned();
        let interrupted =
            |stored: &StoredIndex| stored.state != IndexState::Readable && !stored.is_dropping();
        let Some(mut entry) = stored.filter(interrupted) else { return Ok(None) };
        self.settle_declared(entry.state, is_first(&loaded, &self.index.definition().entity)).await?;
        // Also before it is building: a builder that lives has changed the row by then.
        sleep(self.entities.set.slowest().durations.lease).await;
        if entry.state == IndexState::Building {
            self.begin();
        }
        self.claim(&mut entry).await?;
        self.finish(entry).await.map(Some)
    }

    async fn run_steps(&mut self) -> Result<BuildProgress> {
        let entry = self.start().await?;
        self.finish(entry).await
    }

    async fn finish(&mut self, mut entry: StoredIndex) -> Result<BuildProgress> {
        self.progress.state = entry.state;
        while entry.state != IndexState::Readable {
            self.step(&mut entry).await?;
            self.tell(entry.state);
        }
        Ok(self.progress)
    }

    async fn start(&mut self) -> Result<StoredIndex> {
        let is_first = self.entities.declare(&self.index).await?;
        let mut entry = self.entities.stored(&self.index).await?;
        if entry.state == IndexState::Readable {
            self.entities.refresh().await?;
            return Ok(entry);
        }
        self.settle_declared(entry.state, is_first).await?;
        if entry.state == IndexState::Building {
            let (entities, lease) = (self.entities, self.entities.set.slowest().durations.lease);
            let id = self.index.id().to_owned();
            entities.let_builder_end(&id, lease, &mut self.teller()).await;
            self.progress.waiting = None;
            self.begin();
            self.claim(&mut entry).await?;
        }
        Ok(entry)
    }

    /// From before the row says that it builds until it is dropped.
    fn begin(&mut self) {
        self.at_work = self.entities.set.build_of(&self.index);
    }

    /// Waits until every writer knows the state in which the build found the index. For a type's first index that includes programs that
    /// write plain rows. Such a program knows no state before it knows the index, and must have stopped when writers add entries.
    async fn settle_declared(&mut self, state: IndexState, is_first: bool) -> Result<()> {
        let declared = Instant::now();
        let is_known = self.settle(state, WaitingFor::State(state)).await?;
        let may_write = is_first && self.entities.set.has_plain_writers();
        let waits = may_write && !is_known;
        if state != IndexState::DeleteOnly || !waits {
            return Ok(());
        }
        let until = declared + ManifestCache::LIFE + Timing::default().request();
        let waiting = Waiting { for_what: WaitingFor::PlainWriters, process: None, until };
        wait(waiting, &mut self.teller(), pending()).await;
        self.progress.waiting = None;
        Ok(())
    }

    /// Waits until every writer and this process know the state. Returns `true` where all writes that began before have ended, and
    /// `false` where durations have passed.
    async fn settle(&mut self, state: IndexState, for_what: WaitingFor) -> Result<bool> {
        self.progress.state = state;
        let entities = self.entities;
        let settled = entities.let_states_settle(for_what, &mut self.teller()).await;
        self.progress.waiting = None;
        settled
    }

    /// Tells what is waited for.
    fn teller(&mut self) -> impl FnMut(Waiting) + Send {
        move |waiting| {
            self.progress.waiting = Some(waiting);
            (self.report)(self.progress);
        }
    }

    /// Goes on as the one builder: nobody has touched the index's row since it was read.
    pub(crate) async fn claim(&mut self, entry: &mut StoredIndex) -> Result<()> {
        let lease = Lease::start(self.entities.options.timing);
        // Who takes over waits for the leases of those that are registered.
        self.entities.set.ask(&**self.entities.store()).await?;
        let progress = entry.progress.clone();
        self.advance(entry, entry.state, progress).await?;
        self.lease = lease;
        Ok(())
    }

    /// Works as the one builder for longer than a lease: claims the index again when half of the lease is over. Work that goes on
    /// after another builder has taken over is dropped.
    pub(super) async fn while_claimed<T>(
        &mut self,
        entry: &mut StoredIndex,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if !self.entities.enforces(Invariant::OneBuilder) {
            return work.await;
        }
        let mut work = pin!(work);
        loop {
            // A process that slept beyond the moment claims before it sends anything more. Where the claim itself took so long, the
            // work goes on while requests may be sent.
            let moment = if self.lease.is_half_over() { self.lease.last_send() } else { self.lease.half() };
            if let Some(done) = before(moment, work.as_mut()).await {
                return done;
            }
            self.claim(entry).await?;
        }
    }

    async fn advance(
        &mut self,
        entry: &mut StoredIndex,
        state: IndexState,
        progress: Option<String>,
    ) -> Result<()> {
        let name = self.index.name();
        match self.entities.rows().advance(entry, state, progress).await {
            Err(e) if is_conflict(&e) => {
                self.outrun = true;
                Err(Error::invalid_request(format!(
                    "another process builds or drops the index '{name}' of '{}': let it, or begin again when it has \
                     been silent for a lease",
                    self.entities.table()
                )))
            }
            advanced => advanced,
        }
    }

    async fn step(&mut self, entry: &mut StoredIndex) -> Result<()> {
        let next = match entry.state {
            IndexState::Absent | IndexState::DeleteOnly => IndexState::WriteOnly,
            IndexState::WriteOnly => IndexState::Building,
            IndexState::Building | IndexState::Readable => {
                if matches!(self.index.shape(), Shape::Summary { .. }) {
                    self.total(entry).await?;
                } else {
                    self.backfill(entry).await?;
                    self.check_duplicates()?;
                    self.settle_drafts(entry.state).await?;
                    let (entities, index) = (self.entities, Arc::clone(&self.index));
                    self.while_claimed(entry, entities.remove_dangling(&index)).await?;
                }
                IndexState::Readable
            }
        };
        if next == IndexState::Building {
            self.begin();
        }
        self.advance(entry, next, None).await?;
        self.settle(next, WaitingFor::State(next)).await.map(drop)
    }

    /// A writer that had no entry to remove beside the entity may be about to commit without removing one: it
    /// has, or has begun anew, before what dangles is looked for.
    async fn settle_drafts(&mut self, state: IndexState) -> Result<()> {
        let beside = *self.index.placement() == Placement::SamePartition;
        if beside && self.entities.enforces(Invariant::SettleDrafts) {
            self.settle(state, WaitingFor::Writers).await?;
        }
        Ok(())
    }

    /// The index stays as it is, not readable: what entities share must be removed, and then it is built again.
    fn check_duplicates(&mut self) -> Result<()> {
        if self.duplicates.is_empty() {
            return Ok(());
        }
        let (index, duplicates) = (self.index.name().to_owned(), std::mem::take(&mut self.duplicates));
        Err(ErrorKind::DuplicateValues { index, duplicates }.into())
    }

    async fn backfill(&mut self, entry: &mut StoredIndex) -> Result<()> {
        let mut from = entry.progress.as_deref().map(str::parse).transpose()?;
        loop {
            let (window, next) = self.read_window(from.as_ref()).await?;
            self.write_window(window, from.as_ref(), entry).await?;
            let Some(next) = next else { return Ok(()) };
            // The next build begins with the first window that had duplicates.
            if self.duplicates.is_empty() {
                entry.progress = Some(next.to_string());
            }
            self.claim(entry).await?;
            self.tell(entry.state);
            from = Some(next);
            sleep(self.pause).await;
        }
    }

    async fn read_window(&mut self, from: Option<&Continuation>) -> Result<(Window, Option<Continuation>)> {
        let (mut window, mut bytes, mut from) = (Window::default(), 0, from.cloned());
        loop {
            let page =
                self.entities.store().query(self.entities.table(), &Query::new(), from.as_ref()).await?;
            window.pages += 1;
            let entities = page.items.into_iter().filter(is_entity);
            window.entities.extend(entities.inspect(|e| bytes += e.properties().as_packed().len()));
            from = page.continuation;
            if from.is_none() || window.entities.len() >= WINDOW || bytes >= WINDOW_BYTES {
                self.progress.entities += window.entities.len();
                return Ok((window, from));
            }
        }
    }

    async fn write_window(
        &mut self,
        window: Window,
        from: Option<&Continuation>,
        entry: &mut StoredIndex,
    ) -> Result<()> {
        window.entities.iter().try_for_each(Entry::check_owner)?;
        if self.index.uniqueness() != Uniqueness::No {
            return self.rewrite(window.entities, entry).await;
        }
        if self.index.shape().is_shared() {
            self.merge_window(&window.entities, entry).await?;
            let changed = self.changed_since(&window, from, entry).await?;
            return self.rewrite(changed, entry).await;
        }
        let (mut groups, mut owners) = (Groups::default(), HashMap::new());
        for entity in &window.entities {
            for entry in self.index.entries(self.entities.table(), entity)? {
                if let Some(other) = owners.insert(entry.location.clone(), entry.owner.clone()) {
                    return Err(violation(&entry, &other));
                }
                let (at, row) = (entry.location.clone(), entry.to_entity());
                groups.add(at.table, at.key.partition_key(), Operation::Insert(row));
                self.progress.entries += 1;
            }
        }
        self.send(groups, entry).await?;
        let changed = self.changed_since(&window, from, entry).await?;
        self.rewrite(changed, entry).await
    }

    async fn changed_since(
        &mut self,
        window: &Window,
        from: Option<&Continuation>,
        entry: &mut StoredIndex,
    ) -> Result<Vec<Entity>> {
        let entities = self.entities;
        self.while_claimed(entry, entities.changed_since(window, from)).await
    }

    async fn rewrite(&mut self, entities: Vec<Entity>, entry: &mut StoredIndex) -> Result<()> {
        for entity in entities {
            // Between writes, never amid one of them.
            if self.lease.is_half_over() && self.entities.enforces(Invariant::OneBuilder) {
                self.claim(entry).await?;
            }
            let rewritten = self.entities.rewrite(entity).await;
            match rewritten.map_err(|error| (self.duplicate(&error), error)) {
                Ok(there) => self.progress.entries += usize::from(there),
                Err((Some(duplicate), _)) if self.duplicates.contains(&duplicate) => {}
                Err((Some(duplicate), _)) => self.duplicates.push(duplicate),
                Err((None, error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// What an error says of two entities that have one value of the index.
    fn duplicate(&self, error: &Error) -> Option<Duplicate> {
        match error.root().kind() {
            ErrorKind::UniqueViolation { index, entry, owner, wanted_by } if index == self.index.name() => {
                let (entry, owner, other) = (entry.clone(), owner.clone(), wanted_by.clone());
                Some(Duplicate { entry, owner, other })
            }
            _ => None,
        }
    }

    pub(crate) fn tell(&mut self, state: IndexState) {
        self.progress.state = state;
        (self.report)(self.progress);
    }
}

/// Returns whether programs may still write plain rows of these entities. An index of all these entities prevents that once it is beyond
/// delete-only. A delete-only index may have been declared a moment ago.
fn is_first(known: &Loaded, entity: &EntityType) -> bool {
    let is_of_all = |of: &EntityType| of.discriminator == Discriminator::None || of.has_same_rows(entity);
    let is_known = |index: &StoredIndex| {
        index.state != IndexState::DeleteOnly && index.entity.as_ref().is_none_or(is_of_all)
    };
    !known.manifest.indexes.iter().any(is_known)
}
