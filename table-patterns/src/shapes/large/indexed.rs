//! Large entities with indexes: opening, and lookups.

use std::sync::Arc;

use object_store::ObjectStore;
use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use table_core::typed::{EntriesOf, IndexedEntity};

use super::{LargeLookup, LargeOptions, LargeTable};
use crate::index::{IndexOptions, IndexedEntities, Lookup, all_indexes, open_entities};

impl<T: IndexedEntity> LargeTable<T> {
    /// Opens a table of large entities with the indexes of `T`, and makes the tables that are missing: every write keeps the
    /// entries in step, and [`by`](Self::by) reads by them. Requests: one per table, and those of [`IndexedEntities::open`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// use std::sync::Arc;
    /// use object_store::memory::InMemory;
    /// use table_core::{memory::MemoryStore, prelude::*};
    /// use table_patterns::index::IndexOptions;
    /// use table_patterns::large::{LargeOptions, LargeTable};
    ///
    /// #[derive(Clone, Debug, PartialEq, TableEntity)]
    /// #[entity(type = "Report", rename_all = "PascalCase")]
    /// #[index(author, row_key = "author_{author}_{number}", payload = fields(title))]
    /// #[index(code, partition_key = "code_{code}", row_key = "x", unique = "table")]
    /// struct Report {
    ///     #[partition_key]
    ///     department: String,
    ///     #[row_key(format = "report_{}")]
    ///     number: u32,
    ///     author: String,
    ///     code: Option<String>,
    ///     title: String,
    ///     #[large(over = 100)]
    ///     text: String,
    /// }
    ///
    /// let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(InMemory::new()));
    /// let (large, indexes) = (LargeOptions::default(), IndexOptions::local());
    /// let reports = LargeTable::<Report>::open(store, "Reports", blobs, large, indexes).await?;
    /// let report = Report {
    ///     department: "Sales".into(),
    ///     number: 1,
    ///     author: "Kwok".into(),
    ///     code: Some("S-1".into()),
    ///     title: "2013".into(),
    ///     text: "a long story. ".repeat(1000),
    /// };
    /// reports.insert(&report).await?; // the blob, then row and entries by the journal
    ///
    /// let of_kwok = reports.by(Report::by_author("Sales").author("Kwok"));
    /// assert_eq!(of_kwok.all().await?, [report.clone()]); // whole, with the text
    /// assert_eq!(reports.by(Report::by_code("S-1")).first().await?, Some(report));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`new_with`](Self::new_with) and [`IndexedTable::open`](crate::index::IndexedTable::open).
    pub async fn open<S, N>(
        store: S,
        name: N,
        blobs: Arc<dyn ObjectStore>,
        large: LargeOptions,
        indexes: IndexOptions,
    ) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let (store, name) = (store.into_shared(), name.try_into().map_err(Into::into)?);
        let table = Self::unindexed(Arc::clone(&store), name.clone(), blobs, large)?;
        let entities = open_entities::<T>(store, name, Vec::new(), indexes).await?;
        Ok(table.with_indexes(entities))
    }

    /// Opens a table to look entities up, by who may not write it. Every write is refused. One request: see
    /// [`IndexedEntities::open_to_read`].
    ///
    /// # Errors
    /// As for [`open`](Self::open); a table is missing.
    pub async fn open_to_read<S, N>(
        store: S,
        name: N,
        blobs: Arc<dyn ObjectStore>,
        large: LargeOptions,
        indexes: IndexOptions,
    ) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let (store, name) = (store.into_shared(), name.try_into().map_err(Into::into)?);
        let table = Self::unindexed(Arc::clone(&store), name.clone(), blobs, large)?;
        let all = all_indexes::<T>(Vec::new());
        let entities = IndexedEntities::open_to_read(store, name, all, indexes).await?;
        Ok(table.with_indexes(entities))
    }

    /// Looks whole entities up by an index: `T::by_…(…)` names the entries, with as many parts of their keys as are known.
    pub fn by<E: EntriesOf<T>>(&self, entries: E) -> LargeLookup<'_, T, E::Kind> {
        let without = || Error::invalid_request("the type declares no index to look entities up by");
        let entities = self.entities().ok_or_else(without);
        LargeLookup::new(self, Lookup::new(entities, entries.into_entries()))
    }
}
