use std::fmt;
use std::future::pending;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use table_core::manifest::{EntityType, IndexState, StoredIndex, StoredType, index_name};
use table_core::model::{Entity, TableName};
use table_core::store::{Error, LocalChange, LocalPermit, LocalWork, LocalWriters, Result, TableStore};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::definition::{Index, Placement, Uniqueness};
use super::entry::{Entry, Maintainer, Permission};
use super::manifest::{Loaded, ManifestRows};
use super::open::Writes;
use super::processes::{Durations, ProcessId, ProcessRow, Registration, Watch};
use super::shape::Shape;
use super::shared::copied_names;
use super::table_row::TableRow;
use crate::journal::Rule;
use crate::rows::encrypted::{check_indexes, marked, shown};

/// How many rows of processes that are gone a builder, and upkeep, remove at once.
pub(super) const FORGOTTEN_AT_ONCE: usize = 10;

/// The indexes of a table with the states that its manifest gives them: those that this program defines, and those that
/// other programs and other types have declared, which are evaluated from their definitions.
pub(super) struct IndexSet {
    store: Arc<dyn TableStore>,
    table: TableName,
    /// Those that this program defines.
    own: Vec<Index>,
    /// Those of other handles of the table that write together with this one: this program has their Rust code, too.
    learned: RwLock<Vec<Index>>,
    /// Those of this process.
    durations: Durations,
    /// By what others know of this process, where they may write the store.
    registration: Option<Registration>,
    /// What is known of theirs.
    watch: Watch,
    #[cfg(test)]
    broken: std::sync::OnceLock<Rule>,
    /// Where only this process writes the store: through it every other set of the table is told that a state has changed.
    local: Option<Arc<LocalWriters>>,
    /// What the table is called there.
    identity: String,
    /// Whether nothing is written by it: then it need not know every index.
    reads_only: bool,
    /// Which entities the program writes by it.
    writes: Writes,
    known: RwLock<Arc<Known>>,
    /// Who reads them again.
    reading: Mutex<()>,
}

/// What was last read.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The program's own first, in their order; at the end those that were learned and that the manifest does not have.
    indexes: Vec<Declared>,
    /// Indexes that this program cannot maintain.
    unknown: Vec<Unknown>,
    /// Why the program must not write entities of its type: others store them otherwise.
    misfit: Option<Error>,
    /// What the manifest says of types that have encrypted properties.
    encrypted: Vec<StoredType>,
    /// The properties of entities that copy indexes write.
    copied: Arc<[String]>,
    table: TableRow,
    /// The processes that may act upon states, and those that are gone but have a row still.
    processes: Vec<ProcessRow>,
    gone: Vec<ProcessRow>,
    loaded: Option<Asked>,
}

/// For whom a change of a state waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slowest {
    /// The longest durations of all.
    pub(super) durations: Durations,
    /// Another process that needs longer than this one and all that have no row.
    pub(super) process: Option<ProcessId>,
}

/// When the manifest was asked: by the changes of states before that this process made, and by its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    change: u64,
    pub(super) at: Instant,
}

#[derive(Clone, Debug)]
struct Declared {
    index: Arc<Index>,
    state: IndexState,
}

/// An index that this program cannot maintain: writes of its entities are refused.
#[derive(Clone, Debug)]
struct Unknown {
    id: String,
    state: IndexState,
    /// Which entities it is of; any, where that is not known.
    entity: Option<EntityType>,
    reason: String,
    /// Whether it is of what is encrypted, and the store does not decrypt.
    is_shown: bool,
}

impl Unknown {
    fn check(&self, table: &TableName, entity: &Entity) -> Result<()> {
        if self.entity.as_ref().is_some_and(|of| !of.admits(entity)) {
            return Ok(());
        }
        let (id, reason, key) = (&self.id, &self.reason, entity.key());
        Err(Error::invalid_request(format!(
            "the table '{table}' has the index '{id}', which {reason}: a write of {key} would leave it stale; write by a program \
             that can maintain it, or drop it with `drop_index(\"{id}\")`"
        )))
    }

    /// The error of who asks for the index itself.
    fn refused(&self, table: &TableName) -> Error {
        let (id, reason) = (&self.id, &self.reason);
        Error::invalid_request(format!("the index '{id}' of the table '{table}' {reason}"))
    }
}

impl Known {
    fn of_program(table: &TableName, own: &[Index]) -> Self {
        let indexes =
            own.iter().map(|index| Declared { index: Arc::new(index.clone()), state: IndexState::Absent });
        Self { indexes: indexes.collect(), ..Self::default() }.with_copies(table)
    }

