//! [`Table`]: the handle of a table with entities of one type.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use table_core::typed::load::LoadedRow;
use table_core::typed::upgrade::{UpgradePage, UpgradeRow, UpgradeRows};
use table_core::typed::{
    FromEntity, KeyOf, PlainTable, SchemaDiff, TableEntity, TableQuery, Upgrade,
};

use super::Database;
use super::indexes::{EntityCode, TypeIndexes};
use super::set::TableSet;
use crate::index::{IndexOptions, IndexedEntities, Stored};
use crate::journal::as_read;
use crate::large_values::EntityWriter;
use crate::rows::{upgrade_one, upgraded};

/// A table of a [`Database`], with entities of type `T`: every write maintains the entries of every index of the table, whichever program
/// has declared it.
///
/// Without an index, a write is that of the row alone, and costs as many requests as the service needs. If the type or another program
/// declares an index, a write that could change an entry knows the old value: it reads the old value first, or the caller passes it as
/// [`Stored`], which cannot be changed. A patch has no field that a declared index holds.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_patterns::prelude::*;
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
/// let db = Database::new(MemoryStore::new());
/// let employees = db.table::<Employee>("Employees")?;
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
/// Each method says how many requests it adds to the requests of the [`journal`](crate::journal#cost-in-requests). A write with only local
/// entries is 1 request. In addition, the first write or lookup of a type with indexes opens them: see [`declare`](Self::declare). Without
/// indexes, writes read the manifest once in 30 seconds: see [`PlainTable`]. A type with [large fields](crate::Database::with_blobs) has 1
/// request to the blob store for each large value that is read, written or removed.
pub struct Table<T> {
    plain: PlainTable<T>,
    database: Database,
    /// The indexes of an entity type. A handle that only reads a table as another type has none.
    indexes: OnceLock<Arc<TypeIndexes>>,
    ignores_indexes: bool,
    /// Writes the entities of a type with large fields.
    large: Option<Arc<EntityWriter>>,
}

impl<T: FromEntity> Table<T> {
    pub(super) fn view_of(
        database: Database,
        name: impl TryInto<TableName, Error: Into<Error>>,
    ) -> Result<Self> {
        let options = database.options();
        let required = T::requirements();
        let store = Arc::clone(database.store());
        let (plain, large) = if required.large.is_empty() {
            (PlainTable::new(store, name)?, None)
        } else {
            let rows: PlainTable<Entity> = PlainTable::new(store, name)?;
            let large = database.large_of(rows.name(), &required)?;
            let (writer, loader) = large.unzip();
            (rows.loaded_by(loader)?, writer.map(Arc::new))
        };
        let plain = plain
            .with_attempts(options.attempts)
            .with_concurrency(options.concurrency);
        Ok(Self {
            plain,
            database,
            indexes: OnceLock::new(),
            ignores_indexes: false,
            large,
        })
    }

    /// Returns a handle for the same table with another type: a projection, an enum over several types, or one of them.
    ///
    /// # Errors
    /// Returns the errors of [`Database::table`] for `U`.
    pub fn view<U: FromEntity>(&self) -> Result<Table<U>> {
        let large = self.database.large_of(self.name(), &U::requirements())?;
        let (writer, loader) = large.unzip();
        let bound = |writer: EntityWriter| {
            let writer = writer.with_bounds(self.plain.attempts(), self.plain.concurrency());
            Arc::new(if self.ignores_indexes {
                writer.ignoring_indexes()
            } else {
                writer
            })
        };
        Ok(Table {
            plain: self.plain.loaded_by(loader)?,
            database: self.database.clone(),
            indexes: OnceLock::new(),
            ignores_indexes: self.ignores_indexes,
            large: writer.map(bound),
        })
    }

