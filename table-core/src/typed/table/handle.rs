use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{RowLoader, TableQuery};
use crate::manifest::{Expiries, IndexDefinition, Manifest, WriteTarget};
use crate::model::{Key, TableName, Ticks};
use crate::query::{Filter, Select};
use crate::store::{Error, PlainWrite, Result, RowFilter, TableStore, TableStoreExt};
use crate::typed::{FromEntity, Requirements, Schema, TableEntity, permit_registered};

/// Default of [`PlainTable::with_concurrency`].
const CONCURRENCY: usize = 16;
/// Default of [`PlainTable::with_attempts`].
const ATTEMPTS: u32 = 10;
/// The advice in the error of a write that would leave an index entry stale.
const ADVICE: &str = "write through `table_patterns::Table`, or open the table with `ignoring_indexes()` to leave the entries as they are";

/// A table of a store with entities of type `T`.
///
/// `T` is an entity type, a projection, an enum over several types in the table, or
/// [`Entity`](crate::model::Entity). Writes need an entity type. Clones are cheap and share the store.
///
/// ```
/// use table_core::memory::MemoryStore;
/// use table_core::model::ETag;
/// use table_core::typed::{PlainTable, TableEntity};
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
/// let employees = PlainTable::<Employee>::new(MemoryStore::new(), "Employees")?;
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
/// Each method documents its number of requests. An error that is found before the first request, such as a key part
/// that cannot be encoded, costs no request.
///
/// In addition, writing costs 1 request per 30 seconds ([`ManifestCache::LIFE`](crate::store::ManifestCache::LIFE)): the table's manifest is read, because
/// other programs may have declared indexes. All handles of a process for the same table and store share this
/// request. It is not sent in the first 30 seconds after this process has created the table.
///
/// # Cancellation
/// If the future of a write is dropped, the entity is in its old or its new state. A method whose documentation says *2 more
/// requests per conflict* may send its write again after a refusal. [`insert`](Self::insert) does so if it replaces an
/// expired entity, and [`move_to`](Self::move_to) writes two keys. The first write of a type with `#[expires]` or
/// `#[deleted_at]` also writes the manifest.
pub struct PlainTable<T> {
    shared: Arc<Shared>,
    of: PhantomData<fn() -> T>,
}

/// The state that the clones of a [`PlainTable`] and its queries share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) name: TableName,
    pub(super) select: Option<Select>,
    pub(super) type_filter: Option<Filter>,
    pub(super) concurrency: usize,
    pub(super) attempts: u32,
    /// Whether writes do not check the manifest, so that index entries may become stale.
    pub(super) unmanaged: bool,
    pub(super) extra_rows: ExtraRows,
    /// The types of `T` that expire.
    pub(super) expiries: Expiries,
    /// Whether `T` is read from any entity, so that only the result type of a read says what expires.
    pub(super) is_untyped: bool,
    /// How rows show that they have the type `T`.
    pub(super) evidence: TypeEvidence,
    /// Reads the values that are outside of their rows.
    pub(super) loader: Option<Arc<dyn RowLoader>>,
}

/// The kinds of rows that reads return in addition to entities.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExtraRows {
    pub(super) index_entries: bool,
    pub(super) system_rows: bool,
    pub(super) hidden: bool,
}

/// How rows show that they have the type of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypeEvidence {
    /// They do not show it.
    None,
    /// The start of a key shows it. Index entries and entities of a type that a property identifies can have such keys too. The property is
    /// the one that only these entities have; `None` if the type has a property of this name.
    Key(Option<&'static str>),
    /// A property shows it, which index entries do not have.
    Property,
}

impl TypeEvidence {
    fn of<R: FromEntity>(required: &Requirements) -> Self {
        if R::type_filter().is_none() {
            return Self::None;
        }
        if required
            .schemas
            .iter()
            .all(|schema| schema.discriminator.property().is_some())
        {
            return Self::Property;
        }
        let name = Schema::TYPE_PROPERTY;
        let has_name = |schema: &&'static Schema| schema.keeps_rest || schema.has_known_name(name);
        Self::Key(if required.schemas.iter().any(has_name) {
            None
        } else {
            Some(name)
        })
    }
}

