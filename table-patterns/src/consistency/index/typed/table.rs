use std::fmt;
use std::sync::Arc;

use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use table_core::typed::{IndexedEntity, Table};

use super::declared::declared;
use crate::index::definition::{Index, Placement};
use crate::index::indexed::IndexedEntities;
use crate::index::open::Writes;
use crate::index::options::IndexOptions;
#[cfg(test)]
use crate::journal::Invariant;

/// A table of entities with declared indexes: every write maintains their entries, and every index can be used
/// for lookups.
///
/// Every write knows the old value: it reads the old value first, or the caller passes it as
/// [`Stored`](crate::index::Stored), which cannot be changed. A patch has no field that a declared index holds.
/// A plain [`Table`] of such a type refuses to write. So no write leaves an entry stale.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_patterns::index::{IndexOptions, IndexedTable};
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// #[entity(type = "Employee", rename_all = "PascalCase")]
/// #[index(email, row_key = "email_{email}", unique = "partition", payload = full)]
/// #[index(surname, partition_key = "surname_{last_name}", row_key = "{department}_{id:06}")]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key(format = "empid_{:06}")]
///     id: u32,
///     last_name: String,
///     email: Option<String>,
/// }
///
/// let employees =
///     IndexedTable::<Employee>::open(MemoryStore::new(), "Employees", IndexOptions::local()).await?;
/// let (department, last_name) = ("Sales".to_owned(), "Kwok".to_owned());
/// let ken = Employee { department, id: 1, last_name, email: Some("ken@x".to_owned()) };
/// employees.insert(&ken).await?; // 1 request for the local entry's group, 4 for the remote entry
///
/// let found = employees.by(Employee::by_email("Sales").email("ken@x")).get().await?; // 1 request
/// assert_eq!(found, Some(ken));
/// let kwoks = employees.by(Employee::by_surname("Kwok")).all().await?; // 1 + 1 for each reference
/// assert_eq!(kwoks.len(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// Each method says how many requests it adds to those of the [`journal`](crate::journal#cost-in-requests). A
/// write with only local entries is 1 request.
pub struct IndexedTable<T> {
    table: Table<T>,
    /// Whether the handle has indexes that `T` does not declare: a patch may change fields that these hold.
    pub(super) has_more: bool,
    pub(super) entities: IndexedEntities,
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// Opens a table with the indexes of `T`, and creates missing tables. Requests: 1 per table, and those of
    /// [`IndexedEntities::open`].
    ///
    /// # Errors
    /// As for [`IndexedEntities::open`].
    pub async fn open<S, N>(store: S, name: N, options: IndexOptions) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        Self::open_with(store, name, Vec::new(), options).await
    }

    /// As [`open`](Self::open), with more indexes than `T` declares: summaries, copies and indexes with Rust
    /// code. Read them through [`entities`](Self::entities). A [`merge`](Self::merge) reads the entity in such
    /// a table.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn open_with<S, N>(store: S, name: N, more: Vec<Index>, options: IndexOptions) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let table = Table::<T>::new(store, name)?;
        let has_more = !more.is_empty();
        let (store, name) = (Arc::clone(table.store()), table.name().clone());
        let entities = open_entities::<T>(store, name, more, options).await?;
        Ok(Self { table, has_more, entities })
    }

    /// Opens the table read-only; does not register in the manifest, so changes of state do not wait for this
    /// handle. `more` are further indexes to read. Every write is refused. 1 request: see
    /// [`IndexedEntities::open_to_read`].
    ///
    /// # Errors
    /// As for [`open`](Self::open); a table does not exist.
    pub async fn open_to_read<S, N>(
        store: S,
        name: N,
        more: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let table = Table::<T>::new(store, name)?;
        let (store, has_more) = (Arc::clone(table.store()), !more.is_empty());
        let (name, indexes) = (table.name().clone(), all_indexes::<T>(more));
        let entities =
            IndexedEntities::open_reader(store, name, indexes, options, Writes::Type(T::SCHEMA)).await?;
        Ok(Self { table, has_more, entities })
    }

    /// The plain table, to read by key and to query values that are not to be replaced; it refuses to write.
    pub const fn table(&self) -> &Table<T> {
        &self.table
    }

    /// The entities with their indexes, to build, scrub and recover.
    pub const fn entities(&self) -> &IndexedEntities {
        &self.entities
    }

    /// For tests: the same handle without one rule of the protocol.
    #[cfg(test)]
    pub(crate) fn without_invariant(self, invariant: Option<Invariant>) -> Self {
        let Self { table, has_more, entities } = self;
        Self { table, has_more, entities: entities.without_invariant(invariant) }
    }
}

/// Opens the entities of a type with its indexes, and creates missing tables.
pub(crate) async fn open_entities<T: IndexedEntity>(
    store: Arc<dyn TableStore>,
    table: TableName,
    more: Vec<Index>,
    options: IndexOptions,
) -> Result<IndexedEntities> {
    store.profile().check_reads("indexes")?;
    store.create_table_if_missing(&table).await?;
    let indexes = all_indexes::<T>(more);
    for index in &indexes {
        if let Placement::OtherTable(other) = index.placement() {
            store.create_table_if_missing(other).await?;
        }
    }
    IndexedEntities::open_for(store, table, indexes, options, Writes::Type(T::SCHEMA)).await
}

/// The declared indexes, and more.
pub(crate) fn all_indexes<T: IndexedEntity>(more: Vec<Index>) -> Vec<Index> {
    let declared = T::SCHEMA.indexes.iter().enumerate().map(|(n, definition)| declared::<T>(n, definition));
    declared.chain(more).collect()
}

impl<T> Clone for IndexedTable<T> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), has_more: self.has_more, entities: self.entities.clone() }
    }
}

impl<T> fmt::Debug for IndexedTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedTable").field("entities", &self.entities).finish_non_exhaustive()
    }
}