    /// Returns a query of all entities of type `T`. Add conditions to it, then run it.
    ///
    /// Its [`delete`](TableQuery::delete) and [`update`](TableQuery::update) write all results with their entries: groups of a partition,
    /// several at once, each with the requests of one write (see the [`journal`](crate::journal#cost-in-requests)).
    pub fn query(&self) -> TableQuery<T> {
        let query = self.plain.query();
        let indexes = self.indexes.get().filter(|_| !self.ignores_indexes);
        if indexes.is_none() && self.large.is_none() {
            return query;
        }
        let (indexes, large) = (indexes.cloned(), self.large.clone());
        query
            .written_by(move |plain| Arc::new(TableSet::new(plain, indexes.clone(), large.clone())))
    }

    /// Returns the entity with this key; `None` if there is none. 1 request.
    ///
    /// # Errors
    /// The row is not a `T`; an error of the store.
    pub async fn get(&self, key: impl KeyOf<T>) -> Result<Option<T>> {
        if self.large.is_some() {
            let loaded = self.loaded_row(&key.into_key()).await?;
            return loaded.map(T::from_loaded).transpose();
        }
        if !self.is_maintained() {
            return self.plain.get(key).await;
        }
        // The whole row: its ETag may name a move of the entity, which the version of a conditional write must name too.
        let row = self.row(&key.into_key()).await?;
        row.map(T::from_entity).transpose()
    }

    /// Returns the entity with this key. 1 request.
    ///
    /// # Errors
    /// As for [`get`](Self::get); the entity does not exist.
    pub async fn get_existing(&self, key: impl KeyOf<T>) -> Result<T> {
        let key = key.into_key();
        self.get(&key).await?.ok_or_else(|| self.missing(&key))
    }

    /// Returns the entity with this key as it is stored, to replace or remove it without a further read; `None` if there is none. 1 request.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub async fn get_stored(&self, key: impl KeyOf<T>) -> Result<Option<Stored<T>>> {
        let key = key.into_key();
        if self.large.is_some() {
            let loaded = self.loaded_row(&key).await?;
            return loaded.map(Stored::loaded).transpose();
        }
        let row = self.row(&key).await?;
        row.map(Stored::read).transpose()
    }

    /// Returns the entity with this key as it is stored, to replace or remove it without a further read. 1 request.
    ///
    /// # Errors
    /// As for [`get`](Self::get); the entity does not exist.
    pub async fn get_existing_stored(&self, key: impl KeyOf<T>) -> Result<Stored<T>> {
        let key = key.into_key();
        self.get_stored(&key)
            .await?
            .ok_or_else(|| self.missing(&key))
    }

    /// Returns the entity with this key as another type, such as a projection; `None` if there is none. 1 request.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub async fn get_as<P: FromEntity>(&self, key: impl KeyOf<T>) -> Result<Option<P>> {
        self.plain.get_as(key).await
    }

    /// Returns the entities with these keys, in their order; `None` for each that does not exist. 1 request for each distinct key, in
    /// parallel: see [`PlainTable::get_many`].
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub async fn get_many<K: KeyOf<T>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<T>>> {
        self.plain.get_many(keys).await
    }

    /// The row of an entity with its large values, unless it is hidden from this handle.
    pub(super) async fn loaded_row(&self, key: &Key) -> Result<Option<LoadedRow>> {
        match self.row(key).await? {
            Some(row) => self.loaded(row, |row| !self.plain.hides(row)).await,
            None => Ok(None),
        }
    }

    /// A row with its large values. If a blob is gone with the row, the row is read again; `None` if it is not found any more.
    pub(super) async fn loaded(
        &self,
        row: Entity,
        is_found: impl Fn(&Entity) -> bool + Send + Sync,
    ) -> Result<Option<LoadedRow>> {
        let Some(loader) = self.plain.loader() else {
            let whole = row.clone();
            return Ok(Some(LoadedRow { stored: row, whole }));
        };
        loader.load(row, self.plain.concurrency(), &is_found).await
    }

    /// The row of an entity, unless it is hidden from this handle.
    pub(crate) async fn row(&self, key: &Key) -> Result<Option<Entity>> {
        let row = self.store().get(self.name(), key, None).await?;
        Ok(row.map(as_read).filter(|row| !self.plain.hides(row)))
    }
}

