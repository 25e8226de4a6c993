use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use table_core::model::{Entity, TableName};
use table_core::store::{Error, Result, TableStore};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::catalog::{Catalog, CatalogEntry, Loaded};
use super::definition::{Index, Placement, Uniqueness};
use super::entry::{Entry, Maintainer};
use super::shape::Shape;
use super::shared::copied_names;
use super::state::IndexState;
use super::table_row::TableRow;

/// The indexes of a table with the states that the catalog gives them.
#[derive(Debug)]
pub(super) struct IndexSet {
    table: TableName,
    indexes: Vec<Index>,
    /// The properties of entities that copy indexes write.
    copied: Arc<[String]>,
    cache: Duration,
    /// Whether nothing is written by it: then it need not know every index.
    reads_only: bool,
    states: RwLock<States>,
    /// Who reads them again.
    reading: Mutex<()>,
}

#[derive(Debug, Default)]
struct States {
    of: Vec<IndexState>,
    table: TableRow,
    loaded: Option<Instant>,
}

impl IndexSet {
    /// Indexes whose states are read again when they are older than `cache`.
    pub(super) fn new(table: TableName, indexes: Vec<Index>, cache: Duration) -> Self {
        let copied: Arc<[String]> = indexes.iter().flat_map(|index| copied_by(index, &table)).collect();
        let indexes = indexes.into_iter().map(|index| index.with_foreign(copied.clone())).collect();
        Self {
            table,
            indexes,
            copied,
            cache,
            reads_only: false,
            states: RwLock::default(),
            reading: Mutex::default(),
        }
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
    pub(super) async fn fresh(&self, store: &dyn TableStore) -> Result<Option<Instant>> {
        if self.are_old() {
            // One of those who need them reads for all; one whose future nobody polls holds up nobody for long.
            let _turn = timeout(self.cache, self.reading.lock()).await;
            if self.are_old() {
                self.refresh(store).await?;
            }
        }
        Ok(self.valid_until())
    }

    pub(super) fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    pub(super) fn find(&self, name: &str) -> Result<&Index> {
        let known = self.indexes.iter().find(|i| i.name() == name);
        known.ok_or_else(|| {
            Error::invalid_request(format!("the table '{}' has no index '{name}'", self.table))
        })
    }

    /// Whether there is an index with this name and definition.
    pub(super) fn defines(&self, name: &str, fingerprint: &str) -> bool {
        self.indexes.iter().any(|index| index.name() == name && index.fingerprint() == fingerprint)
    }

    pub(super) fn state(&self, name: &str) -> IndexState {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        let found = self.indexes.iter().zip(&states.of).find(|(index, _)| index.name() == name);
        found.map_or(IndexState::Absent, |(_, state)| *state)
    }

    /// Reads the states. One request.
    pub(super) async fn refresh(&self, store: &dyn TableStore) -> Result<()> {
        let asked = Instant::now();
        let catalog = Catalog { store, table: &self.table }.load().await?;
        self.load(catalog, asked)
    }

    /// What was last read of the table as a whole.
    pub(super) fn table_row(&self) -> TableRow {
        self.states.read().unwrap_or_else(PoisonError::into_inner).table.clone()
    }

    /// Until when the states that were read last may be used.
    fn valid_until(&self) -> Option<Instant> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        states.loaded.map(|loaded| loaded + self.cache)
    }

    fn are_old(&self) -> bool {
        self.valid_until().is_none_or(|until| Instant::now() + self.cache / 4 > until)
    }

    /// Takes over what the catalog said when it was asked at `asked`.
    ///
    /// # Errors
    /// The catalog has an index that this program does not know, or knows otherwise.
    pub(super) fn load(&self, catalog: Loaded, asked: Instant) -> Result<()> {
        let Loaded { indexes: catalog, table } = catalog;
        let unknown = |name: &&String| !self.reads_only && self.find(name).is_err();
        if let Some(unknown) = catalog.keys().find(unknown) {
            let reason = format!(
                "the table '{}' has an index '{unknown}' that this program does not know, and a write would \
                 leave it stale: define it here as the program does that has it, or write by that program",
                self.table
            );
            return Err(Error::invalid_request(reason));
        }
        let of = self.indexes.iter().map(|i| self.state_in(i, &catalog)).collect::<Result<_>>()?;
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        // An answer that was long on its way says what was true before.
        if states.loaded.is_none_or(|loaded| loaded <= asked) {
            *states = States { of, table, loaded: Some(asked) };
        }
        Ok(())
    }

    fn state_in(&self, index: &Index, catalog: &BTreeMap<String, CatalogEntry>) -> Result<IndexState> {
        let Some(entry) = catalog.get(index.name()) else { return Ok(IndexState::Absent) };
        if entry.fingerprint == index.fingerprint() {
            return Ok(entry.state);
        }
        let (name, table) = (index.name(), &self.table);
        Err(Error::invalid_request(format!(
            "the index '{name}' of the table '{table}' was built as {:?}, and this program defines it as {:?}: \
             another type in the table may have it, another program, or an older version of this one; give this index \
             another name, and `build` it",
            entry.fingerprint,
            index.fingerprint()
        )))
    }

    fn derive(&self, entity: &Entity, wanted: impl Fn(&Index, IndexState) -> bool) -> Result<Vec<Entry>> {
        let of = self.states.read().unwrap_or_else(PoisonError::into_inner).of.clone();
        let active = self.indexes.iter().zip(of).filter(|(index, state)| wanted(index, *state));
        let mut entries = Vec::new();
        for (index, _) in active {
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

    fn copied(&self) -> &[String] {
        &self.copied
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
        self.table_row().lease
    }

    async fn collided(&self, store: &dyn TableStore) -> Result<()> {
        let catalog = Catalog { store, table: &self.table };
        catalog.remember(self.table_row(), &TableRow::of_collision()).await?;
        self.refresh(store).await
    }

    async fn prepare(&self, store: &dyn TableStore) -> Result<Option<Instant>> {
        self.check_writes()?;
        self.fresh(store).await
    }
}

#[cfg(test)]
mod tests;
