use std::sync::Arc;

use table_core::manifest::{IndexState, StoredIndex};
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Result, TableStore, TableStoreExt as _};

use super::definition::Placement;
use super::entry::Maintainer as _;
use super::manifest::ManifestRows;
use super::options::IndexOptions;
use super::set::IndexSet;
use super::stored::Stored;
use crate::journal::{Journal, Rule, as_read, before};

/// Entities of one table, written together with the entries of its indexes.
///
/// The dynamic form: see [`IndexedTable`](super::IndexedTable) for typed entities. Every write knows the old
/// value, so that no entry is left stale.
#[derive(Clone, Debug)]
pub struct IndexedEntities {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) set: Arc<IndexSet>,
    pub(super) journal: Journal,
    pub(super) options: IndexOptions,
    /// Whether it was not opened for upkeep alone.
    pub(super) writes_entities: bool,
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

    /// The state of an index, by its name or its [id](super::Index::id), as it was last read.
    pub fn state(&self, index: &str) -> IndexState {
        self.set.state(index)
    }

    /// Reads the states of the indexes. One request.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn refresh(&self) -> Result<()> {
        self.set.refresh(&*self.store).await
    }

    pub(crate) const fn options_mut(&mut self) -> &mut IndexOptions {
        &mut self.options
    }

    /// Another table that entries of the indexes are in.
    pub(crate) fn other_table(&self) -> Option<TableName> {
        self.set.indexes().iter().find_map(|index| match index.placement() {
            Placement::OtherTable(table) => Some(table.clone()),
            Placement::SamePartition | Placement::OtherPartition => None,
        })
    }

    /// Makes sure that the states of indexes may be acted upon.
    pub(super) async fn prepare(&self) -> Result<()> {
        self.set.prepare(&*self.store).await.map(drop)
    }

    /// Requests under way at once, where many are to be made.
    pub(super) fn at_once(&self) -> usize {
        self.options.concurrency.max(1)
    }

    /// Writes by the states of indexes as they are, if they are as `check` says; what is still on its way when they are too old is
    /// dropped.
    pub(super) async fn while_so<T>(
        &self,
        check: impl FnOnce() -> Result<()> + Send,
        write: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let timing = self.options.timing;
        // Kept until the write is done.
        let permission = self.set.prepare(&*self.store).await?;
        check()?;
        match permission.valid_until {
            None => write.await,
            Some(until) => {
                before(until + timing.client(), write).await.unwrap_or_else(|| Err(timing.cut_off()))
            }
        }
    }

    pub(super) fn rows(&self) -> ManifestRows<'_> {
        ManifestRows { store: &*self.store, table: self.journal.table() }
    }

    /// The indexes that the manifest has: those of other programs and other types as well. One request.
    ///
    /// # Errors
    /// The manifest is damaged; the storage's.
    pub async fn declared(&self) -> Result<Vec<StoredIndex>> {
        Ok(self.rows().load().await?.manifest.indexes)
    }

    /// Whether a rule holds.
    pub(super) fn keeps(&self, rule: Rule) -> bool {
        self.journal.keeps(rule)
    }

    /// The same, where a rule may be broken.
    #[cfg(test)]
    pub(crate) fn breaking(self, rule: Option<Rule>) -> Self {
        let Self { journal, .. } = self;
        let journal = match rule {
            Some(rule) => {
                self.set.breaking(rule);
                journal.breaking(rule)
            }
            None => journal,
        };
        Self { journal, ..self }
    }

    /// The entity with this key, as it is stored. One request.
    ///
    /// # Errors
    /// The storage's.
    pub async fn get(&self, key: &Key) -> Result<Option<Stored<Entity>>> {
        self.read(key).await?.map(Stored::read).transpose()
    }

    /// The entity with this key, or an error.
    ///
    /// # Errors
    /// It does not exist.
    pub async fn get_existing(&self, key: &Key) -> Result<Stored<Entity>> {
        Stored::read(self.store.get_existing(self.table(), key).await?)
    }

    /// The entity with this key, without the mark of a move, which is in its version.
    pub(super) async fn read(&self, key: &Key) -> Result<Option<Entity>> {
        Ok(self.store.get(self.table(), key, None).await?.map(as_read))
    }
}