    /// Adds what another handle of the table has read later. It is not looked at for longer than what was read before it.
    fn take_over(&mut self, later: &Self) {
        for theirs in &later.indexes {
            let id = theirs.index.id();
            match self.indexes.iter_mut().find(|declared| declared.index.id() == id) {
                Some(declared) => declared.state = theirs.state,
                None => {
                    self.unknown.retain(|unknown| unknown.id != id);
                    self.indexes.push(theirs.clone());
                }
            }
        }
        for theirs in &later.unknown {
            let is_known = self.unknown.iter().any(|unknown| unknown.id == theirs.id);
            match self.indexes.iter_mut().find(|declared| declared.index.id() == theirs.id) {
                Some(declared) => {
                    declared.state = theirs.state;
                    if theirs.is_shown && !is_known {
                        self.unknown.push(theirs.clone());
                    }
                }
                None if is_known => {}
                None => self.unknown.push(theirs.clone()),
            }
        }
    }

    /// Full copies of entities leave out what copy indexes write into these.
    fn with_copies(mut self, table: &TableName) -> Self {
        let copied: Arc<[String]> =
            self.indexes.iter().flat_map(|declared| copied_by(&declared.index, table)).collect();
        if !copied.is_empty() {
            for declared in &mut self.indexes {
                declared.index = Arc::new(declared.index.as_ref().clone().with_foreign(copied.clone()));
            }
        }
        Self { copied, ..self }
    }
}

impl IndexSet {
    /// Indexes whose states are read again when they are older than they are cached.
    pub(super) fn new(
        store: Arc<dyn TableStore>,
        table: TableName,
        own: Vec<Index>,
        durations: Durations,
    ) -> Self {
        let own: Vec<_> = own.into_iter().map(|index| index.over(&store)).collect();
        let known = RwLock::new(Arc::new(Known::of_program(&table, &own)));
        let (local, identity) = (store.local_writers(), store.profile().table_identity(&table));
        Self {
            store,
            table,
            own,
            learned: RwLock::default(),
            durations,
            registration: None,
            watch: Watch::default(),
            #[cfg(test)]
            broken: std::sync::OnceLock::new(),
            local,
            identity,
            reads_only: false,
            writes: Writes::Nothing,
            known,
            reading: Mutex::default(),
        }
    }

    /// The same for a process that others are to wait for: it is registered where they may write the store.
    pub(super) fn registered(self) -> Self {
        let is_alone = self.local.as_ref().is_some_and(|local| !local.is_served());
        let registration = (!is_alone).then(|| Registration::new(self.durations));
        Self { registration, ..self }
    }

    /// What is to be said of this process in the table's own row: its durations, where it has no row.
    pub(super) fn unregistered_durations(&self) -> Durations {
        if self.registration.is_some() { Durations::default() } else { self.durations }
    }

    /// Whether a rule holds.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests ask")]
    const fn keeps(&self, _rule: Rule) -> bool {
        true
    }

    #[cfg(test)]
    fn keeps(&self, rule: Rule) -> bool {
        self.broken.get() != Some(&rule)
    }

    /// From now on a rule is broken.
    #[cfg(test)]
    pub(super) fn breaking(&self, rule: Rule) {
        self.broken.get_or_init(|| rule);
    }

