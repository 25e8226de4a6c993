//! The handle of large entities: its settings, and the writes of entities.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::ObjectStore;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::{Conflicts, Error, Result, TableStore, TableStoreExt as _, Written};
use table_core::typed::upgrade::{UpgradePage, UpgradeRow, UpgradeRows};
use table_core::typed::{
    EntityPatch as _, EntriesOf, KeyOf, PlainTable, TableEntity, TableQuery, Upgrade,
};

use super::{LargeLookup, LargeOptions, LargeRow};
use crate::index::{IndexOptions, IndexedEntities};
use crate::journal::Change;
use crate::large_values::{EntityWriter, open_writer};
use crate::large_values::{LargeValues, NewBlobs};
use crate::rows::{existed, upgrade_one, upgraded, written_value};
use crate::table::{EntityCode, Lookup, Source, all_indexes, open_entities};

/// A table of entities whose large fields are in blobs. See the [module](super).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::large::LargeTable;
///
/// #[derive(Debug, TableEntity)]
/// #[entity(rename_all = "PascalCase")]
/// struct Report {
///     #[partition_key]
///     department: String,
///     #[row_key]
///     number: u32,
///     title: String,
///     #[large(over = 100)]
///     text: String,
/// }
///
/// let blobs = Arc::new(InMemory::new());
/// let reports = LargeTable::<Report>::new(Arc::new(MemoryStore::new()), "Reports", blobs)?;
/// reports.create_if_missing().await?;
/// let text = "a long story. ".repeat(1_000_000);
/// let report = Report { department: "Sales".into(), number: 1, title: "2013".into(), text };
/// reports.insert(&report).await?;
///
/// let read = reports.get_existing(Report::key("Sales", 1u32)?).await?;
/// assert_eq!(read.text.len(), 14_000_000);
/// # Ok(())
/// # }
/// ```
pub struct LargeTable<T> {
    pub(super) table: PlainTable<LargeRow<T>>,
    writer: EntityWriter,
}