impl<T: FromEntity> PlainTable<T> {
    /// Creates a handle for a table, which need not exist yet. Sends no request.
    ///
    /// An `Arc<dyn TableStore>` is used as it is; any other store is wrapped in one.
    ///
    /// # Errors
    /// Fails if
    ///
    /// - the name breaks the rules of [`TableName`],
    /// - `T` has encrypted properties and the store does not encrypt,
    /// - `T` has a property in plaintext that the store encrypts by a rule, or
    /// - `T` needs another handle: it has large fields (`#[large]`), or is wide or spread.
    pub fn new<S, N>(store: S, name: N) -> Result<Self>
    where
        S: TableStore,
        N: TryInto<TableName, Error: Into<Error>>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let store = store.into_shared();
        Self::open(Shared {
            store,
            name,
            select: None,
            type_filter: None,
            concurrency: CONCURRENCY,
            attempts: ATTEMPTS,
            unmanaged: false,
            extra_rows: ExtraRows::default(),
            expiries: Expiries::default(),
            is_untyped: true,
            evidence: TypeEvidence::None,
            loader: None,
        })
    }

    /// Returns a handle for the same table with another type: a projection, an enum over several types, or one of them.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Self::new) for `U`.
    pub fn view<U: FromEntity>(&self) -> Result<PlainTable<U>> {
        self.loaded_by(None)
    }

    pub(super) fn open(shared: Shared) -> Result<Self> {
        let required = T::requirements();
        shared
            .store
            .check_encrypts(&shared.name, &required.encrypted)?;
        shared.store.check_times(&shared.name, &required.times())?;
        shared
            .store
            .check_unencrypted(&shared.name, &required.unencrypted)?;
        if shared.loader.is_none()
            && let Some(property) = required.large.first()
        {
            let name = &shared.name;
            return Err(Error::misuse(format!(
                "values of the property '{property}' in '{name}' may be in blobs: open the table by a \
                 `table_patterns::Database` with blobs"
            )));
        }
        if required.spread.is_some() {
            let name = &shared.name;
            return Err(Error::misuse(format!(
                "the partitions of '{name}' are spread over buckets: open the table as a \
                 `table_patterns::spread::SpreadTable`"
            )));
        }
        if required.wide {
            let name = &shared.name;
            return Err(Error::misuse(format!(
                "entities of '{name}' may take several rows: open the table as a `table_patterns::wide::WideTable`"
            )));
        }
        let (expiries, is_untyped) = (required.expiries(), required.schemas.is_empty());
        let evidence = TypeEvidence::of::<T>(&required);
        let shared = Shared {
            select: T::select(),
            type_filter: T::type_filter(),
            expiries,
            is_untyped,
            evidence,
            ..shared
        };
        Ok(Self {
            shared: Arc::new(shared),
            of: PhantomData,
        })
    }

    /// Returns a query of all entities of type `T`. Add conditions to it, then run it.
    pub fn query(&self) -> TableQuery<T> {
        TableQuery::new(self.clone())
    }
}

impl<T> PlainTable<T> {
    /// Sets the maximum number of point reads that one call has in flight. Default: 16. Minimum: 1.
    #[must_use]
    pub fn with_concurrency(mut self, requests: usize) -> Self {
        Arc::make_mut(&mut self.shared).concurrency = requests.max(1);
        self
    }

