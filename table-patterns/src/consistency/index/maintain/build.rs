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
use crate::entry::{Entry, Index, Maintainer as _, Placement, Shape, Uniqueness};
use crate::index::handle::IndexedEntities;
use crate::index::read::entries::is_entity;
use crate::index::states::manifest::Loaded;
use crate::index::states::names::check_generations;
use crate::index::states::set::FORGOTTEN_AT_ONCE;
use crate::index::states::waiting::{Waiting, WaitingFor, wait};
use crate::journal::{Lease, Timing, before, violation};
use crate::rows::WINDOW_BYTES;

/// Maximum number of entities in a window, whose entries are sorted into groups together.
const WINDOW: usize = 10_000;

/// Entities that are processed together, and the number of pages in which they were read.
#[derive(Default)]
struct Window {
    entities: Vec<Entity>,
    pages: usize,
}

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
/// process writes ([`local_writers`](table_core::store::TableStore::local_writers): the memory and the embedded store), each wait ends when the
/// writes in progress end.
pub struct IndexBuild<'a> {
    pub(crate) entities: &'a IndexedEntities,
    pub(crate) index: Arc<Index>,
    pub(crate) lease: Lease,
    /// While this value exists, the process does not consider the build abandoned.
    at_work: Option<LocalWork>,
    pub(crate) progress: BuildProgress,
    pub(crate) pause: Duration,
    duplicates: Vec<Duplicate>,
    /// Whether another process has changed the index's row since this process read it.
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
    /// A program that writes the table by a plain [`Table`](table_core::typed::Table) refuses to write entities of the index after it has
    /// read the manifest again. The build of a type's first index waits for that. A program that uses
    /// [`unmanaged`](table_core::typed::Table::unmanaged) does not read the manifest: stop it first.
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
            Error::invalid_request(format!("the index '{}' was dropped during the build", index.name()))
        })
    }

    /// Adds an index to the manifest if it is absent. Returns whether it is the first index of its entities. Two requests.
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

    /// Returns the entities of a window that have changed since they were read. The journal writes their entries again.
    ///
    /// This reads the same pages once more. A new entity in these pages has a writer that knows the index. On a store that does not sort, the
    /// second read may return other entities, so the missing ones are read one by one.
    async fn changed_since(&self, window: &Window, from: Option<&Continuation>) -> Result<Vec<Entity>> {
        let entities = &window.entities;
        let mut versions: HashMap<_, _> = entities.iter().map(|e| (e.key(), e.etag())).collect();
        let last = entities.last().map(Entity::key);
        let (mut changed, mut from, mut pages) = (Vec::new(), from.cloned(), 0);
        loop {
            let page = self.store().query(self.table(), &Query::new(), from.as_ref()).await?;
            pages += 1;
            let done = match self.is_sorted() {
                true => page.items.last().map(Entity::key) >= last,
                // Twice as many pages: the entries of the window may be between the entities.
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

    /// Returns the entities whose version has changed. One request per entity.
    async fn changed_of(&self, versions: HashMap<&Key, Option<&ETag>>) -> Result<Vec<Entity>> {
        let reads = versions.into_iter().map(|(key, before)| async move {
            let now = self.read(key).await?;
            Ok(now.filter(|now| now.etag() != before))
        });
        let reads = stream::iter(reads.collect::<Vec<_>>()).buffered(self.at_once());
        reads.try_filter_map(|changed| async move { Ok(changed) }).try_collect().await
    }

    /// Removes entries of older states of entities, which a crash or a race may have left. A readable index must have none.
    async fn remove_dangling(&self, index: &Index) -> Result<()> {
        let (mut report, mut from) = (ScrubReport::default(), None);
        loop {
            from = self.scrub_dangling(index, ScrubMode::Repair, from.as_ref(), &mut report).await?;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    /// Runs the work of a builder until its lease ends. Work that is not done by then is dropped, and its outcome is unknown.
    pub(crate) async fn while_leased<T>(
        &self,
        lease: Lease,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        before(lease.cut_off(), work).await.unwrap_or_else(|| Err(self.options.timing.cut_off()))
    }

    /// Stores a collision of entry keys that a build has found in the manifest, for all writers of the table.
    async fn remember_collision<T: Sync>(&self, built: &Result<T>) {
        if let Err(error) = built
            && error.is_key_collision()
            && let Err(unrecorded) = self.set.collided(&**self.store()).await
        {
            tracing::warn!(error = %unrecorded, "a collision of entry keys was not stored in the manifest");
        }
    }

    /// Waits until every writer knows the present states of the manifest and no request that used earlier states is in progress. Then reads
    /// the manifest.
    ///
    /// In a store that only this process writes, the wait ends when all earlier writes have ended, and the result is `true`. On a service, or
    /// if a local write does not continue, the wait takes as long as the slowest registered process needs.
    ///
    /// One request. One more if the slowest process has not been read for a cache time, and one per process that is gone, up to ten.
    pub(crate) async fn wait_for_state_propagation(
        &self,
        for_what: WaitingFor,
        tell: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<bool> {
        let changed = Instant::now();
        let told = self.set.tell_change();
        // The slowest process may be gone since its row was read.
        if self.set.slowest().process.is_some() && self.set.are_old() {
            self.refresh().await?;
        }
        let mut slowest = self.set.slowest();
        loop {
            let waited = slowest.durations.to_settle();
            let over = async {
                match &told {
                    Some(change) => change.known().await,
                    None => pending().await,
                }
            };
            let waiting = Waiting { for_what, process: slowest.process, until: changed + waited };
            let is_known = wait(waiting, tell, over).await;
            // This read returns every process that registered before the state change, unless the process is gone.
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

    /// Waits for another builder of the index, which must stop or may have crashed. In a store that only this process writes, the wait ends
    /// when the builder has ended; on a service it takes a lease.
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
    /// The pages of the table twice (1,000 rows each, index entries and system rows included); at most one group transaction per 100 entries of a
    /// target partition within a window; a scrub of dangling entries; one write per entity for a unique index.
    ///
    /// # Errors
    /// Several entities have the same value of a unique index: [`DuplicateValues`](ErrorKind::DuplicateValues) lists all of them. The index stays
    /// *building* and gives no values away until a build without duplicates. Other errors: the definition changed; another process
    /// builds or drops the index; errors of the store. After an error the build can be run again, and continues.
    pub async fn run(mut self) -> Result<BuildProgress> {
        let built = self.run_steps().await;
        self.entities.remember_collision(&built).await;
        built
    }

    /// Continues an interrupted build after its builder has been silent for a lease. Returns `None` if another process works on the index, or if
    /// there is nothing to do.
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
        // Also before the state is *building*: a live builder changes the row during this time.
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

    /// Marks the build as in progress, from before the row says *building* until this build is dropped.
    fn begin(&mut self) {
        self.at_work = self.entities.set.build_of(&self.index);
    }

    /// Waits until every writer knows the state in which the build found the index. For a type's first index that includes programs that
    /// write plain rows. Such a program knows no state before it knows the index, and must have stopped when writers add entries.
    async fn settle_declared(&mut self, state: IndexState, is_first: bool) -> Result<()> {
        let declared = Instant::now();
        let is_known = self.settle(state, WaitingFor::State(state)).await?;
        if state != IndexState::DeleteOnly || !is_first || is_known {
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
        let settled = entities.wait_for_state_propagation(for_what, &mut self.teller()).await;
        self.progress.waiting = None;
        settled
    }

    /// Returns a function that reports a wait.
    fn teller(&mut self) -> impl FnMut(Waiting) + Send {
        move |waiting| {
            self.progress.waiting = Some(waiting);
            (self.report)(self.progress);
        }
    }

    /// Continues as the only builder. Fails if another process has changed the index's row since it was read.
    pub(crate) async fn claim(&mut self, entry: &mut StoredIndex) -> Result<()> {
        let lease = Lease::start(self.entities.options.timing);
        // A process that takes over waits for the leases of registered processes.
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
            Err(e) if e.is_conflict() => {
                self.outrun = true;
                Err(Error::invalid_request(format!(
                    "another process builds or drops the index '{name}' of '{}': wait for that process, or start the build again after it has \
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
                    self.drain_in_flight_writes(entry.state).await?;
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

    /// Waits for writers that derived no local entry to remove: such a writer may commit without the removal. It must have committed, or have
    /// started again, before dangling entries are searched.
    async fn drain_in_flight_writes(&mut self, state: IndexState) -> Result<()> {
        let is_local = *self.index.placement() == Placement::SamePartition;
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
            if self.lease.is_half_over() {
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