impl<T: TableEntity> LargeTable<T> {
    /// Opens a table with the default options. No request.
    ///
    /// # Errors
    /// As [`new_with`](Self::new_with).
    pub fn new<S, N>(store: S, name: N, blobs: Arc<dyn ObjectStore>) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        Self::new_with(store, name, blobs, LargeOptions::default())
    }

    /// Opens a table. No request.
    ///
    /// # Errors
    /// An invalid table name; `T` has encrypted fields and the store does not encrypt, or an encrypted large field and the
    /// codec does not; `T` declares indexes: use [`open`](Self::open).
    pub fn new_with<S, N>(
        store: S,
        name: N,
        blobs: Arc<dyn ObjectStore>,
        options: LargeOptions,
    ) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let (store, name) = (store.into_shared(), name.try_into().map_err(Into::into)?);
        if let Some(index) = T::SCHEMA.indexes.first() {
            let (name, index) = (T::SCHEMA.rust_name, &index.name);
            return Err(Error::misuse(format!(
                "{name} declares the index '{index}', which this table would not maintain: open the table with \
                 `LargeTable::open`"
            )));
        }
        Self::unindexed(store, name, blobs, options)
    }

    /// Opens a table without the type's indexes.
    pub(super) fn unindexed(
        store: Arc<dyn TableStore>,
        name: TableName,
        blobs: Arc<dyn ObjectStore>,
        options: LargeOptions,
    ) -> Result<Self> {
        let table: PlainTable<LargeRow<T>> = PlainTable::new(store, name)?;
        let writer = open_writer(table.store(), table.name(), T::SCHEMA, blobs, options)?;
        Ok(Self { table, writer })
    }

    /// Adds indexes: every write updates their entries.
    pub(super) fn with_indexes(self, indexes: IndexedEntities) -> Self {
        Self {
            writer: self.writer.with_indexes(indexes),
            ..self
        }
    }

    /// Makes all reads and lookups return hidden entities too: those that have expired or are deleted and kept. [`update`](Self::update) and
    /// [`merge`](Self::merge) then change them.
    #[must_use]
    pub fn with_hidden(self) -> Self {
        Self {
            table: self.table.with_hidden(),
            ..self
        }
    }

    /// Sets how many requests, to blobs and to the table, one call has in flight; at least 1. See
    /// [`LargeOptions::concurrency`].
    #[must_use]
    pub fn with_concurrency(self, requests: usize) -> Self {
        let requests = requests.max(1);
        let change = |options: &mut LargeOptions| options.concurrency = requests;
        let writer = self
            .writer
            .with_options(change, |options| options.concurrency = requests);
        Self {
            table: self.table.with_concurrency(requests),
            writer,
        }
    }

    /// Sets how often a write is attempted if other writers change the entity first; at least 1. See
    /// [`LargeOptions::attempts`].
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        let attempts = attempts.max(1);
        let change = |options: &mut LargeOptions| options.attempts = attempts;
        let writer = self
            .writer
            .with_options(change, |options| options.attempts = attempts);
        Self { writer, ..self }
    }

    /// Waits until the background tasks of earlier writes have deleted or handed over their journal rows and tickets; only a table with
    /// indexes has them. See [`Journal::flush`](crate::journal::Journal::flush).
    pub async fn flush(&self) {
        self.writer.flush().await;
    }

    /// Creates the table if it is missing. Returns whether the table was created. 1 request.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.table.create_if_missing().await
    }

    /// A query of the stored rows, for [`load`](Self::load) or a projection. No request.
    ///
    /// A filter on a large property compares the stored value, which may be a reference. Keys of `T` need a `cast()`. Use
    /// [`query`](Self::query) for whole entities.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use object_store::memory::InMemory;
    /// # use table_core::{memory::MemoryStore, prelude::*};
    /// # use table_patterns::large::LargeTable;
    /// # #[derive(Debug, TableEntity)]
    /// # struct Report { #[partition_key] department: String, #[row_key] number: u32, #[large] text: String }
    /// # let reports =
    /// #     LargeTable::<Report>::new(Arc::new(MemoryStore::new()), "Reports", Arc::new(InMemory::new()))?;
    /// # reports.create_if_missing().await?;
    /// use futures_util::TryStreamExt;
    /// let sales = reports.rows().partition(Report::partition("Sales")?.cast());
    /// let texts: Vec<Report> = reports.load(sales.stream()).try_collect().await?;
    /// # assert!(texts.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn rows(&self) -> TableQuery<LargeRow<T>> {
        self.table.query()
    }

    /// Inserts an entity that must not exist. 1 request, and 1 per blob.
    ///
    /// # Errors
    /// The entity exists; a value or a key that cannot be stored; errors of the blob store.
    pub async fn insert(&self, value: &T) -> Result<Written> {
        self.writer.write(Change::insert(value.to_entity()?)).await
    }

    /// Replaces the entity in the version that was read, which its `#[etag]` field holds. 2 requests, and the requests of the blobs.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found. The value has no ETag.
    pub async fn replace(&self, value: &T) -> Result<Written> {
        self.replace_if(value, value.own_version()?).await
    }

    /// Replaces the entity if it has this version; [`IfMatch::Any`] accepts any version. 2 requests, and the requests of the blobs;
    /// with any version, again after a conflict.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_if(&self, value: &T, version: impl Into<IfMatch>) -> Result<Written> {
        let (new, version) = (value.to_entity()?, version.into());
        let mut conflicts = self.conflicts(&version);
        loop {
            let old = self.existing(new.key()).await?;
            self.check_version(&old, &version)?;
            T::SCHEMA.check_replaceable(&old)?;
            match self.replace_read(&old, new.clone()).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// Inserts or replaces the entity. 2 requests, and the requests of the blobs; again after a conflict.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), except that the entity may exist; a conflict after the last attempt; the stored entity has
    /// a later schema version.
    pub async fn upsert(&self, value: &T) -> Result<Written> {
        self.write_over(value, |old, new| {
            T::SCHEMA.check_replaceable(old)?;
            Ok(new.clone())
        })
        .await
    }

    /// Inserts the entity, or merges its properties into the stored entity. A field that is `None` keeps its stored value and
    /// blob, as do properties that `T` does not know. 2 requests, and the requests of the blobs; again after a conflict.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), except that the entity may exist; a conflict after the last attempt. The stored entity has
    /// another type, or another schema version: use [`update`](Self::update).
    pub async fn insert_or_merge(&self, value: &T) -> Result<Written> {
        self.write_over(value, |old, new| {
            if !self.table.shows_hidden()
                && T::SCHEMA
                    .merge_base(old, self.store().context().now())?
                    .is_none()
            {
                return Ok(new.clone());
            }
            T::SCHEMA
                .merged(old, new)
                .map(|merged| merged.with_system(None, None))
        })
        .await
    }

    /// Inserts the entity, or replaces the stored row by the result of `over` for the stored and the new entity.
    async fn write_over(
        &self,
        value: &T,
        over: impl Fn(&Entity, &Entity) -> Result<Entity> + Send + Sync,
    ) -> Result<Written> {
        let new = value.to_entity()?;
        let mut conflicts = self.conflicts(&IfMatch::Any);
        loop {
            let change = match self.row(new.key()).await? {
                Some(old) => {
                    let over = over(&old, &new)?;
                    Change::replace(old, over)
                }
                None => Change::insert(new.clone()),
            };
            match self.writer.write(change).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// The attempts of a write: one for an exact version, several for any version.
    const fn conflicts(&self, version: &IfMatch) -> Conflicts {
        Conflicts::new(match version {
            IfMatch::Any => self.options().attempts,
            IfMatch::Exactly(_) => 1,
        })
    }

    /// Reads the entity, calls `change`, and replaces the entity in the version that was read; after a conflict, starts
    /// again. Returns the stored entity. Properties that `T` does not know stay with their blobs. 2 requests, and the requests of the
    /// blobs.
    ///
    /// # Errors
    /// Entity not found; the error of `change`; `change` changed the key; precondition failed, after the last attempt.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let key: Key = key.into_key();
        let mut conflicts = self.conflicts(&IfMatch::Any);
        loop {
            let old = self.existing_visible_row(&key).await?;
            let concurrency = self.options().concurrency;
            let read = self
                .load_together_if_unchanged(old.clone(), concurrency)
                .await?;
            // A blob is missing, because another writer has replaced the row.
            let Some(mut value) = read else { continue };
            change(&mut value)?;
            let new = T::SCHEMA.updated(&old, value.to_entity()?)?;
            match self.replace_read(&old, new.clone()).await {
                Err(error) => conflicts.wait(error).await?,
                Ok(written) => return written_value(new, written),
            }
        }
    }

    /// Merges the fields of a patch into the entity if it has this version; [`IfMatch::Any`] accepts any version. A patch has
    /// no large fields. 2 requests; with any version, again after a conflict.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found. An empty patch. The entity has another
    /// schema version.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (patch, version) = (patch.to_entity(key.into_key())?, version.into());
        let mut conflicts = self.conflicts(&version);
        loop {
            let old = self.existing_visible_row(patch.key()).await?;
            self.check_version(&old, &version)?;
            T::SCHEMA.check_patchable(&old)?;
            match self
                .writer
                .merge(&NewBlobs::none(), &old, patch.clone())
                .await
            {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// Deletes the entity with its blobs if it has this version; [`IfMatch::Any`] accepts any version. 2 requests, and 1 per
    /// blob.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity. Entity not found.
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        let (key, version): (Key, IfMatch) = (key.into_key(), version.into());
        let mut conflicts = self.conflicts(&version);
        loop {
            let old = self.existing(&key).await?;
            self.check_version(&old, &version)?;
            match self.delete_read(&old).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// Deletes the entity in any version if it exists, with its blobs. Returns whether it existed. The requests of a [`delete`](Self::delete),
    /// again after a conflict; 1 if the entity does not exist.
    ///
    /// # Errors
    /// Precondition failed, after the last attempt. Errors of the stores.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        existed(self.delete(key, IfMatch::Any).await)
    }

    /// The table's name.
    pub fn name(&self) -> &TableName {
        self.table.name()
    }

    /// The store of the rows.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        self.table.store()
    }

    /// The store of the large values.
    pub fn blobs(&self) -> &Arc<dyn ObjectStore> {
        &self.values().blobs
    }

    /// The entities with their indexes, to build, scrub and recover; `None` for a type without indexes.
    ///
    /// The returned value writes rows: it moves no row with a value in a blob, and a [collection](Self::collect) removes the
    /// blobs of rows that it replaces or deletes.
    pub const fn entities(&self) -> Option<&IndexedEntities> {
        self.writer.indexes()
    }

    pub(super) const fn options(&self) -> &LargeOptions {
        &self.values().options
    }

    pub(super) const fn values(&self) -> &LargeValues {
        self.writer.values()
    }

    pub(super) const fn writer(&self) -> &EntityWriter {
        &self.writer
    }
}

impl<T: TableEntity> LargeTable<T> {
    /// Opens a table of large entities with the indexes of `T`, and creates missing tables. Every write updates the index
    /// entries, and [`by`](Self::by) looks entities up. 1 request per table, and the requests of [`IndexedEntities::open`].
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
    /// As [`new_with`](Self::new_with) and [`Table::declare`](crate::Table::declare).
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
        let all = all_indexes(EntityCode::of::<T>(), Vec::new());
        let entities = open_entities(store, name, T::SCHEMA, all, indexes).await?;
        Ok(table.with_indexes(entities))
    }

    /// Opens a table for lookups with a read-only credential. Every write is refused. 1 request: see
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
        let all = all_indexes(EntityCode::of::<T>(), Vec::new());
        let entities = IndexedEntities::open_to_read(store, name, all, indexes).await?;
        Ok(table.with_indexes(entities))
    }

    /// A lookup of whole entities by an index. `T::by_…(…)` selects the entries by a prefix of their key parts. No request.
    pub fn by<E: EntriesOf<T>>(&self, entries: E) -> LargeLookup<T, E::Kind> {
        let without = || {
            Error::misuse("the table was opened without indexes: open it with `LargeTable::open`")
        };
        let source = match self.entities() {
            Some(entities) => Source::Opened(Box::new(entities.clone())),
            None => Source::None(Box::new(without())),
        };
        let lookup = Lookup::new(source, entries.into_entries());
        LargeLookup::new(
            self.clone(),
            lookup.showing_hidden(self.table.shows_hidden()),
        )
    }
}