    /// Takes over the indexes that another handle of the table defines, whose entities are written by this one, too: from now on
    /// they are kept by its Rust code. Their states are those of whichever handle has read them last, so that an index
    /// which was declared after this handle was opened is not left out. No request.
    pub(super) fn learn(&self, other: &Self) {
        let theirs = other.known();
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = |index: &&Index| !self.own.iter().chain(&*learned).any(|known| known.id() == index.id());
        let new: Vec<_> =
            other.own.iter().filter(is_new).map(|index| index.clone().over(&self.store)).collect();
        if new.is_empty() {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Known::clone(&known);
        if theirs.loaded >= next.loaded {
            next.take_over(&theirs);
        }
        for index in &new {
            let declared = next.indexes.iter_mut().find(|declared| declared.index.id() == index.id());
            if let Some(declared) = declared {
                declared.index = Arc::new(index.clone());
                continue;
            }
            if next.unknown.iter().any(|unknown| unknown.id == index.id() && unknown.is_shown) {
                continue;
            }
            let unknown = next.unknown.extract_if(.., |unknown| unknown.id == index.id()).next();
            let state = unknown.map_or(IndexState::Absent, |unknown| unknown.state);
            next.indexes.push(Declared { index: Arc::new(index.clone()), state });
        }
        *known = Arc::new(next.with_copies(&self.table));
        learned.extend(new);
    }

    /// The same for a program that writes these entities.
    pub(super) fn of(self, writes: Writes) -> Self {
        Self { writes, ..self }
    }

    /// Refuses a program that stores entities of its type otherwise than the manifest says.
    pub(super) fn check_stored_type(&self, loaded: &Loaded) -> Result<()> {
        let Writes::Type(schema) = self.writes else { return Ok(()) };
        let Some(stored) = loaded.stored_type(&schema.entity_type()) else { return Ok(()) };
        stored.check_layout(&self.table, schema)?;
        if self.reads_only {
            return Ok(());
        }
        stored.check_encrypted(&self.table, schema)
    }

    /// The same, by what was read last.
    pub(super) fn check_type(&self) -> Result<()> {
        self.known().misfit.clone().map_or(Ok(()), Err)
    }

    /// Refuses to look after an index that this program defines and must not maintain.
    pub(super) fn check_kept(&self, index: &Index) -> Result<()> {
        let known = self.known();
        let unknown = known.unknown.iter().find(|unknown| unknown.id == index.id());
        unknown.map_or(Ok(()), |unknown| Err(unknown.refused(&self.table)))
    }

    /// The same for a process that only reads.
    pub(super) fn only_read(self) -> Self {
        Self { reads_only: true, ..self }
    }

    /// Refuses to write where the table was opened to read: nobody waits for the states that are known here.
    pub(super) fn check_writes(&self) -> Result<()> {
        if !self.reads_only {
            return Ok(());
        }
        let reason = format!("the table '{}' was opened to read: use `open` to write it", self.table);
        Err(Error::invalid_request(reason))
    }

    /// Reads states that are too old: a writer with those could be two states behind. What is answered lasts
    /// for a quarter of the time at least, so that there is time to act upon it.
    async fn fresh(&self, store: &dyn TableStore) -> Result<Option<Instant>> {
        if self.are_old() {
            // One of those who need them reads for all; one whose future nobody polls holds up nobody for long.
            let _turn = timeout(self.durations.cache, self.reading.lock()).await;
            if self.are_old() {
                self.refresh(store).await?;
            }
        }
        Ok(self.valid_until())
    }

    /// The right to act upon the states as they are known then. It is counted before they are read: a change waits for it, or it
    /// knows the change.
    pub(super) async fn permission(&self, store: &dyn TableStore) -> Result<Permission> {
        let permit = self.permit();
        Ok(Permission { valid_until: self.fresh(store).await?, permit })
    }

    /// What a change of a state waits for, where only this process writes the store.
    pub(super) fn permit(&self) -> Option<LocalPermit> {
        self.local.as_ref().map(LocalWriters::enter)
    }

    /// Tells all of this process that the manifest has another state; `None` where other processes may write the store.
    pub(super) fn tell_change(&self) -> Option<LocalChange> {
        self.local.as_ref().map(|local| local.change(&self.identity))
    }

    /// Says that an index is built here, until the answer is dropped.
    pub(super) fn build_of(&self, index: &Index) -> Option<LocalWork> {
        self.local.as_ref().map(|local| local.work_on(self.builder_of(index.id())))
    }

    /// Where only this process writes the store, waits until nobody builds the index.
    pub(super) async fn until_not_built(&self, id: &str) {
        match &self.local {
            Some(local) => local.until_idle(&self.builder_of(id)).await,
            None => pending().await,
        }
    }

    fn builder_of(&self, id: &str) -> String {
        format!("{}/{id}", self.identity)
    }

    /// Whether no other set of this process has changed a state since the manifest was asked.
    pub(super) fn is_of_last_change(&self, asked: Asked) -> bool {
        self.local.as_ref().is_none_or(|local| local.changed(&self.identity) <= asked.change)
    }

    /// What a request that is sent now is asked at.
    pub(super) fn asked(&self) -> Asked {
        let change = self.local.as_ref().map_or(0, |local| local.last());
        Asked { change, at: Instant::now() }
    }

    /// Those that this program defines.
    pub(super) fn own(&self) -> &[Index] {
        &self.own
    }

    /// All that are known and can be maintained.
    pub(super) fn indexes(&self) -> Vec<Arc<Index>> {
        self.known().indexes.iter().map(|declared| Arc::clone(&declared.index)).collect()
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The index with this id; or with this name, one that the program defines first.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Index>> {
        let known = self.known();
        let (own, others) = known.indexes.split_at(self.own.len());
        if let Some(found) = known.indexes.iter().find(|declared| declared.index.id() == name) {
            return Ok(Arc::clone(&found.index));
        }
        for declared in [own, others] {
            let named: Vec<_> = declared.iter().filter(|declared| declared.index.name() == name).collect();
            match named[..] {
                [] => {}
                [found] => return Ok(Arc::clone(&found.index)),
                _ => {
                    let ids: Vec<_> = named.iter().map(|declared| declared.index.id()).collect();
                    return Err(Error::invalid_request(format!(
                        "the table '{}' has several indexes '{name}': name one by its id, {}",
                        self.table,
                        ids.join(" or ")
                    )));
                }
            }
        }
        let is_it = |unknown: &&Unknown| unknown.id == name || index_name(&unknown.id) == name;
        if let Some(unknown) = known.unknown.iter().find(is_it) {
            return Err(unknown.refused(&self.table));
        }
        Err(Error::invalid_request(format!("the table '{}' has no index '{name}'", self.table)))
    }

    /// Whether the manifest has an index, by its id, that this program cannot maintain.
    pub(super) fn cannot_keep(&self, id: &str) -> bool {
        self.known().unknown.iter().any(|unknown| unknown.id == id)
    }

    /// Whether other programs have declared indexes of these entities, which hold whatever they hold.
    pub(super) fn has_others_of(&self, entity: &EntityType) -> bool {
        let known = self.known();
        let others = known.indexes.iter().skip(self.own.len());
        others.into_iter().any(|declared| !declared.index.definition().entity.is_apart_from(entity))
            || known
                .unknown
                .iter()
                .any(|unknown| unknown.entity.as_ref().is_none_or(|of| !of.is_apart_from(entity)))
    }

    /// The state of an index by its id or, of one that the program defines, its name.
    pub(super) fn state(&self, name: &str) -> IndexState {
        let known = self.known();
        let by_id = known.indexes.iter().find(|declared| declared.index.id() == name);
        let found = by_id.or_else(|| known.indexes.iter().find(|declared| declared.index.name() == name));
        found.map_or(IndexState::Absent, |declared| declared.state)
    }

    /// When the manifest is asked next: by then this process is registered, and whoever changes a state afterwards waits for it. One
    /// request where its row is to be written again. A process that stands still in between asks anew before it acts.
    pub(super) async fn ask(&self, store: &dyn TableStore) -> Result<Asked> {
        loop {
            let asked = self.asked();
            match &self.registration {
                Some(mine) if self.keeps(Rule::RegisterFirst) && !mine.holds_at(asked.at) => {
                    mine.renew(store, &self.table).await?;
                }
                _ => return Ok(asked),
            }
        }
    }

    /// Reads the manifest. One request, one where this process is to be registered again, and one where another is found to be gone.
    pub(super) async fn refresh(&self, store: &dyn TableStore) -> Result<()> {
        let asked = self.ask(store).await?;
        let loaded = ManifestRows { store, table: &self.table }.load().await?;
        self.load(&loaded, asked)?;
        if self.registration.is_some() {
            self.forget_gone(store, 1).await;
        }
        Ok(())
    }

    /// What was last read of the table as a whole.
    pub(super) fn table_row(&self) -> TableRow {
        self.known().table.clone()
    }

    /// For whom a change of a state waits, as far as is known here: this process, those that are registered and not gone, and those
    /// that have no row.
    pub(super) fn slowest(&self) -> Slowest {
        let known = self.known();
        let mut slowest = Slowest { durations: self.durations.max(known.table.durations), process: None };
        let own = self.registration.as_ref().and_then(Registration::id);
        let mut longest = slowest.durations.to_settle();
        let others = known.processes.iter().filter(|row| Some(row.id) != own);
        for row in others.filter(|_| self.keeps(Rule::WaitForRegistered)) {
            slowest.durations = slowest.durations.max(row.durations);
            if row.durations.to_settle() > longest {
                longest = row.durations.to_settle();
                slowest.process = Some(row.id);
            }
        }
        slowest
    }

    /// Removes so many rows of processes that are gone, at most. One request for each. A row that stays makes others wait, and
    /// nothing else.
    pub(super) async fn forget_gone(&self, store: &dyn TableStore, most: usize) {
        let known = self.known();
        let gone = &known.gone[..known.gone.len().min(most)];
        let removed = ManifestRows { store, table: &self.table }.remove_processes(gone).await;
        if let Err(error) = removed {
            tracing::debug!(%error, table = %self.table, "rows of processes that are gone stay");
        }
    }

    /// Until when the states that were read last may be used.
    fn valid_until(&self) -> Option<Instant> {
        self.known().loaded.map(|loaded| loaded.at + self.durations.cache)
    }

    /// Whether nothing that is sent by now may rest on them.
    pub(super) fn are_old(&self) -> bool {
        let is_fresh = |loaded: Asked| {
            Instant::now() + self.durations.cache / 4 <= loaded.at + self.durations.cache
                && self.is_of_last_change(loaded)
        };
        !self.known().loaded.is_some_and(is_fresh)
    }

    /// Takes over what the manifest said when it was asked at `asked`.
    ///
    /// # Errors
    /// It has another definition with the id of one that this program has.
    pub(super) fn load(&self, loaded: &Loaded, asked: Asked) -> Result<()> {
        let own = self.registration.as_ref().and_then(Registration::id);
        let whole = self.keeps(Rule::WatchWhole);
        let (processes, gone) = self.watch.look(&loaded.processes, asked.at, own, whole);
        let table = loaded.table.clone();
        let mut next = Known { table, processes, gone, loaded: Some(asked), ..Known::default() };
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        next.misfit = self.check_stored_type(loaded).err();
        let types = loaded.manifest.types.iter().filter(|stored| !stored.encrypted.is_empty());
        next.encrypted = types.cloned().collect();
        for index in &self.own {
            let stored = loaded.index(index.id());
            if stored.is_some_and(|stored| stored.fingerprint != index.definition().fingerprint()) {
                let (id, table) = (index.id(), &self.table);
                return Err(Error::invalid_request(format!(
                    "the table '{table}' has another index with the id '{id}': give this index another name"
                )));
            }
            let state = stored.map_or(IndexState::Absent, |stored| stored.state);
            next.unknown.extend(self.shows(index, state, loaded));
            next.indexes.push(Declared { index: Arc::new(index.clone()), state });
        }
        let known = self.known();
        let own = |stored: &StoredIndex| self.own.iter().any(|index| index.id() == stored.id());
        for stored in loaded.manifest.indexes.iter().filter(|stored| !own(stored)) {
            match self.other(&known, &learned, stored) {
                Ok(declared) => match self.shows(&declared.index, declared.state, loaded) {
                    None => next.indexes.push(declared),
                    Some(unknown) => next.unknown.push(unknown),
                },
                Err(unknown) => next.unknown.push(*unknown),
            }
        }
        let absent = learned.iter().filter(|index| loaded.index(index.id()).is_none());
        let absent =
            absent.map(|index| Declared { index: Arc::new(index.clone()), state: IndexState::Absent });
        next.indexes.extend(absent);
        let next = next.with_copies(&self.table);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // An answer that was long on its way says what was true before.
        if known.loaded.is_none_or(|before| before <= asked) {
            *known = Arc::new(next);
        }
        Ok(())
    }

    /// An index that the program does not define, from its definition.
    fn other(
        &self,
        known: &Known,
        learned: &[Index],
        stored: &StoredIndex,
    ) -> Result<Declared, Box<Unknown>> {
        let (id, state) = (stored.id(), stored.state);
        let same =
            |index: &&Index| index.id() == id && index.definition().fingerprint() == stored.fingerprint;
        if let Some(index) = learned.iter().find(same) {
            return Ok(Declared { state, index: Arc::new(index.clone()) });
        }
        let before = known.indexes.iter().skip(self.own.len()).find(|declared| declared.index.id() == id);
        if let Some(declared) = before {
            return Ok(Declared { state, index: Arc::clone(&declared.index) });
        }
        let unknown = |reason: &str| {
            let (id, entity, reason) = (id.clone(), stored.entity.clone(), reason.to_owned());
            Box::new(Unknown { id, state, entity, reason, is_shown: false })
        };
        let definition = stored
            .definition
            .clone()
            .ok_or_else(|| unknown("is of a newer format than this program reads"))?;
        let index = Index::from_definition(definition)
            .map_err(|_| unknown("only a program with its Rust code can maintain"))?;
        check_indexes(&*self.store, &self.table, std::slice::from_ref(&index))
            .map_err(|_| unknown("would show what the store of this program encrypts"))?;
        Ok(Declared { state, index: Arc::new(index.over(&self.store)) })
    }

    /// Why the index cannot be maintained here: it reads or copies what the manifest says is encrypted, and this store does not
    /// decrypt. Its entries would hold ciphertext that is bound to other keys.
    fn shows(&self, index: &Index, state: IndexState, loaded: &Loaded) -> Option<Unknown> {
        if self.store.profile().encrypts {
            return None;
        }
        let entity = &index.definition().entity;
        let name = shown(index, loaded.encrypted_of(entity))?;
        let reason =
            format!("is of '{name}', which is encrypted, and the store of this program does not decrypt");
        let (id, entity) = (index.id().to_owned(), Some(entity.clone()));
        Some(Unknown { id, state, entity, reason, is_shown: true })
    }

    fn derive(&self, entity: &Entity, wanted: impl Fn(&Index, IndexState) -> bool) -> Result<Vec<Entry>> {
        let known = self.known();
        known.unknown.iter().try_for_each(|unknown| unknown.check(&self.table, entity))?;
        if let (Some(misfit), Writes::Type(schema)) = (&known.misfit, self.writes)
            && schema.entity_type().admits(entity)
        {
            return Err(misfit.clone());
        }
        let mut entries = Vec::new();
        for Declared { index, .. } in known.indexes.iter().filter(|d| wanted(&d.index, d.state)) {
            entries.extend(index.entries(&self.table, entity)?);
        }
        Ok(entries)
    }
}

/// The properties that an index writes into entities of the table.
fn copied_by(index: &Index, table: &TableName) -> Vec<String> {
    let elsewhere = matches!(index.placement(), Placement::OtherTable(other) if other != table);
    match index.shape() {
        Shape::Copy { prefix, fields } if !elsewhere => copied_names(prefix, fields),
        _ => Vec::new(),
    }
}

#[async_trait]
impl Maintainer for IndexSet {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.derive(entity, |_, state| state.puts())
    }

    fn removable(&self, entity: &Entity) -> Result<Vec<Entry>> {
        // Nothing is subtracted where nothing was added.
        let sums = |index: &Index| matches!(index.shape(), Shape::Summary { .. });
        self.derive(entity, |index, state| state.removes() && (state.puts() || !sums(index)))
    }

    /// Refuses an entity with a property in plaintext that the manifest says is encrypted, where a program writes entities of any
    /// type: the handle of a type was refused when it was opened.
    fn check(&self, entity: &Entity) -> Result<()> {
        if self.writes != Writes::AnyType {
            return Ok(());
        }
        let known = self.known();
        let of = |stored: &&StoredType| stored.entity.as_ref().is_some_and(|of| of.admits(entity));
        let names = known.encrypted.iter().filter(of).flat_map(|stored| &stored.encrypted);
        let entity = marked(&*self.store, &self.table, entity);
        let is_open = |name: &&String| entity.properties().find(name).is_some_and(|p| !p.is_encrypted());
        let Some(name) = { names }.find(is_open) else { return Ok(()) };
        let (table, key) = (&self.table, entity.key());
        Err(Error::invalid_request(format!(
            "the manifest of the table '{table}' says that '{name}' is encrypted, and {key} has it in plaintext: mark the property"
        )))
    }

    fn copied(&self) -> Arc<[String]> {
        Arc::clone(&self.known().copied)
    }

    fn may_collide(&self) -> bool {
        self.table_row().collided
    }

    fn is_complete(&self, index: &str) -> bool {
        self.state(index) == IndexState::Readable
    }

    fn unready(&self, entity: &Entity) -> Result<Vec<(Entry, IndexState)>> {
        let unready =
            |index: &Index, state| index.uniqueness() != Uniqueness::No && state != IndexState::Readable;
        let with_state = |entry: Entry| {
            let state = self.state(&entry.index);
            (entry, state)
        };
        Ok(self.derive(entity, unready)?.into_iter().map(with_state).collect())
    }

    fn longest_lease(&self) -> Duration {
        self.slowest().durations.lease
    }

    async fn collided(&self, store: &dyn TableStore) -> Result<()> {
        let rows = ManifestRows { store, table: &self.table };
        rows.remember(self.table_row(), &TableRow::of_collision()).await?;
        self.refresh(store).await
    }

    async fn prepare(&self, store: &dyn TableStore) -> Result<Permission> {
        self.check_writes()?;
        self.permission(store).await
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
