//! [`IndexSet`]: the indexes of a table with their states, read again when they are too old, and the source of the entries of an entity.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use table_core::manifest::{EntityType, IndexState, StoredIndex, StoredType};
use table_core::model::{Entity, TableName, split_entry_id};
use table_core::store::{
    Error, LocalChange, LocalPermit, LocalWork, LocalWriters, Result, TableStore,
};
use table_core::typed::Schema;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::manifest::{Loaded, ManifestRows, TableRow};
use super::processes::{Durations, ProcessId, Registration, Watch};
use super::view::{DeclaredIndex, ManifestView, NotInForce, ReadTime, Unmaintainable};
use crate::entity_rows::EntityRows;
use crate::entry::{Entry, Index, Location, Maintainer, Permission, Recorded, Shape, Uniqueness};
use crate::index::exposure::{check_and_declare_copies, first_revealed};
use crate::journal::Timing;
use crate::rows::before_write;
use crate::rows::encrypted::marked;

/// Rows of ended processes that a build, a drop or an upkeep removes in one round.
pub(crate) const FORGOTTEN_AT_ONCE: usize = 10;

/// The entities that a handle may write, or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntityScope {
    /// Entities of one type, in the layout of this schema.
    Type(&'static Schema),
    /// Entities of any type.
    AnyType,
    /// None; upkeep only rewrites existing entities with their entries.
    Nothing,
}

/// The indexes of a table with their states in the manifest: the indexes that this program defines, and the
/// indexes that other programs and other types have declared. The latter are evaluated from their definitions.
///
/// Invariant (docs/manifest.md): no writer acts on states that are older than its cache time. So after a change
/// of state plus the longest cache time and request, every writer knows the new state, and two writers are
/// never more than one state apart.
pub(crate) struct IndexSet {
    store: Arc<dyn TableStore>,
    table: TableName,
    /// The indexes that this program defines.
    own: Vec<Index>,
    /// Indexes of other handles in this process that take part in one group: this program has their Rust code, too.
    learned: RwLock<Vec<Index>>,
    /// The durations of this process.
    durations: Durations,
    /// The manifest row of this process, which all handles of the table with the same durations share; `None` in a store that only this
    /// process writes.
    registration: Option<Arc<Registration>>,
    /// The observed manifest rows of other processes.
    watch: Watch,
    /// In a store that only this process writes: informs every other set of the table of a changed state.
    local: Option<Arc<LocalWriters>>,
    /// The name of the table in `local`.
    identity: String,
    /// Whether the handle refuses to write; it need not know every index then.
    reads_only: bool,
    /// The entities that the handle is for.
    scope: EntityScope,
    known: RwLock<Arc<ManifestView>>,
    /// Held during a read of the manifest, so that concurrent tasks send one read.
    reading: Mutex<()>,
}

/// The processes that a change of state waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowestProcess {
    /// The longest durations of all processes.
    pub(crate) durations: Durations,
    /// A registered process with longer durations than this process and every process without a row.
    pub(crate) process: Option<ProcessId>,
}

impl IndexSet {
    /// Creates a set whose states are read again when they are older than the cache time.
    pub(crate) fn new(
        store: Arc<dyn TableStore>,
        table: TableName,
        own: Vec<Index>,
        durations: Durations,
    ) -> Self {
        let own: Vec<_> = own.into_iter().map(|index| index.over(&store)).collect();
        let known = RwLock::new(Arc::new(ManifestView::of_program(&table, &own)));
        let (local, identity) = (
            store.context().local_writers().cloned(),
            store.profile().table_identity(&table),
        );
        Self {
            store,
            table,
            own,
            learned: RwLock::default(),
            durations,
            registration: None,
            watch: Watch::default(),
            local,
            identity,
            reads_only: false,
            scope: EntityScope::Nothing,
            known,
            reading: Mutex::default(),
        }
    }

    /// Lets other processes wait for this process: a row of the manifest registers it if other processes may
    /// write the store.
    pub(crate) fn with_registration(self) -> Self {
        // A store that a server gives to clients has more writers than this process.
        let is_alone = self.local.as_ref().is_some_and(|local| !local.is_served());
        let registration = (!is_alone).then(|| {
            let key = format!("{}\n{:?}", self.identity, self.durations);
            let context = self.store.context();
            context.shared(&key, || Registration::new(self.durations))
        });
        Self {
            registration,
            ..self
        }
    }