impl<T: TableEntity> LargeTable<T> {
    /// Rewrites every entity of an older schema version in the current one, with its large values and index entries. Returns
    /// the number of entities rewritten. Unknown properties stay with their blobs. Otherwise as
    /// [`Table::upgrade_all`](crate::Table::upgrade_all).
    ///
    /// 1 request per page of the type's rows, and the requests of a write per older entity, several at once
    /// ([`LargeOptions::concurrency`](super::LargeOptions)); a read, a write and a delete per large value; 2 more per entity
    /// that another writer changes during the upgrade.
    ///
    /// # Errors
    /// Errors of the stores; a conversion that fails or changes a key; a missing or damaged blob.
    pub async fn upgrade_all(&self) -> Result<u64> {
        self.upgrade().run().await?.into_result()
    }

    /// Creates the same upgrade to be planned, watched or resumed: see [`Upgrade`]. A plan reads the large values of older
    /// entities. Sends no request.
    pub fn upgrade(&self) -> Upgrade<T> {
        Upgrade::new(self.clone(), self.options().concurrency)
    }
}

#[async_trait]
impl<T: TableEntity> UpgradeRows<T> for LargeTable<T> {
    async fn page(&self, from: Option<&str>) -> Result<UpgradePage> {
        UpgradePage::of_query(&self.rows().with_hidden().project::<Entity>(), from).await
    }