    /// Sets the maximum number of attempts of an [`update`](Self::update) that conflicts with other writers.
    /// Default: 10. Minimum: 1.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        Arc::make_mut(&mut self.shared).attempts = attempts.max(1);
        self
    }

    /// Makes writes ignore the table's manifest and leave index entries as they are.
    ///
    /// Without this setting, a table refuses to write entities that have an index, whether the type declares it
    /// (`#[index(…)]`) or any program has declared it in the manifest.
    /// `table_patterns::Table` writes such entities and their entries.
    ///
    /// Use the setting for writes that do not change indexed properties, before a scrub, or with a credential that
    /// may not read the manifest.
    #[must_use]
    pub fn ignoring_indexes(mut self) -> Self {
        Arc::make_mut(&mut self.shared).unmanaged = true;
        self
    }

    /// Makes all reads return index entries too: see [`TableQuery::with_index_entries`]. By default, a read of the key of
    /// an index entry returns nothing.
    #[must_use]
    pub fn with_index_entries(mut self) -> Self {
        Arc::make_mut(&mut self.shared).extra_rows.index_entries = true;
        self
    }

    /// Makes all reads return system rows too: see [`TableQuery::with_system_rows`].
    #[must_use]
    pub fn with_system_rows(mut self) -> Self {
        Arc::make_mut(&mut self.shared).extra_rows.system_rows = true;
        self
    }

    /// Makes all reads return hidden entities too: see [`TableQuery::with_hidden`]. [`update`](Self::update) and
    /// [`merge`](Self::merge) then change them.
    #[must_use]
    pub fn with_hidden(mut self) -> Self {
        Arc::make_mut(&mut self.shared).extra_rows.hidden = true;
        self
    }

    /// Returns the manifest and permit for a write through the [`store`](Self::store) itself: see
    /// [`TableStoreExt::plain_write`]. `None` if the table is [ignoring indexes](Self::ignoring_indexes).
    ///
    /// # Errors
    /// Returns the errors of [`TableStoreExt::plain_write`].
    pub async fn plain_write(&self) -> Result<Option<PlainWrite>> {
        self.shared().plain_write().await
    }

    /// Creates the table unless it exists. Returns whether this call created it. 1 request, or 2 if the first answer was
    /// lost; see [`TableStoreExt::create_table_if_missing`].
    ///
    /// # Errors
    /// Returns the errors of the store. On Azure a table cannot be created for 40 seconds or more after its deletion;
    /// a [`RetryPolicy`](crate::adapter::RetryPolicy) waits for it until its deadline, 2 minutes unless set.
    pub async fn create_if_missing(&self) -> Result<bool> {
        self.store().create_table_if_missing(self.name()).await
    }

    /// Deletes the table and its entities, if it exists. Returns whether this call deleted it. 1 request, or 2 if the first
    /// answer was lost; see [`TableStoreExt::delete_table_if_exists`].
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub async fn delete_table_if_exists(&self) -> Result<bool> {
        self.store().delete_table_if_exists(self.name()).await
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        &self.shared.store
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &TableName {
        &self.shared.name
    }

    /// Returns the setting of [`with_attempts`](Self::with_attempts).
    #[doc(hidden)]
    pub fn attempts(&self) -> u32 {
        self.shared.attempts
    }

    /// Returns the setting of [`with_concurrency`](Self::with_concurrency).
    #[doc(hidden)]
    pub fn concurrency(&self) -> usize {
        self.shared.concurrency
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Shared {
    pub(super) fn not_found(&self, key: &Key) -> Error {
        Error::entity_not_found(&self.name, key)
    }

    /// Returns the rows that a read of this table as `R` removes. If a property selects the type, the service returns
    /// no index entries, because entries do not have the property.
    pub(super) fn row_filter<R: FromEntity>(
        &self,
        extra: ExtraRows,
        select: Option<&Select>,
    ) -> RowFilter {
        // Otherwise each page is filtered here. For that the reads must select the property that marks entries, which
        // the caller may not have selected.
        let evidence = match self.evidence {
            TypeEvidence::None => TypeEvidence::of::<R>(&R::requirements()),
            of_table => of_table,
        };
        let other_type = if let TypeEvidence::Key(name) = evidence {
            name
        } else {
            None
        };
        let filter = RowFilter {
            removes_system_rows: !extra.system_rows,
            removes_index_entries: evidence != TypeEvidence::Property && !extra.index_entries,
            other_type,
            hidden: self.hidden::<R>(extra),
            added: Vec::new(),
        };
        filter.for_select(select)
    }

    /// Returns the types whose hidden rows a read removes, with the present time.
    fn hidden<R: FromEntity>(&self, extra: ExtraRows) -> Option<(Expiries, Ticks)> {
        if extra.hidden {
            return None;
        }
        let expiries = if self.is_untyped {
            R::requirements().expiries()
        } else {
            self.expiries.clone()
        };
        (!expiries.is_empty()).then(|| (expiries, self.store.context().now()))
    }

    /// Refuses a write if the type declares an index, because the write would leave the index entry stale. `operation` is the
    /// name of the write for the error.
    pub(super) fn check_no_index(
        &self,
        index: Option<&IndexDefinition>,
        operation: &str,
    ) -> Result<()> {
        match index {
            Some(index) if !self.unmanaged => Err(Error::misuse(format!(
                "entities of '{}' have the index '{}', and {operation} would leave its entry stale: {ADVICE}",
                self.name, index.name
            ))),
            _ => Ok(()),
        }
    }

    /// Returns manifest and permit for a write; `None` if the table is unmanaged. Keep the result until the write is done.
    pub(super) async fn plain_write(&self) -> Result<Option<PlainWrite>> {
        if self.unmanaged {
            return Ok(None);
        }
        self.store.plain_write(&self.name).await.map(Some)
    }

    /// Refuses a write of an entity that may have an index or several rows according to the manifest.
    pub(super) fn check_plain(
        &self,
        plain: &PlainWrite,
        target: WriteTarget<'_>,
        operation: &str,
    ) -> Result<()> {
        plain
            .manifest()
            .check_plain(&self.name, target, operation, ADVICE)
    }

    /// Adds a type that expires to the manifest, if the manifest does not have it: a sweep finds its entities by the manifest.
    pub(super) async fn register(&self, schema: &Schema) -> Result<()> {
        if schema.expiry.is_none() || self.unmanaged {
            return Ok(());
        }
        let check = |manifest: &Manifest| {
            manifest.check_type(&self.name, schema)?;
            Ok(manifest.type_to_register(schema))
        };
        permit_registered(&*self.store, &self.name, schema, check)
            .await
            .map(drop)
    }

    pub(super) fn precondition_failed(&self, key: &Key) -> Error {
        Error::precondition_failed(&self.name, key)
    }
}

impl<T: TableEntity> PlainTable<T> {
    /// Returns manifest and permit for a write of the entity with this key, and refuses the write if the entity may have an
    /// index or another layout. Keep the result until the write is done.
    pub(super) async fn permit_write(
        &self,
        key: &Key,
        operation: &str,
    ) -> Result<Option<PlainWrite>> {
        let entity_type = T::SCHEMA.entity_type();
        self.permit(WriteTarget::Type(&entity_type, key), operation)
            .await
    }

    /// As [`permit_write`](Self::permit_write), of a write that accepts whatever is stored: that may be an entity of another type, which has
    /// an index.
    pub(super) async fn permit_overwrite(
        &self,
        key: &Key,
        operation: &str,
    ) -> Result<Option<PlainWrite>> {
        self.permit(WriteTarget::Key(key), operation).await
    }

    async fn permit(&self, target: WriteTarget<'_>, operation: &str) -> Result<Option<PlainWrite>> {
        let shared = self.shared();
        // First the declarations of the type, which cost no request.
        shared.check_no_index(T::SCHEMA.indexes.first(), operation)?;
        if T::SCHEMA.expiry.is_some() && !shared.unmanaged {
            let check = |manifest: &Manifest| {
                manifest.check_type(&shared.name, T::SCHEMA)?;
                manifest.check_plain(&shared.name, target, operation, ADVICE)?;
                Ok(manifest.type_to_register(T::SCHEMA))
            };
            return permit_registered(&*shared.store, &shared.name, T::SCHEMA, check)
                .await
                .map(Some);
        }
        let plain = shared.plain_write().await?;
        if let Some(plain) = &plain {
            plain.manifest().check_type(&shared.name, T::SCHEMA)?;
            shared.check_plain(plain, target, operation)?;
        }
        Ok(plain)
    }
}

impl<T> Clone for PlainTable<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for PlainTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", self.name())
            .field("store", self.store())
            .finish()
    }
}