    /// The durations for the table's own row: those of this process if it has no row, otherwise zero.
    pub(crate) fn unregistered_durations(&self) -> Durations {
        if self.registration.is_some() {
            Durations::default()
        } else {
            self.durations
        }
    }

    /// Adopts the indexes that another handle of the table defines, for groups with entities of both handles:
    /// from now on the Rust code of that handle derives their entries. Their states come from the later read of
    /// the two handles, so that an index which was declared after this handle was opened is not omitted. No
    /// request.
    pub(crate) fn learn(&self, other: &Self) {
        // The order of the locks, here and in `adopt_manifest`: `learned`, then `known`.
        let theirs = other.known();
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = |index: &&Index| {
            !self
                .own
                .iter()
                .chain(&*learned)
                .any(|known| known.id() == index.id())
        };
        let new: Vec<_> = other
            .own
            .iter()
            .filter(is_new)
            .map(|index| index.clone().over(&self.store))
            .collect();
        if new.is_empty() {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = ManifestView::clone(&known);
        next.adopt(&self.table, &new, &theirs);
        *known = Arc::new(next);
        learned.extend(new);
    }

    /// Returns the schema of the type that the program writes.
    pub(crate) const fn schema(&self) -> Option<&'static Schema> {
        match self.scope {
            EntityScope::Type(schema) => Some(schema),
            EntityScope::AnyType | EntityScope::Nothing => None,
        }
    }

    /// Sets the entities that the handle is for.
    pub(crate) fn with_scope(self, scope: EntityScope) -> Self {
        Self { scope, ..self }
    }

    /// Refuses a program whose type contradicts the layout or the encryption in the manifest.
    pub(crate) fn check_stored_type(&self, loaded: &Loaded) -> Result<()> {
        let EntityScope::Type(schema) = self.scope else {
            return Ok(());
        };
        let Some(stored) = loaded.manifest.type_of(&schema.entity_type()) else {
            return Ok(());
        };
        stored.check_layout(&self.table, schema)?;
        if self.reads_only {
            return Ok(());
        }
        stored.check_encrypted(&self.table, schema)?;
        stored.check_expiry(&self.table, schema)
    }

    /// Refuses a program whose type has a large property that an index of the manifest uses: an entry cannot follow a
    /// value in a blob, so every write of a large value would be refused, in this program and in those before.
    pub(crate) fn check_large(&self, loaded: &Loaded) -> Result<()> {
        let EntityScope::Type(schema) = self.scope else {
            return Ok(());
        };
        let (table, name, entity) = (&self.table, schema.rust_name, schema.entity_type());
        let is_large = |name: &str| {
            schema
                .properties
                .iter()
                .any(|p| p.name == name && p.large.is_some())
        };
        for index in &loaded.manifest.indexes {
            let Some(definition) = &index.definition else {
                continue;
            };
            if definition.entity.is_disjoint_from(&entity) {
                continue;
            }
            if let Some(property) = definition
                .properties_read()?
                .iter()
                .find(|name| is_large(name))
            {
                return Err(Error::manifest_mismatch(format!(
                    "the table '{table}' has the index '{}', which uses the property '{property}', and this program stores the \
                     property of {name} as a large value, which no entry can follow: drop the index, or declare '{property}' without `#[large]`",
                    index.id()
                )));
            }
        }
        Ok(())
    }

    /// As [`check_stored_type`](Self::check_stored_type), by the last read of the manifest.
    pub(crate) fn check_type(&self) -> Result<()> {
        self.known().type_conflict.clone().map_or(Ok(()), Err)
    }

    /// Refuses maintenance of an index that this program defines but cannot maintain.
    pub(crate) fn check_can_maintain(&self, index: &Index) -> Result<()> {
        let known = self.known();
        let unknown = known
            .unknown
            .iter()
            .find(|unknown| unknown.id == index.id());
        unknown.map_or(Ok(()), |unknown| Err(unknown.refused(&self.table)))
    }

    /// Makes the set refuse writes.
    pub(crate) fn read_only(self) -> Self {
        Self {
            reads_only: true,
            ..self
        }
    }

