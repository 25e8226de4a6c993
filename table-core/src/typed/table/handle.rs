use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::TableQuery;
use crate::manifest::{IndexDefinition, Touched};
use crate::model::{INDEX_NAME, Key, TableName};
use crate::query::{Filter, Select};
use crate::store::{Error, ErrorKind, Hidden, ManifestCache, PlainWrite, Result, TableStore, TableStoreExt};
use crate::typed::{FromEntity, TableEntity};

/// Point reads that [`Table::get_many`] has in flight unless told otherwise.
const CONCURRENCY: usize = 16;
/// Times that [`Table::update`] tries unless told otherwise.
const ATTEMPTS: u32 = 10;
/// What a write that is refused is to be instead.
const INSTEAD: &str = "write through `table_patterns::index::IndexedTable`, or ask for it by `unmanaged()`";

/// A table of a store, read and written as `T`.
///
/// `T` is an entity (writes need one), a projection, an enum over several types in the same table,
/// or [`Entity`](crate::model::Entity). Cheap to clone; clones share the store.
///
/// ```
/// use table_core::memory::MemoryStore;
/// use table_core::model::ETag;
/// use table_core::typed::{Table, TableEntity};
///
/// #[derive(Debug, TableEntity)]
/// #[entity(rename_all = "PascalCase")]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key(format = "empid_{:06}")]
///     id: u32,
///     name: String,
///     age: Option<i32>,
///     #[etag]
///     etag: Option<ETag>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
/// employees.create_if_missing().await?;
///
/// let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
/// employees.insert(&ken).await?;
/// let mut ken = employees.get_existing(Employee::key("Sales", 223)?).await?;
/// ken.age = Some(41);
/// employees.replace(&ken).await?;
///
/// let sales = employees.query().partition(Employee::partition("Sales")?);
/// assert_eq!(sales.filter(Employee::AGE.gt(40)).count().await?, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
/// Each method says how many requests it sends. What is refused before anything is sent, such as a
/// key part that does not fit, costs none. Beside that, writing costs one request in 30 seconds
/// ([`ManifestCache::LIFE`]), of all tables of a process that have one name and one store: the manifest of the table is read, for
/// indexes that other programs have declared. A table that this process has created costs none for the first 30 seconds.
///
/// # Cancellation
/// A dropped read leaves nothing. A dropped write is done or undone, as if its answer had been
/// lost, and never half done: each method sends at most one request that writes, except
/// [`update`](Self::update) and [`merge`](Self::merge) under
/// [`IfMatch::Any`](crate::model::IfMatch::Any), which send another only after the one before was
/// refused.
pub struct Table<T> {
    shared: Arc<Shared>,
    of: PhantomData<fn() -> T>,
}

/// What the clones of a [`Table`] and its queries share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) name: TableName,
    pub(super) select: Option<Select>,
    pub(super) type_filter: Option<Filter>,
    pub(super) concurrency: usize,
    pub(super) attempts: u32,
    pub(super) manifests: Arc<ManifestCache>,
    /// Whether writes ask no manifest, and may leave indexes as they are.
    pub(super) unmanaged: bool,
    pub(super) shown: Shown,
}

/// The rows that reads return beside entities.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) index_entries: bool,
    pub(super) system_rows: bool,
}

impl<T: FromEntity> Table<T> {
    /// Opens a table. No request: the table need not exist yet.
    ///
    /// An `Arc<dyn TableStore>` is shared as it is, any other store is wrapped in one.
    ///
    /// # Errors
    /// The name breaks the rules of [`TableName`]; `T` has encrypted properties and the store does not
    /// encrypt; `T` has a property in plaintext that the store encrypts by a rule; `T` has large fields (`#[large]`), which may be in blobs, or spread keys, or may take several rows.
    pub fn new<S, N>(store: S, name: N) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let store = store.into_shared();
        Self::open(Shared {
            manifests: ManifestCache::over(&*store),
            store,
            name,
            select: None,
            type_filter: None,
            concurrency: CONCURRENCY,
            attempts: ATTEMPTS,
            unmanaged: false,
            shown: Shown::default(),
        })
    }

    /// The same table read as another type: a projection, an enum over several types, one of them.
    ///
    /// # Errors
    /// `U` has encrypted properties and the store does not encrypt, or large fields.
    pub fn view<U: FromEntity>(&self) -> Result<Table<U>> {
        Table::open((*self.shared).clone())
    }

    fn open(shared: Shared) -> Result<Self> {
        shared.store.check_encrypts(&shared.name, &T::encrypted())?;
        shared.store.check_unencrypted(&shared.name, &T::unencrypted())?;
        if let Some(property) = T::large().first() {
            let name = &shared.name;
            return Err(Error::invalid_request(format!(
                "the values of '{property}' in '{name}' may be in blobs: open it as a table of large entities \
                 (`LargeTable` of the pattern library)"
            )));
        }
        if T::spread().is_some() {
            let name = &shared.name;
            return Err(Error::invalid_request(format!(
                "the partitions of '{name}' are spread over buckets: open it as a `SpreadTable` of the pattern library"
            )));
        }
        if T::wide() {
            let name = &shared.name;
            return Err(Error::invalid_request(format!(
                "entities of '{name}' may take several rows: open it as a `WideTable` of the pattern library"
            )));
        }
        let shared = Shared { select: T::select(), type_filter: T::type_filter(), ..shared };
        Ok(Self { shared: Arc::new(shared), of: PhantomData })
    }

    /// Everything in the table that is a `T`, until it is narrowed down.
    pub fn query(&self) -> TableQuery<T> {
        TableQuery::new(self.clone())
    }
}