impl<T> Table<T> {
    /// Sets the maximum number of requests that one call has in flight. Default: that of the [`Database`]. Minimum: 1.
    #[must_use]
    pub fn with_concurrency(self, requests: usize) -> Self {
        let requests = requests.max(1);
        Self {
            plain: self.plain.clone().with_concurrency(requests),
            large: self.large_with_bounds(self.plain.attempts(), requests),
            ..self.with_options(|options| options.concurrency = requests)
        }
    }

    /// Sets the maximum number of attempts of a write that conflicts with other writers. Default: that of the [`Database`]. Minimum: 1.
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        let attempts = attempts.max(1);
        Self {
            plain: self.plain.clone().with_attempts(attempts),
            large: self.large_with_bounds(attempts, self.plain.concurrency()),
            ..self.with_options(|options| options.attempts = attempts)
        }
    }

    fn large_with_bounds(&self, attempts: u32, concurrency: usize) -> Option<Arc<EntityWriter>> {
        let writer = (**self.large.as_ref()?).clone();
        Some(Arc::new(writer.with_bounds(attempts, concurrency)))
    }

    fn with_options(self, change: impl FnOnce(&mut IndexOptions)) -> Self {
        match self.indexes.get() {
            Some(indexes) => {
                let indexes = Arc::new(indexes.with_options(change));
                self.with_indexes(indexes)
            }
            None => self,
        }
    }

    /// Makes all reads and lookups return hidden entities too, which have expired or are deleted and kept. [`update`](Self::update) and
    /// [`merge`](Self::merge) then change them.
    #[must_use]
    pub fn with_hidden(self) -> Self {
        Self {
            plain: self.plain.with_hidden(),
            ..self
        }
    }

    /// Makes writes leave index entries as they are, and not read the manifest.
    ///
    /// Use the setting for writes that do not change indexed properties, before a scrub, or with a credential that may not read the
    /// manifest.
    #[must_use]
    pub fn ignoring_indexes(self) -> Self {
        Self {
            plain: self.plain.ignoring_indexes(),
            ignores_indexes: true,
            large: (self.large.clone())
                .map(|writer| Arc::new((*writer).clone().ignoring_indexes())),
            ..self
        }
    }

    pub(super) fn with_indexes(self, indexes: Arc<TypeIndexes>) -> Self {
        Self {
            indexes: OnceLock::from(indexes),
            ..self
        }
    }

    /// Deletes the table and its entities, if it exists. Returns whether this call deleted it. A [`Database`] that has opened the indexes of a
    /// table does not declare them in a new table of its name: create another one. 1 request, or 2 if the first answer was lost.
    ///
    /// If the database [has blobs](Database::with_blobs), the blobs of the table are removed next, also if the table was deleted in
    /// another way: 1 request per page of names and 1 per blob. No program may write to the table, or create it again, before the call has
    /// returned. If it fails, repeat it.
    ///
    /// # Errors
    /// Returns the errors of the store and of the blob store. An index that this handle has opened has entries in another table, where they
    /// would stay: drop the index first.
    pub async fn delete_table_if_exists(&self) -> Result<bool> {
        let opened = self.indexes.get().and_then(|indexes| indexes.opened());
        if let Some(other) = opened.and_then(IndexedEntities::other_table) {
            let name = self.name();
            return Err(Error::wrong_state(format!(
                "entries of '{name}' are in the table '{other}', and would stay there: drop their index first (`drop_index` of the \
                 table's `entities`)"
            )));
        }
        // The table before its blobs: after a crash in between, a repeated call removes blobs that no row can need.
        let deleted = self.store().delete_table_if_exists(self.name()).await?;
        #[cfg(feature = "blobs")]
        self.database.remove_blobs(self.name()).await?;
        Ok(deleted)
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        self.plain.store()
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &TableName {
        self.plain.name()
    }

    /// The rows alone: to read them, and for patterns that write rows of their own.
    pub(crate) const fn plain(&self) -> &PlainTable<T> {
        &self.plain
    }

    pub(crate) const fn large(&self) -> Option<&Arc<EntityWriter>> {
        self.large.as_ref()
    }

    pub(super) const fn database(&self) -> &Database {
        &self.database
    }

    /// The indexes of the handle's own type, if it is an entity type.
    pub(super) fn own_indexes(&self) -> Option<&Arc<TypeIndexes>> {
        self.indexes.get()
    }

    pub(crate) const fn ignores_indexes(&self) -> bool {
        self.ignores_indexes
    }

    /// Whether entities of the type have index entries, as far as this handle knows.
    pub(super) fn is_maintained(&self) -> bool {
        let indexes = self.indexes.get();
        !self.ignores_indexes && indexes.is_some_and(|indexes| indexes.must_be_maintained())
    }

    /// Refuses a write of an entity that does not exist in the requested version.
    pub(crate) fn check_version(
        &self,
        key: &Key,
        old: Option<&Entity>,
        version: &IfMatch,
    ) -> Result<()> {
        version.check_form(key)?;
        let old = old.ok_or_else(|| self.missing(key))?;
        match version {
            IfMatch::Exactly(wanted) if Some(wanted) != old.etag() => {
                Err(Error::precondition_failed(self.name(), key))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn missing(&self, key: &Key) -> Error {
        Error::entity_not_found(self.name(), key)
    }
}

/// Indexes.
impl<T: TableEntity> Table<T> {
    /// Creates the table if it is missing. For a type with indexes, also creates the tables of its entries, and declares the type and its
    /// indexes in the manifest. A program calls it when it starts. If it does not, the first write of a type with indexes does.
    ///
    /// The first program to declare a type in a table without its entities declares the type's indexes as readable. A later index is absent
    /// until it is [built](IndexedEntities::build): see [`IndexedEntities::open`].
    ///
    /// 1 request for a type without indexes. With indexes, 1 for each table, and the requests of [`IndexedEntities::open`]; none if a handle of
    /// the [`Database`] has declared or written the type in the table before.
    ///
    /// # Errors
    /// As for [`IndexedEntities::open`].
    pub async fn declare(&self) -> Result<()> {
        if self.writes_entries() {
            return self.entities().await.map(drop);
        }
        self.store()
            .create_table_if_missing(self.name())
            .await
            .map(drop)
    }

    /// The entities with their indexes, to build, scrub and recover. The first call opens them: see [`declare`](Self::declare).
    ///
    /// # Errors
    /// As for [`declare`](Self::declare).
    pub async fn entities(&self) -> Result<&IndexedEntities> {
        self.indexes().to_write().await
    }

    /// Compares the rows of the type with its present schema: see [`SchemaDiff`]. 1 request for each page of the type's rows.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub async fn schema_diff(&self) -> Result<SchemaDiff> {
        SchemaDiff::of::<T>(&self.plain.view()?).await
    }

    /// Waits until the background tasks of earlier writes have deleted or handed over their journal rows and tickets. See
    /// [`Journal::flush`](crate::journal::Journal::flush).
    pub async fn flush(&self) {
        if let Some(entities) = self.indexes.get().and_then(|indexes| indexes.opened()) {
            entities.flush().await;
        }
    }

    pub(super) fn indexes(&self) -> &Arc<TypeIndexes> {
        // A view keeps the settings of the handle that it was made of.
        let of_type = || {
            let indexes = self.database.indexes(self.name(), EntityCode::of::<T>());
            let (attempts, concurrency) = (self.plain.attempts(), self.plain.concurrency());
            let options = indexes.options();
            if (options.attempts, options.concurrency) == (attempts, concurrency) {
                return indexes;
            }
            Arc::new(indexes.with_options(|options| {
                (options.attempts, options.concurrency) = (attempts, concurrency);
            }))
        };
        self.indexes.get_or_init(of_type)
    }

    /// Whether every write must maintain index entries, as far as this program knows.
    fn writes_entries(&self) -> bool {
        !self.ignores_indexes && self.indexes().must_be_maintained()
    }

    /// The entities with their indexes, if a write of rows alone would leave entries stale. 1 request if the manifest was not read for 30
    /// seconds.
    pub(crate) async fn maintained_entities(&self) -> Result<Option<&IndexedEntities>> {
        if self.ignores_indexes {
            return Ok(None);
        }
        if !self.writes_entries() && self.store().manifest(self.name()).await?.indexes.is_empty() {
            return Ok(None);
        }
        self.indexes().to_write().await.map(Some)
    }

    /// Runs a write of the row alone. `None`: the write must maintain index entries, and nothing is written.
    pub(super) async fn write_plain<'a, A, W>(
        &'a self,
        write: impl FnOnce(&'a PlainTable<T>) -> W,
    ) -> Option<Result<A>>
    where
        W: Future<Output = Result<A>>,
    {
        if self.large.is_some() || self.writes_entries() {
            return None;
        }
        match write(&self.plain).await {
            Err(error)
                if !self.ignores_indexes && self.indexes().are_declared_by_others(&error).await =>
            {
                None
            }
            done => Some(done),
        }
    }
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self {
            plain: self.plain.clone(),
            database: self.database.clone(),
            indexes: self.indexes.clone(),
            ignores_indexes: self.ignores_indexes,
            large: self.large.clone(),
        }
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", self.name())
            .field("indexes", &self.indexes)
            .finish_non_exhaustive()
    }
}

impl<T: TableEntity> Table<T> {
    /// Rewrites every entity of the type that is stored in an older schema version, with its entries; returns
    /// their number. Properties that no version knows stay. If the conversion gives an entity another entry
    /// than the stored properties do, the new entry is written. The other entry, if it exists, dangles until a
    /// [scrub](crate::index::IndexedEntities::scrub). In all other respects as
    /// [`PlainTable::upgrade_all`](table_core::typed::PlainTable::upgrade_all).
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
        Upgrade::new(self.clone(), self.indexes().options().concurrency)
    }
}