    /// Refuses to write in a handle that was opened to read: no change of state waits for the states known
    /// here.
    pub(crate) fn check_writes(&self) -> Result<()> {
        if !self.reads_only {
            return Ok(());
        }
        let reason = format!(
            "the table '{}' was opened to read and refuses writes: open it by `open` to write",
            self.table
        );
        Err(Error::misuse(reason))
    }

    /// Reads the states again if they are too old: a writer with older states could be two states behind. Returns the end of their
    /// validity. States that are kept are valid for at least a quarter of the cache time, so that the caller has time to act on them;
    /// states that were read now, for the cache time less the duration of the read.
    async fn refresh_if_old(&self) -> Result<Option<Instant>> {
        if self.are_old() {
            // One task reads for all tasks that wait. The timeout limits the wait for a task whose future is not polled.
            let _turn = timeout(self.durations.cache, self.reading.lock()).await;
            if self.are_old() {
                // Boxed: few writes read the states, and the future of every write would have the size of the read.
                Box::pin(self.refresh()).await?;
            }
        }
        Ok(self.valid_until())
    }

    /// The right to act on the known states. The permit is taken before the states are read: a change of state
    /// either waits for the permit, or is part of what is read.
    pub(crate) async fn permission(&self) -> Result<Permission> {
        let permit = self.permit();
        // The refresh may write the registration of this process.
        let valid_until = before_write(self.refresh_if_old().await)?;
        Ok(Permission {
            valid_until,
            permit,
        })
    }

    /// The right to write by the known states.
    pub(crate) async fn prepare_write(&self) -> Result<Permission> {
        self.check_writes()?;
        self.permission().await
    }

    /// Writes while the states of the indexes are valid and pass `check`. A write that is still under way when
    /// the states expire is dropped: no request may take effect after another process could have changed a
    /// state twice (docs/manifest.md).
    pub(crate) async fn while_valid<T>(
        &self,
        timing: Timing,
        check: impl FnOnce() -> Result<()> + Send,
        write: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // Kept until the write has ended: a change of state waits for it.
        let permission = self.prepare_write().await?;
        check()?;
        match permission.valid_until {
            None => write.await,
            Some(until) => timing.until(until + timing.client(), write).await,
        }
    }

    /// In a store that only this process writes: a permit that a change of state waits for.
    pub(crate) fn permit(&self) -> Option<LocalPermit> {
        self.local.as_ref().map(LocalWriters::enter)
    }

    /// Informs all sets of this process that a state in the manifest has changed; `None` if other processes may
    /// write the store.
    pub(crate) fn announce_change(&self) -> Option<LocalChange> {
        self.local
            .as_ref()
            .map(|local| local.change(&self.identity))
    }

    /// Records that this process builds the index, until the result is dropped.
    pub(crate) fn register_build(&self, index: &Index) -> Option<LocalWork> {
        self.local
            .as_ref()
            .map(|local| local.work_on(self.build_key(index.id())))
    }

    /// In a store that only this process writes: waits until no task builds the index. Never ends in any other
    /// store.
    pub(crate) async fn until_not_built(&self, id: &str) {
        match &self.local {
            Some(local) => local.until_idle(&self.build_key(id)).await,
            None => pending().await,
        }
    }

    fn build_key(&self, id: &str) -> String {
        format!("{}/{id}", self.identity)
    }

    /// Whether a read of the manifest began after the last change of state by any set of this process.
    pub(crate) fn is_after_last_change(&self, asked: ReadTime) -> bool {
        self.local
            .as_ref()
            .is_none_or(|local| local.last_change_of(&self.identity) <= asked.change)
    }

    /// The time of a read of the manifest that begins now.
    pub(crate) fn read_time_now(&self) -> ReadTime {
        let change = self.local.as_ref().map_or(0, |local| local.last_change());
        ReadTime {
            change,
            at: Instant::now(),
        }
    }

    /// The store of the table and of its manifest.
    pub(crate) fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    /// The table.
    pub(crate) const fn table(&self) -> &TableName {
        &self.table
    }

