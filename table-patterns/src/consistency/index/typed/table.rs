//! [`IndexedTable`]: the handle of a table with the indexes of a type.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use table_core::manifest::IndexDefinition;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use table_core::typed::upgrade::{UpgradePage, UpgradeRow, UpgradeRows};
use table_core::typed::{IndexedEntity, Table, Upgrade};

use crate::blobs::with_placeholders;
use crate::entry::{Index, Placement};
use crate::index::open::{open_to_read, open_to_write};
use crate::index::states::set::EntityScope;
use crate::index::{IndexOptions, IndexedEntities};
use crate::rows::{upgrade_one, upgraded};

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
    pub(crate) has_more: bool,
    pub(crate) entities: IndexedEntities,
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
    pub async fn open_with<S, N>(
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
        let has_more = !more.is_empty();
        let (store, name) = (Arc::clone(table.store()), table.name().clone());
        let entities = open_entities::<T>(store, name, more, options).await?;
        Ok(Self {
            table,
            has_more,
            entities,
        })
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
            open_to_read(store, name, indexes, options, EntityScope::Type(T::SCHEMA)).await?;
        Ok(Self {
            table,
            has_more,
            entities,
        })
    }

    /// Makes all reads and lookups return hidden entities too: those that have expired or are deleted and kept. [`update`](Self::update) and
    /// [`merge`](Self::merge) then change them.
    #[must_use]
    pub fn with_hidden(mut self) -> Self {
        self.table = self.table.with_hidden();
        self
    }

    /// The plain table, to read by key and to query values that are not to be replaced; it refuses to write.
    pub const fn table(&self) -> &Table<T> {
        &self.table
    }

    /// The entities with their indexes, to build, scrub and recover.
    pub const fn entities(&self) -> &IndexedEntities {
        &self.entities
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
        // Before the manifest declares the index: from then on, every program writes its entries.
        if let Placement::OtherTable(other) = index.placement() {
            store.create_table_if_missing(other).await?;
        }
    }
    open_to_write(store, table, indexes, options, EntityScope::Type(T::SCHEMA)).await
}

/// The declared indexes, and more.
pub(crate) fn all_indexes<T: IndexedEntity>(more: Vec<Index>) -> Vec<Index> {
    let declared = T::SCHEMA
        .indexes
        .iter()
        .enumerate()
        .map(|(n, definition)| declared::<T>(n, definition));
    declared.chain(more).collect()
}

impl<T> Clone for IndexedTable<T> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            has_more: self.has_more,
            entities: self.entities.clone(),
        }
    }
}

impl<T> fmt::Debug for IndexedTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedTable")
            .field("entities", &self.entities)
            .finish_non_exhaustive()
    }
}

/// The index that a type declares. The type derives the keys, and converts rows of older schema versions.
pub(crate) fn declared<T: IndexedEntity>(n: usize, definition: &'static IndexDefinition) -> Index {
    Index::derived(definition.clone(), move |entity| keys_of::<T>(n, entity))
}

/// The keys of an entity's entries; none for rows of other types. The keys do not depend on values in blobs,
/// which placeholders replace.
fn keys_of<T: IndexedEntity>(n: usize, entity: &Entity) -> Result<Vec<Key>> {
    if T::type_filter().is_some_and(|filter| !filter.matches(entity)) {
        return Ok(Vec::new());
    }
    let keys = |entity: Entity| T::from_entity(entity)?.index_keys(n);
    let Some(row) = with_placeholders(T::SCHEMA, entity, "") else {
        return keys(entity.clone());
    };
    let found = keys(row)?;
    // The conversion from an older version may read a large value: two placeholders must give the same keys.
    let older = T::SCHEMA.stored_version(entity)? < i64::from(T::SCHEMA.version);
    if older
        && let Some(other) = with_placeholders(T::SCHEMA, entity, "another text")
        && keys(other)? != found
    {
        let (of, key, index) = (
            T::SCHEMA.rust_name,
            entity.key(),
            &T::SCHEMA.indexes[n].name,
        );
        return Err(Error::invalid_declaration(format!(
            "the conversion of {key} from an older version of {of} derives the entry of the index '{index}' from a large value, which \
             is in a blob: derive the indexed fields from other properties"
        )));
    }
    Ok(found)
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// Rewrites every entity of the type that is stored in an older schema version, with its entries; returns
    /// their number. Properties that no version knows stay. If the conversion gives an entity another entry
    /// than the stored properties do, the new entry is written. The other entry, if it exists, dangles until a
    /// [scrub](crate::index::IndexedEntities::scrub). In all other respects as
    /// [`Table::upgrade_all`](table_core::typed::Table::upgrade_all).
    ///
    /// 1 request for each page of the type's rows, and the requests of a write for each older entity, with
    /// [`IndexOptions::concurrency`](crate::index::IndexOptions) in parallel; 2 more for each conflict with
    /// another writer.
    ///
    /// # Errors
    /// An error of the store; a conversion fails or changes a key; a unique value of the converted entity is
    /// taken.
    pub async fn upgrade_all(&self) -> Result<u64> {
        self.upgrade().run().await?.into_result()
    }

    /// Creates the same upgrade to be planned, watched or resumed: see [`Upgrade`]. Sends no request.
    pub fn upgrade(&self) -> Upgrade<T> {
        Upgrade::new(self.clone(), self.entities.rows().concurrency)
    }
}

#[async_trait]
impl<T: IndexedEntity> UpgradeRows<T> for IndexedTable<T> {
    async fn page(&self, from: Option<&str>) -> Result<UpgradePage> {
        UpgradePage::of_query(
            &self.table().query().with_hidden().project::<Entity>(),
            from,
        )
        .await
    }

    async fn convert(&self, row: UpgradeRow) -> Result<bool> {
        let row = row.entity;
        let (key, new) = (
            row.key().clone(),
            upgraded(&row, &T::from_entity(row.clone())?)?,
        );
        let changes = [self.entities.changes().upgrade(row, new)];
        let all = self.clone().with_hidden();
        upgrade_one(self.entities.write(&changes), all.update(key, |_| Ok(()))).await
    }
}
