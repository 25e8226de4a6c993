//! Removing indexes: those of this program, and those that only the catalog knows.

use std::sync::Arc;

use table_core::model::TableName;
use table_core::store::{Result, TableStore};
use tokio::time::{Instant, sleep};

use super::build::IndexBuild;
use super::catalog::{CatalogEntry, Loaded};
use super::definition::Index;
use super::indexed::IndexedEntities;
use super::options::IndexOptions;
use super::shared::is_conflict;
use super::state::IndexState;

impl IndexedEntities {
    /// Removes an index: its entries, then its place in the catalog. Writers maintain it less and less:
    /// write-only, delete-only, absent. While a program defines a unique index that is absent, it refuses to give
    /// entities values of it: leave it out of the definitions too. Run again, it goes on where it was; several programs may run it.
    ///
    /// Cost: the pages of the index (of the whole table, if its entries are in the entities' table: a page holds
    /// what is found, and a service may answer in more of them) and one group per 100 entries of a partition in each (a request per row
    /// of lists, summaries and copies), three per change of state, and one for each
    /// [`IndexOptions::cache`] that it takes.
    ///
    /// # Errors
    /// The index is unknown; the storage's.
    pub async fn drop_index(&self, index: &str) -> Result<()> {
        self.set.check_writes()?;
        self.set.find(index)?;
        if let Some(entry) = self.catalog_entry(index).await? {
            self.remove(index, &entry.fingerprint).await?;
        }
        self.refresh().await
    }

    /// Removes an index, whatever is there of it, and prepares its build: what a program does that does not
    /// trust an index any more. Its lookups are refused until the build has run, and other indexes are not
    /// touched. After a crash [`build`](Self::build) goes on with the build, and this starts it over.
    ///
    /// Until a unique index is built again, writes that give an entity a value of it are refused.
    ///
    /// Where the *definition* has changed the table cannot be opened: see [`drop_outdated`](Self::drop_outdated).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use table_patterns::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// let by_city = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
    /// let people = IndexedEntities::open(store, table, vec![by_city], IndexOptions::local()).await?;
    /// people.insert(Entity::new("p", "1")?.with("City", "oslo")).await?;
    /// let built = people.rebuild("city").await?.run().await?;
    /// assert_eq!((built.entries, people.state("city")), (1, IndexState::Readable));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`drop_index`](Self::drop_index).
    pub async fn rebuild(&self, index: &str) -> Result<IndexBuild<'_>> {
        self.drop_index(index).await?;
        self.build(index)
    }

    /// Removes every index of the table that `indexes` does not have, or defines otherwise: their names. **Those of other
    /// types and programs too**: only for who knows that all users of the table are meant by `indexes`. What
    /// a program does whose indexes have changed, before it [opens](Self::open) the table; it needs neither the
    /// old definition nor the function that made the keys. An index that is defined otherwise is absent then,
    /// and is to be [built](Self::build). Programs with the old definitions go on meanwhile; they are refused
    /// once the new index is registered.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
    /// # let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// # let old = Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}")?;
    /// # let people =
    /// #     IndexedEntities::open(store.clone(), table.clone(), vec![old], IndexOptions::local()).await?;
    /// # people.insert(Entity::new("p", "1")?.with("City", "oslo")).await?;
    /// // It was "city_{City}_{RowKey}" until now.
    /// let by_city = Index::keyed("city", Placement::SamePartition, "", "city_{City}_{Age}_{RowKey}")?;
    /// let (indexes, options) = (vec![by_city], IndexOptions::local());
    /// let refused = IndexedEntities::open(store.clone(), table.clone(), indexes.clone(), options.clone()).await;
    /// assert!(refused.unwrap_err().to_string().contains("another name"));
    ///
    /// let dropped =
    ///     IndexedEntities::drop_outdated(store.clone(), table.clone(), indexes.clone(), options.clone()).await?;
    /// assert_eq!(dropped, ["city"]);
    /// let people = IndexedEntities::open(store, table, indexes, options).await?;
    /// people.build("city")?.run().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Cost: 1, and that of [`drop_index`](Self::drop_index) for each.
    ///
    /// # Errors
    /// An index makes no sense, or needs blobs and has no store for them; the table is missing; the storage's.
    pub async fn drop_outdated(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Vec<String>> {
        let mut this = Self::unopened(store, table, indexes, options)?;
        let Loaded { indexes: mut known, table } = this.catalog().load().await?;
        this.keep_blobs(&table);
        known.retain(|name, entry| !this.set.defines(name, &entry.fingerprint));
        for (name, entry) in &known {
            this.remove(name, &entry.fingerprint).await?;
        }
        Ok(known.into_keys().collect())
    }

    /// Removes an index by what the catalog says of it, as long as that is this definition.
    async fn remove(&self, name: &str, fingerprint: &str) -> Result<()> {
        let mut settled = false;
        while let Some(mut entry) = self.catalogued(name, fingerprint).await? {
            if let Some(next) = before(entry.state) {
                settled = self.step_down(name, &mut entry, next).await?;
                continue;
            }
            if !settled {
                // Whoever has set the state may have died before writers knew of it.
                self.let_states_settle().await?;
                settled = true;
                continue;
            }
            self.remove_rows(name, &entry).await?;
            match self.catalog().remove(name, &entry).await {
                Err(error) if is_conflict(&error) => {}
                other => return other,
            }
        }
        Ok(())
    }

    pub(super) async fn catalogued(&self, name: &str, fingerprint: &str) -> Result<Option<CatalogEntry>> {
        Ok(self.catalog_entry(name).await?.filter(|entry| entry.fingerprint == fingerprint))
    }

    /// Whether the state was changed by this program, and every writer knows.
    async fn step_down(&self, name: &str, entry: &mut CatalogEntry, next: IndexState) -> Result<bool> {
        let was_building = entry.state == IndexState::Building;
        match self.catalog().advance(name, entry, next, None).await {
            Err(error) if is_conflict(&error) => return Ok(false),
            other => other?,
        }
        let (catalog, _) = self.let_states_settle().await?;
        if was_building {
            sleep(self.slowest().with(&catalog.table).lease).await;
        }
        Ok(true)
    }

    async fn remove_rows(&self, name: &str, entry: &CatalogEntry) -> Result<()> {
        let index = Index::of_rows(name, entry.table.as_ref(), entry.shape.clone());
        let mut removal = Removal { entities: self, index, entry, until: Instant::now() };
        if removal.index.shape().is_shared() { removal.shared().await } else { removal.entries().await }
    }
}

/// The rows of an index, on their way out.
pub(super) struct Removal<'a> {
    pub(super) entities: &'a IndexedEntities,
    /// Where the rows are and how they are told, without their keys.
    pub(super) index: Index,
    pub(super) entry: &'a CatalogEntry,
    /// Until when nobody can have built the index again.
    pub(super) until: Instant,
}

const fn before(state: IndexState) -> Option<IndexState> {
    match state {
        IndexState::Readable | IndexState::Building => Some(IndexState::WriteOnly),
        IndexState::WriteOnly => Some(IndexState::DeleteOnly),
        IndexState::DeleteOnly | IndexState::Absent => None,
    }
}