    /// The rows of the entities.
    pub(crate) fn entity_rows(&self) -> EntityRows<'_> {
        EntityRows::new(&*self.store, &self.table)
    }

    /// The manifest of the table.
    pub(crate) fn manifest(&self) -> ManifestRows<'_> {
        ManifestRows {
            store: &*self.store,
            table: &self.table,
        }
    }

    /// The indexes that this program defines.
    pub(crate) fn own(&self) -> &[Index] {
        &self.own
    }

    /// All known indexes that this program can maintain.
    pub(crate) fn indexes(&self) -> Vec<Arc<Index>> {
        self.known()
            .indexes
            .iter()
            .map(|declared| Arc::clone(&declared.index))
            .collect()
    }

    /// Whether writes of some entities record their changes.
    pub(crate) fn has_feed(&self) -> bool {
        let known = self.known();
        let mut feeds = known
            .indexes
            .iter()
            .filter(|declared| declared.index.definition().is_feed());
        feeds.any(|declared| declared.state.writes_entries())
    }

    fn known(&self) -> Arc<ManifestView> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The index with this id, or with this name; a name means an index that the program defines, if there is one.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Index>> {
        self.known().find(&self.table, name)
    }

    /// Refuses a lookup by an index whose definition is not in force.
    pub(crate) fn check_in_force(&self, index: &Index) -> Result<()> {
        self.known().check_in_force(&self.table, index.id())
    }

    /// Whether the manifest has an index with this id that this program cannot maintain.
    pub(crate) fn is_unmaintainable(&self, id: &str) -> bool {
        self.known().unknown.iter().any(|unknown| unknown.id == id)
    }

    /// Whether other programs have declared indexes of these entities; their payload may hold any property.
    pub(crate) fn has_others_of(&self, entity: &EntityType) -> bool {
        self.known().has_others_of(entity)
    }

    /// The state of an index that this program can maintain, by its id, or by its name: an index of the program comes first. *Absent* for any
    /// other index.
    pub(crate) fn state(&self, name: &str) -> IndexState {
        self.known().state(name)
    }

    /// As [`state`](Self::state), also for an index that this program cannot maintain.
    pub(crate) fn state_in_manifest(&self, name: &str) -> IndexState {
        self.known().state_in_manifest(name)
    }

    /// Registers the process if its row could be taken for that of an ended process, and returns the time from which a read of the manifest
    /// counts. A change of state after that time waits for the process. 1 request if the process's row must be written again.
    /// The loop repeats the check, because the process may have paused during the write.
    pub(crate) async fn ensure_registered(&self) -> Result<ReadTime> {
        loop {
            let asked = self.read_time_now();
            match &self.registration {
                // `RegisterFirst`: a change of state waits only for processes whose rows it finds.
                Some(mine) if !mine.holds_at(asked.at) => {
                    mine.renew(&*self.store, &self.table).await?;
                }
                _ => return Ok(asked),
            }
        }
    }

    /// The id of the row of this process.
    fn own_process(&self) -> Option<ProcessId> {
        self.registration.as_ref().and_then(|mine| mine.id())
    }

    /// Reads the manifest, with the row of this process. Returns the time from which the read counts. 1 request; 1 more if this process must
    /// be registered, and 2 more if its row was removed.
    pub(crate) async fn load(&self) -> Result<(Loaded, ReadTime)> {
        let asked = self.ensure_registered().await?;
        let mine = self.own_process();
        let loaded = self.manifest().load().await?;
        let is_mine = |id: ProcessId| loaded.processes.iter().any(|row| row.id == id);
        let (Some(registration), Some(id)) = (&self.registration, mine.filter(|id| !is_mine(*id)))
        else {
            return Ok((loaded, asked));
        };
        // Another process has removed the row, or has dropped the table and created one of its name.
        registration.forget(id);
        let asked = self.ensure_registered().await?;
        Ok((self.manifest().load().await?, asked))
    }

    /// Reads the manifest. 1 request; 1 more if this process must be registered again; 1 more if another
    /// process is found to have ended.
    pub(crate) async fn refresh(&self) -> Result<()> {
        let (loaded, asked) = self.load().await?;
        self.adopt_manifest(&loaded, asked)?;
        if self.registration.is_some() {
            self.forget_gone(1).await;
        }
        Ok(())
    }

    /// The table's row of the manifest, as last read.
    pub(crate) fn table_row(&self) -> TableRow {
        self.known().table.clone()
    }

    /// The durations that a change of state waits for: the longest of this process, of the registered processes that have not ended, and of
    /// the processes without a row. The durations of the latter are in the table's own row, where they only grow.
    pub(crate) fn slowest(&self) -> SlowestProcess {
        let known = self.known();
        let mut slowest = SlowestProcess {
            durations: self.durations.max(known.table.durations),
            process: None,
        };
        let own_id = self.own_process();
        let mut longest = slowest.durations.to_settle();
        let others = known.processes.iter().filter(|row| Some(row.id) != own_id);
        // `WaitForRegistered`: each of them may cache states longer than this process.
        for row in others {
            slowest.durations = slowest.durations.max(row.durations);
            if row.durations.to_settle() > longest {
                longest = row.durations.to_settle();
                slowest.process = Some(row.id);
            }
        }
        slowest
    }

    /// Removes up to `most` rows of ended processes. 1 request for each. A row that remains only makes changes
    /// of state wait.
    pub(crate) async fn forget_gone(&self, most: usize) {
        let known = self.known();
        let gone = &known.gone[..known.gone.len().min(most)];
        let removed = self.manifest().remove_processes(gone).await;
        if let Err(error) = removed {
            tracing::debug!(%error, table = %self.table, "rows of ended processes were not removed from the manifest");
        }
    }

    /// The end of the cache time of the states that were last read.
    fn valid_until(&self) -> Option<Instant> {
        self.known()
            .loaded
            .map(|loaded| loaded.at + self.durations.cache)
    }

    /// Whether the states are too old to begin a request that depends on them.
    pub(crate) fn are_old(&self) -> bool {
        let is_fresh = |loaded: ReadTime| {
            Instant::now() + self.durations.cache / 4 <= loaded.at + self.durations.cache
                && self.is_after_last_change(loaded)
        };
        !self.known().loaded.is_some_and(is_fresh)
    }

    /// Adopts a manifest that was read at `asked`.
    ///
    /// # Errors
    /// The manifest has another definition with the id of an index of this program.
    pub(crate) fn adopt_manifest(&self, loaded: &Loaded, asked: ReadTime) -> Result<()> {
        // Held until the view is published: an index that is learned in between would be missing in the view.
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        let next = self.view_of(loaded, asked, &learned)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Two reads may overlap, and the answer of the earlier one may come last: the later read stays.
        if known.loaded.is_none_or(|before| before <= asked) {
            *known = Arc::new(next);
        }
        Ok(())
    }

    /// The view of a manifest that was read at `asked`, with the indexes that this handle has learned.
    fn view_of(&self, loaded: &Loaded, asked: ReadTime, learned: &[Index]) -> Result<ManifestView> {
        let own_id = self.own_process();
        let (processes, gone) = self.watch.divide(&loaded.processes, asked.at, own_id);
        let types = loaded
            .manifest
            .types
            .iter()
            .filter(|stored| !stored.encrypted.is_empty());
        let softly_deleted = loaded.manifest.types.iter().filter(|stored| {
            let expiry = stored.expiry.as_ref();
            expiry.is_some_and(|expiry| expiry.deleted.is_some())
        });
        let mut next = ManifestView {
            own: self.own.len(),
            // Kept, and not returned: lookups and upkeep go on, and only writes of the type are refused.
            type_conflict: self.check_stored_type(loaded).err(),
            encrypted: types.cloned().collect(),
            softly_deleted: softly_deleted.cloned().collect(),
            declared: loaded.manifest.indexes.len(),
            not_in_force: loaded
                .manifest
                .not_in_force
                .iter()
                .map(NotInForce::of)
                .collect(),
            table: loaded.table.clone(),
            processes,
            gone,
            loaded: Some(asked),
            ..ManifestView::default()
        };
        for index in &self.own {
            let stored = loaded.index(index.id());
            if stored.is_some_and(|stored| stored.fingerprint != index.definition().fingerprint()) {
                let (id, table) = (index.id(), &self.table);
                return Err(Error::invalid_declaration(format!(
                    "the table '{table}' has an index with the id '{id}' and another definition: rename this index"
                )));
            }
            let state = stored.map_or(IndexState::Absent, |stored| stored.state);
            // An own index with an obstacle is in both lists: lookups by it go on, and `unknown` refuses the writes of its entities.
            next.unknown
                .extend(self.encryption_obstacle(index, state, loaded));
            if let Some(stored) = stored.filter(|stored| stored.unconfirmed.is_some()) {
                next.unknown.extend(
                    self.declared_by_manifest(&ManifestView::default(), &[], stored)
                        .err()
                        .map(|u| *u),
                );
            }
            next.indexes.push(DeclaredIndex {
                index: Arc::new(index.clone()),
                state,
            });
        }
        let known = self.known();
        // Indexes of other programs and types: maintained here by the definitions that the manifest has.
        let is_own = |stored: &StoredIndex| self.own.iter().any(|index| index.id() == stored.id());
        for stored in loaded
            .manifest
            .indexes
            .iter()
            .filter(|stored| !is_own(stored))
        {
            match self.declared_by_manifest(&known, learned, stored) {
                Ok(declared) => {
                    match self.encryption_obstacle(&declared.index, declared.state, loaded) {
                        None => next.indexes.push(declared),
                        Some(unknown) => next.unknown.push(unknown),
                    }
                }
                Err(unknown) => next.unknown.push(*unknown),
            }
        }
        // `declared_by_manifest` has used the learned indexes that the manifest has. The others are not declared yet.
        let undeclared = learned
            .iter()
            .filter(|index| loaded.index(index.id()).is_none());
        next.indexes.extend(undeclared.map(|index| DeclaredIndex {
            index: Arc::new(index.clone()),
            state: IndexState::Absent,
        }));
        Ok(next.with_copies(&self.table))
    }

    /// The index of a definition in the manifest that the program does not define; or why the program cannot
    /// maintain it.
    fn declared_by_manifest(
        &self,
        known: &ManifestView,
        learned: &[Index],
        stored: &StoredIndex,
    ) -> Result<DeclaredIndex, Box<Unmaintainable>> {
        let (id, state) = (stored.id(), stored.state);
        let same = |index: &&Index| {
            index.id() == id && index.definition().fingerprint() == stored.fingerprint
        };
        if let Some(index) = learned.iter().find(same) {
            return Ok(DeclaredIndex {
                state,
                index: Arc::new(index.clone()),
            });
        }
        // Taken over with its compiled templates: a definition never changes under its id.
        let before = known
            .indexes
            .iter()
            .skip(self.own.len())
            .find(|declared| declared.index.id() == id);
        if let Some(declared) = before {
            return Ok(DeclaredIndex {
                state,
                index: Arc::clone(&declared.index),
            });
        }
        let unknown = |reason: &str| {
            let (id, entity, reason) = (id.clone(), stored.entity.clone(), reason.to_owned());
            Box::new(Unmaintainable {
                id,
                state,
                entity,
                reason,
                exposes_encrypted: false,
            })
        };
        if let Some(reason) = &stored.unconfirmed {
            return Err(unknown(&format!(
                "needs the consent of another table, which this program cannot read ({reason})"
            )));
        }
        let definition = stored
            .definition
            .clone()
            .ok_or_else(|| unknown("has a definition in a newer format than this program reads"))?;
        let index = Index::from_definition(definition)
            .map_err(|_| unknown("needs Rust code that this program does not have"))?;
        check_and_declare_copies(&*self.store, &self.table, std::slice::from_ref(&index)).map_err(
            |_| unknown("would expose properties that the store of this program encrypts"),
        )?;
        Ok(DeclaredIndex {
            state,
            index: Arc::new(index.over(&self.store)),
        })
    }

    /// Why this program cannot maintain an index of encrypted properties: the store does not decrypt, so the
    /// entries would hold ciphertext that is bound to another key.
    fn encryption_obstacle(
        &self,
        index: &Index,
        state: IndexState,
        loaded: &Loaded,
    ) -> Option<Unmaintainable> {
        if self.store.profile().encrypts {
            return None;
        }
        let entity = &index.definition().entity;
        let name = first_revealed(index, loaded.encrypted_of(entity))?;
        let reason = format!(
            "uses the encrypted property '{name}', which the store of this program does not decrypt"
        );
        let (id, entity) = (index.id().to_owned(), Some(entity.clone()));
        Some(Unmaintainable {
            id,
            state,
            entity,
            reason,
            exposes_encrypted: true,
        })
    }

    fn derive(
        &self,
        entity: &Entity,
        wanted: impl Fn(&Index, IndexState) -> bool,
    ) -> Result<Vec<Entry>> {
        let known = self.known();
        known.check_maintainable(&self.table, entity)?;
        if let (Some(conflict), EntityScope::Type(schema)) = (&known.type_conflict, self.scope)
            && schema.entity_type().admits(entity)
        {
            return Err(conflict.clone());
        }
        known.entries(&self.table, entity, wanted)
    }
}

