//! The handle of a table with indexes: opening, reading by key, writing, moving and bulk inserts.

pub(crate) mod bulk;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod stored;
pub(crate) mod write;

use std::sync::Arc;

use table_core::manifest::{IndexState, StoredIndex};
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Result, TableStore, TableStoreExt as _};

use self::options::IndexOptions;
use self::stored::Stored;
use crate::entry::{Index, Location, Maintainer as _, Placement};
use crate::index::states::manifest::ManifestRows;
use crate::index::states::set::IndexSet;
use crate::journal::{Journal, as_read, before};

/// Entities of one table, written together with the entries of the table's indexes.
///
/// The dynamic form: [`IndexedTable`](crate::index::IndexedTable) is the form for typed entities. Every write knows
/// the old value, so no entry stays stale.
#[derive(Clone, Debug)]
pub struct IndexedEntities {
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) set: Arc<IndexSet>,
    pub(crate) journal: Journal,
    pub(crate) options: IndexOptions,
    /// `false` for a handle that was opened for upkeep only: it refuses writes of entities.
    pub(crate) writes_entities: bool,
}

impl IndexedEntities {
    /// The journal, for workers and sweeps.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    /// The table.
    pub const fn table(&self) -> &TableName {
        self.journal.table()
    }

    /// The state of an index, by its name or its [id](crate::index::Index::id), at the last read of the manifest.
    pub fn state(&self, index: &str) -> IndexState {
        self.set.state(index)
    }

    /// Reads the states of the indexes. 1 request.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn refresh(&self) -> Result<()> {
        self.set.refresh(&*self.store).await
    }

    /// The same handle with other options.
    pub(crate) fn with_options(mut self, change: impl FnOnce(&mut IndexOptions)) -> Self {
        change(&mut self.options);
        self.journal = self.journal.with_concurrency(self.options.concurrency);
        self
    }

    /// The other table of an index with entries in another table.
    pub(crate) fn other_table(&self) -> Option<TableName> {
        self.set.indexes().iter().find_map(|index| match index.placement() {
            Placement::OtherTable(table) => Some(table.clone()),
            Placement::SamePartition | Placement::OtherPartition => None,
        })
    }

    /// Ensures that the known states of the indexes are recent enough to act on.
    pub(crate) async fn prepare(&self) -> Result<()> {
        self.set.prepare(&*self.store).await.map(drop)
    }

    /// The number of requests that one call sends in parallel.
    pub(crate) fn at_once(&self) -> usize {
        self.options.concurrency.max(1)
    }

    /// Writes while the states of the indexes are valid and pass `check`. A write that is still under way when
    /// the states expire is dropped: no request may take effect after another process could have changed a
    /// state twice (docs/manifest.md).
    pub(crate) async fn while_states_valid<T>(
        &self,
        check: impl FnOnce() -> Result<()> + Send,
        write: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let timing = self.options.timing;
        // Kept until the write has ended: a change of state waits for it.
        let permission = self.set.prepare(&*self.store).await?;
        check()?;
        match permission.valid_until {
            None => write.await,
            Some(until) => {
                before(until + timing.client(), write).await.unwrap_or_else(|| Err(timing.cut_off()))
            }
        }
    }

    /// The place of a key of an index.
    pub(crate) fn location(&self, index: &Index, key: &Key) -> Location {
        Location { table: self.index_table(index), key: key.clone() }
    }

    /// The table with the entries of an index.
    pub(crate) fn index_table(&self, index: &Index) -> TableName {
        match index.placement() {
            Placement::OtherTable(table) => table.clone(),
            _ => self.table().clone(),
        }
    }

    /// The manifest of the table.
    pub(crate) fn rows(&self) -> ManifestRows<'_> {
        ManifestRows { store: &*self.store, table: self.journal.table() }
    }

    /// The indexes in the manifest, including the indexes of other programs and types. 1 request.
    ///
    /// # Errors
    /// The manifest is damaged; an error of the store.
    pub async fn declared(&self) -> Result<Vec<StoredIndex>> {
        Ok(self.rows().load().await?.manifest.indexes)
    }

    /// The entity with this key, as stored. 1 request.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn get(&self, key: &Key) -> Result<Option<Stored<Entity>>> {
        self.read(key).await?.map(Stored::read).transpose()
    }

    /// The entity with this key. 1 request.
    ///
    /// # Errors
    /// The entity does not exist; an error of the store.
    pub async fn get_existing(&self, key: &Key) -> Result<Stored<Entity>> {
        Stored::read(self.store.get_existing(self.table(), key).await?)
    }

    /// The entity with this key. The mark of a move is removed from the properties and kept in the ETag.
    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Entity>> {
        Ok(self.store.get(self.table(), key, None).await?.map(as_read))
    }
}