    async fn check(&self, row: &UpgradeRow) -> Result<()> {
        // Without a value another writer has changed the entity meanwhile.
        let value = self.load_if_unchanged(row.entity.clone()).await?;
        value.map_or(Ok(()), |value| upgraded(&row.entity, &value).map(drop))
    }

    async fn convert(&self, row: UpgradeRow) -> Result<bool> {
        let row = row.entity;
        let key = row.key().clone();
        let first = async {
            // A blob is missing because the row has changed: `upgrade_one` starts again.
            let Some(value) = self.load_if_unchanged(row.clone()).await? else {
                return Err(self.changed(&row));
            };
            let new = upgraded(&row, &value)?;
            self.writer().upgrade(row.clone(), new).await
        };
        let all = self.clone().with_hidden();
        upgrade_one(first, all.update(key, |_| Ok(()))).await
    }
}

impl<T: TableEntity> LargeTable<T> {
    /// Reads the stored row, which must exist.
    pub(super) async fn existing(&self, key: &Key) -> Result<Entity> {
        self.row(key)
            .await?
            .ok_or_else(|| Error::entity_not_found(self.name(), key))
    }

    /// One attempt to replace a row that was read. Removes the old blobs.
    pub(super) async fn replace_read(&self, old: &Entity, new: Entity) -> Result<Written> {
        self.writer().write(Change::replace(old.clone(), new)).await
    }

    /// One attempt to delete a row that was read. Removes its blobs.
    pub(super) async fn delete_read(&self, old: &Entity) -> Result<()> {
        self.writer()
            .write(Change::delete(old.clone()))
            .await
            .map(drop)
    }

    /// Refuses a row in another version than the wanted one.
    pub(super) fn check_version(&self, row: &Entity, wanted: &IfMatch) -> Result<()> {
        wanted.check_form(row.key())?;
        match wanted {
            IfMatch::Exactly(etag) if row.etag() != Some(etag) => {
                Err(Error::precondition_failed(self.name(), row.key()))
            }
            _ => Ok(()),
        }
    }
}

impl<T> Clone for LargeTable<T> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            writer: self.writer.clone(),
        }
    }
}

impl<T> fmt::Debug for LargeTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LargeTable");
        debug
            .field("table", &self.table)
            .field("blobs", &self.writer.values().blobs)
            .finish_non_exhaustive()
    }
}