#[async_trait]
impl Maintainer for IndexSet {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.derive(entity, |_, state| state.writes_entries())
    }

    fn removable(&self, entity: &Entity) -> Result<Vec<Entry>> {
        // A summary subtracts only an entity that it has added.
        let sums = |index: &Index| matches!(index.shape(), Shape::Summary { .. });
        self.derive(entity, |index, state| {
            state.removes_entries() && (state.writes_entries() || !sums(index))
        })
    }

    fn entries_of_stored_properties(&self, entity: &Entity) -> Result<Vec<Entry>> {
        let known = self.known();
        let differs = known
            .indexes
            .iter()
            .filter(|one| one.state.removes_entries() && !one.index.derives_stored_keys(entity));
        let entries = differs.map(|one| one.index.stored_entries(&self.table, entity));
        Ok(entries.collect::<Result<Vec<_>>>()?.concat())
    }

    fn recorded(&self, entity: &Entity) -> Result<Option<Recorded>> {
        self.known().recorded(entity)
    }

    /// Refuses an entity with a plaintext property that the manifest declares as encrypted. The check is for
    /// programs that write entities of any type; the handle of a type was checked when it was opened.
    fn check(&self, entity: &Entity) -> Result<()> {
        if self.scope != EntityScope::AnyType {
            return Ok(());
        }
        let known = self.known();
        let of = |stored: &&StoredType| stored.entity.as_ref().is_some_and(|of| of.admits(entity));
        let names = known
            .encrypted
            .iter()
            .filter(of)
            .flat_map(|stored| &stored.encrypted);
        let entity = marked(&*self.store, &self.table, entity);
        let is_open = |name: &&String| {
            entity
                .properties()
                .find(name)
                .is_some_and(|p| !p.is_encrypted())
        };
        let Some(name) = { names }.find(is_open) else {
            return Ok(());
        };
        let (table, key) = (&self.table, entity.key());
        Err(Error::manifest_mismatch(format!(
            "the manifest of the table '{table}' declares the property '{name}' as encrypted, and {key} has a plaintext value: mark the property"
        )))
    }

    fn copied(&self) -> Arc<[String]> {
        Arc::clone(&self.known().copied)
    }

    fn permits(&self, at: &Location, shared: Option<(&str, &Shape)>) -> bool {
        self.known().permits(&self.table, at, shared)
    }

    fn is_complete(&self, index: &str) -> bool {
        self.state(split_entry_id(index).0) == IndexState::Readable
    }

    fn entries_in_unready_indexes(&self, entity: &Entity) -> Result<Vec<(Entry, IndexState)>> {
        let unready = |index: &Index, state| {
            index.uniqueness() != Uniqueness::No && state != IndexState::Readable
        };
        let with_state = |entry: Entry| {
            let state = self.state(split_entry_id(&entry.index).0);
            (entry, state)
        };
        Ok(self
            .derive(entity, unready)?
            .into_iter()
            .map(with_state)
            .collect())
    }

    fn lone_writers(&self) -> Option<Arc<LocalWriters>> {
        let known = self.known();
        // A process that wrote through a server has a row, which stays for longer than its leases.
        let is_lone = self.registration.is_none()
            && known.loaded.is_some()
            && known.processes.is_empty()
            && known.gone.is_empty();
        self.local
            .clone()
            .filter(|local| is_lone && !local.is_served())
    }

    fn longest_lease(&self) -> Duration {
        self.slowest().durations.lease
    }

    async fn prepare(&self) -> Result<Permission> {
        self.prepare_write().await
    }
}

impl fmt::Debug for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexSet")
            .field("table", &self.table)
            .field("known", &self.known())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
