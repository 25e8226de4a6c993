use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::{Error, Outcome, Result, TableStore, TableStoreExt as _, Written};
use table_core::typed::{EntityPatch as _, KeyOf, Table, TableEntity, TableQuery};

use super::entity_writer::EntityWriter;
use super::row::large;
use super::values::{LargeValues, NewBlobs, not_encrypted};
use super::{LargeOptions, LargeRow};
use crate::index::IndexedEntities;
use crate::journal::Change;
use crate::rows::conflict::Conflicts;

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
    table: Table<LargeRow<T>>,
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
    /// The name is not legal; `T` has encrypted fields and the store does not encrypt, or an encrypted large
    /// field and the codec does not; `T` declares indexes: see [`open`](Self::open).
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
        if let Some(index) = T::indexes().first() {
            let (name, index) = (T::SCHEMA.rust_name, &index.name);
            return Err(Error::invalid_request(format!(
                "{name} declares the index '{index}', whose entries are to follow its writes: open the table by \
                 `LargeTable::open`"
            )));
        }
        Self::unindexed(store, name, blobs, options)
    }

    /// Without the indexes of the type.
    pub(super) fn unindexed(
        store: Arc<dyn TableStore>,
        name: TableName,
        blobs: Arc<dyn ObjectStore>,
        options: LargeOptions,
    ) -> Result<Self> {
        let table: Table<LargeRow<T>> = Table::new(store, name)?;
        if let Some(open) = large::<T>().find(|p| p.encrypted && !options.codec.encrypts()) {
            return Err(not_encrypted(open.name));
        }
        let (store, name, schema) = (Arc::clone(table.store()), table.name().clone(), T::SCHEMA);
        let values = LargeValues { store: Arc::clone(&store), table: name.clone(), schema, blobs, options };
        Ok(Self { table, writer: EntityWriter::new(store, name, values) })
    }

    /// The same with indexes whose entries follow every write.
    pub(super) fn with_indexes(self, indexes: IndexedEntities) -> Self {
        Self { writer: self.writer.with_indexes(indexes), ..self }
    }

    /// The same table with another bound on the blobs, and on the requests to the table, that one call has in flight; at least 1. See
    /// [`LargeOptions::concurrency`].
    #[must_use]
    pub fn with_concurrency(self, requests: usize) -> Self {
        let requests = requests.max(1);
        let change = |options: &mut LargeOptions| options.concurrency = requests;
        let writer = self.writer.with_options(change, |options| options.concurrency = requests);
        Self { table: self.table.with_concurrency(requests), writer }
    }

    /// The same table with another bound on the attempts of a write that loses against other writers; at least 1. See
    /// [`LargeOptions::attempts`].
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        let attempts = attempts.max(1);
        let change = |options: &mut LargeOptions| options.attempts = attempts;
        let writer = self.writer.with_options(change, |options| options.attempts = attempts);
        Self { writer, ..self }
    }

    /// Creates the table unless it is there; whether it was created. One request.
    ///
    /// # Errors
    /// The store's.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.table.create_if_missing().await
    }

    /// The rows as they are stored, to narrow down, and then to [`load`](Self::load) or to project: a filter sees what is stored of a
    /// large property. Keys of `T` need a `cast()`. [`query`](Self::query) returns whole entities.
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

    /// Adds an entity that must not exist. One request, and one for each blob.
    ///
    /// # Errors
    /// The entity exists; a value or a key cannot be stored; the blob store's.
    pub async fn insert(&self, value: &T) -> Result<Written> {
        self.writer.write(Change::insert(value.to_entity()?)).await
    }

    /// Replaces the entity in the version it was read in: that of its `#[etag]` field. Two requests, and
    /// the blobs.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. The value carries no ETag.
    pub async fn replace(&self, value: &T) -> Result<Written> {
        self.replace_if(value, value.own_version()?).await
    }

    /// Replaces the entity if it is in this version; [`IfMatch::Any`] asks for any. Two requests and
    /// the blobs; with any version, from the start for each writer that comes in between.
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

    /// Writes the entity, whatever was there. Two requests and the blobs, from the start for each writer that
    /// comes in between.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); precondition failed or already exists, after the last attempt; the entity is stored in a
    /// later version of the schema.
    pub async fn upsert(&self, value: &T) -> Result<Written> {
        self.write_over(value, |old, new| {
            T::SCHEMA.check_replaceable(old)?;
            Ok(new.clone())
        })
        .await
    }

    /// Adds the entity, or writes its properties over those of the one that is there. A field that is `None` keeps what is
    /// stored, in its blob, and so do properties that `T` does not know. Two requests and the blobs, from the start for each writer
    /// that comes in between.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); precondition failed or already exists, after the last attempt. The entity that is there is of
    /// another type, or stored in another version of the schema: [`update`](Self::update) it.
    pub async fn insert_or_merge(&self, value: &T) -> Result<Written> {
        self.write_over(value, |old, new| {
            T::SCHEMA.merged(old, new).map(|merged| merged.with_system(None, None))
        })
        .await
    }

    /// Adds the entity, or replaces the row that is there by what `over` makes of that and of the entity.
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

    /// How often a write that loses is tried: one that is bound to a version, once.
    const fn conflicts(&self, version: &IfMatch) -> Conflicts {
        Conflicts::new(match version {
            IfMatch::Any => self.options().attempts,
            IfMatch::Exactly(_) => 1,
        })
    }

    /// Reads the entity, lets `change` change it, and replaces it in the version that was read; from the start
    /// if another writer was faster. Returns what was stored. Properties that `T` does not know stay, with their blobs. Two
    /// requests and the blobs.
    ///
    /// # Errors
    /// Entity not found; an error of `change`; `change` changed the key; precondition failed, after the
    /// last attempt.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let key: Key = key.into_key();
        let mut conflicts = self.conflicts(&IfMatch::Any);
        loop {
            let old = self.existing(&key).await?;
            let Some(mut value) = self.hydrate_or_again(old.clone()).await? else { continue };
            change(&mut value)?;
            let mut new = value.to_entity()?;
            if *new.key() != key {
                let name = T::SCHEMA.rust_name;
                return Err(Error::invalid_request(format!("an update of the {name} {key} changes its key")));
            }
            T::SCHEMA.keep_unknown(&old, &mut new)?;
            match self.replace_read(&old, new.clone()).await {
                Err(error) => conflicts.wait(error).await?,
                Ok(written) => {
                    let stored = T::from_entity(new.with_system(written.etag, None));
                    return stored.map_err(|error| error.with_outcome(Outcome::Applied));
                }
            }
        }
    }

    /// Writes the fields that the patch sets over those of the entity, if it is in this version; [`IfMatch::Any`] asks for any.
    /// The patch has no large field. Two requests; with any version, from the start for each writer that comes in between.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. The patch sets nothing. The entity is stored in another
    /// version of the schema.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (patch, version) = (patch.to_entity(key.into_key())?, version.into());
        let mut conflicts = self.conflicts(&version);
        loop {
            let old = self.existing(patch.key()).await?;
            self.check_version(&old, &version)?;
            T::SCHEMA.check_patchable(&old)?;
            match self.writer.merge(&NewBlobs::none(), &old, patch.clone()).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// Removes the entity if it is in this version, with its blobs; [`IfMatch::Any`] asks for any. Two
    /// requests, and one for each blob.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found.
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

    /// Removes the entity in any version, if it is there; whether it was.
    ///
    /// # Errors
    /// The stores'.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        match self.delete(key, IfMatch::Any).await {
            Err(error) if error.is_entity_not_found() && !error.is_ambiguous() => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// The name.
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

    /// The entities with their indexes, to build, scrub and recover; `None` of a type that declares none.
    ///
    /// What it writes are rows: it moves none that has a value in a blob, and leaves the blobs of those that it replaces or
    /// removes to a [collection](Self::collect).
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

impl<T> Clone for LargeTable<T> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), writer: self.writer.clone() }
    }
}

impl<T> fmt::Debug for LargeTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LargeTable");
        debug.field("table", &self.table).field("blobs", &self.writer.values().blobs).finish_non_exhaustive()
    }
}