#[async_trait]
impl<T: TableEntity> UpgradeRows<T> for Table<T> {
    async fn page(&self, from: Option<&str>) -> Result<UpgradePage> {
        UpgradePage::of_query(&self.plain.query().with_hidden().project::<Entity>(), from).await
    }

    async fn check(&self, row: &UpgradeRow) -> Result<()> {
        // Without a value, another writer has changed the entity since the read.
        let value = self.loaded(row.entity.clone(), |_| false).await?;
        value.map_or(Ok(()), |row| {
            let value = T::from_entity(row.whole)?;
            upgraded(&row.stored, &value).map(drop)
        })
    }

    async fn convert(&self, row: UpgradeRow) -> Result<bool> {
        if let Some(large) = &self.large {
            return Box::pin(self.convert_large(large, row.entity)).await;
        }
        let again = row.clone();
        let plain = |plain| async move { UpgradeRows::convert(plain, again).await };
        if let Some(converted) = self.write_plain(plain).await {
            return converted;
        }
        let row = row.entity;
        let (key, new) = (
            row.key().clone(),
            upgraded(&row, &T::from_entity(row.clone())?)?,
        );
        let all = self.clone().with_hidden();
        let entities = self.indexes().to_write().await?;
        let changes = [entities.changes().upgrade(row, new)];
        upgrade_one(entities.write(&changes), all.update(key, |_| Ok(()))).await
    }
}