impl<T> Table<T> {
    /// The same table with another bound on the point reads that one call has in flight; at least 1.
    #[must_use]
    pub fn with_concurrency(mut self, requests: usize) -> Self {
        Arc::make_mut(&mut self.shared).concurrency = requests.max(1);
        self
    }

    /// The same table with another bound on the attempts of an [`update`](Self::update) that loses
    /// against other writers; at least 1, and 10 unless told otherwise.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        Arc::make_mut(&mut self.shared).attempts = attempts.max(1);
        self
    }

    /// The same table with writes that read no manifest, and leave the entries of indexes as they are.
    ///
    /// Otherwise a table refuses to write what an index is of, be it declared by the type (`#[index(…)]`) or, by whichever program, in
    /// the table's manifest: `table_patterns::index::IndexedTable` keeps the entries in step. What is written here must not
    /// touch what an index holds, or be followed by a scrub. It is for those, too, whose credential may not read the manifest.
    #[must_use]
    pub fn unmanaged(mut self) -> Self {
        Arc::make_mut(&mut self.shared).unmanaged = true;
        self
    }

    /// The same table with reads that return index entries, too: see [`TableQuery::with_index_entries`].
    ///
    /// Otherwise a [`get`](Self::get) finds no entity where an entry is; so does every read of several rows.
    #[must_use]
    pub fn with_index_entries(mut self) -> Self {
        Arc::make_mut(&mut self.shared).shown.index_entries = true;
        self
    }

    /// The same table with reads that return the rows that patterns keep for themselves, too: see
    /// [`TableQuery::with_system_rows`].
    #[must_use]
    pub fn with_system_rows(mut self) -> Self {
        Arc::make_mut(&mut self.shared).shown.system_rows = true;
        self
    }

    /// What a write of rows of the table rests on, until it is done, for who writes them through the [`store`](Self::store): see
    /// [`ManifestCache::plain_write`]. `None` if the table is [unmanaged](Self::unmanaged).
    ///
    /// # Errors
    /// As there.
    pub async fn plain_write(&self) -> Result<Option<PlainWrite>> {
        self.shared().plain_write().await
    }

    /// Creates the table unless it is there; whether it was created. One request; another where the answer was
    /// lost: a table that is there then may be this call's, and the answer is `false`.
    ///
    /// # Errors
    /// The store's; a table that is being deleted cannot be created yet: on Azure for 40 seconds or more,
    /// which only a [`RetryPolicy`](crate::adapter::RetryPolicy) made for it waits out.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.store().create_table_if_missing(self.name()).await
    }

    /// Deletes the table, with everything in it, if it is there; whether it was. One request; another where the
    /// answer was lost: a table that is gone then may have been there, and the answer is `false`.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete_table_if_exists(&self) -> Result<bool> {
        self.store().delete_table_if_exists(self.name()).await
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        &self.shared.store
    }

    /// The name.
    pub fn name(&self) -> &TableName {
        &self.shared.name
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Shared {
    pub(super) fn not_found(&self, key: &Key) -> Error {
        ErrorKind::EntityNotFound { table: self.name.to_string(), key: key.to_string() }.into()
    }

    /// What a read of this table as `R` leaves out. Types that are told by a discriminator need nothing of that: no entry is one.
    pub(super) fn hidden<R: FromEntity>(&self, shown: Shown, select: Option<&Select>) -> Hidden {
        let is_told = self.type_filter.is_some() || R::type_filter().is_some();
        let index_entries = !is_told && !shown.index_entries;
        let is_asked_for = select.is_none_or(|select| select.contains(INDEX_NAME));
        Hidden {
            system_rows: !shown.system_rows,
            index_entries,
            adds_index_name: index_entries && !is_asked_for,
        }
    }

    /// Refuses writes that would leave entries of declared indexes stale.
    pub(super) fn check_indexes(&self, indexes: &[&IndexDefinition], what: &str) -> Result<()> {
        match indexes.first() {
            Some(index) if !self.unmanaged => Err(Error::invalid_request(format!(
                "'{}' holds entities with the index '{}', and {what} would leave its entry stale: {INSTEAD}",
                self.name, index.name
            ))),
            _ => Ok(()),
        }
    }

    /// What a write rests on, until it is done; `None` where the manifest does not matter.
    pub(super) async fn plain_write(&self) -> Result<Option<PlainWrite>> {
        if self.unmanaged {
            return Ok(None);
        }
        self.manifests.plain_write(&*self.store, &self.name).await.map(Some)
    }

    /// Refuses to write what an index of the manifest is of.
    pub(super) fn check_plain(&self, rests_on: &PlainWrite, touched: Touched<'_>, what: &str) -> Result<()> {
        rests_on.manifest().check_plain(&self.name, touched, what, INSTEAD)
    }

    pub(super) fn changed(&self, key: &Key) -> Error {
        ErrorKind::PreconditionFailed { table: self.name.to_string(), key: key.to_string() }.into()
    }
}

impl<T: TableEntity> Table<T> {
    /// What a write of the entity with this key rests on, until it is done. What an index is of is refused.
    pub(super) async fn to_write(&self, key: &Key, what: &str) -> Result<Option<PlainWrite>> {
        let shared = self.shared();
        shared.check_indexes(&T::indexes(), what)?;
        let rests_on = shared.plain_write().await?;
        if let Some(rests_on) = &rests_on {
            shared.check_plain(rests_on, Touched::Type(&T::SCHEMA.entity_type(), key), what)?;
        }
        Ok(rests_on)
    }
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), of: PhantomData }
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", self.name()).field("store", self.store()).finish()
    }
}
