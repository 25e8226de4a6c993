//! [`Database`]: a store, with what its tables share.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "blobs")]
use object_store::ObjectStore;
use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};
use table_core::typed::load::RowLoader;
use table_core::typed::{FromEntity, Requirements, TableEntity};

use super::Table;
use super::indexes::{EntityCode, TypeIndexes};
use crate::entry::Index;
use crate::index::IndexOptions;
use crate::large_values::EntityWriter;
#[cfg(feature = "blobs")]
use crate::large_values::{LargeLoader, LargeOptions, open_writer, remove_all};

/// A store with tables of typed entities: creates a [`Table`] for each type.
///
/// A program has one `Database` for a store. Its tables share their copies of the manifests, so a [`table`](Self::table) costs no request,
/// however often it is called. Clones are cheap.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_patterns::prelude::*;
///
/// #[derive(Debug, PartialEq, TableEntity)]
/// #[entity(type = "Employee", rename_all = "PascalCase")]
/// #[index(email, row_key = "email_{email}", unique = "partition")]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key(format = "empid_{:06}")]
///     id: u32,
///     email: String,
/// }
///
/// let db = Database::new(MemoryStore::new());
/// let employees = db.table::<Employee>("Employees")?;
/// employees.declare().await?; // creates the table, and declares the index
/// let ken = Employee { department: "Sales".into(), id: 1, email: "ken@x".into() };
/// employees.insert(&ken).await?;
/// let found = employees.by(Employee::by_email("Sales").email("ken@x")).get().await?;
/// assert_eq!(found, Some(ken));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
    #[cfg(feature = "blobs")]
    blobs: Option<Arc<dyn ObjectStore>>,
    #[cfg(feature = "blobs")]
    large: LargeOptions,
}

struct Shared {
    store: Arc<dyn TableStore>,
    options: IndexOptions,
    /// The indexes of each type that has a handle. Handles of the same type and table open them once.
    indexes: Mutex<HashMap<(String, TypeId), Arc<TypeIndexes>>>,
}

impl Database {
    /// Uses a store, with the default options. Sends no request.
    ///
    /// An `Arc<dyn TableStore>` is used as it is; any other store is wrapped in one.
    pub fn new(store: impl TableStore) -> Self {
        Self::with_options(store, IndexOptions::default())
    }

    /// Uses a store, with these options of all tables. Sends no request.
    pub fn with_options(store: impl TableStore, options: IndexOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: store.into_shared(),
                options,
                indexes: Mutex::default(),
            }),
            #[cfg(feature = "blobs")]
            blobs: None,
            #[cfg(feature = "blobs")]
            large: LargeOptions::default(),
        }
    }

    /// Sets the store of large values: tables of types with `#[large]` fields need it. See [`large`](crate::large).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// use std::sync::Arc;
    /// use object_store::memory::InMemory;
    /// use table_patterns::prelude::*;
    ///
    /// #[derive(Debug, PartialEq, TableEntity)]
    /// #[entity(type = "Report", rename_all = "PascalCase")]
    /// #[index(author, row_key = "author_{author}_{number}", payload = fields(title))]
    /// struct Report {
    ///     #[partition_key]
    ///     department: String,
    ///     #[row_key(format = "report_{}")]
    ///     number: u32,
    ///     author: String,
    ///     title: String,
    ///     #[large(over = 100)]
    ///     text: String,
    /// }
    ///
    /// let db = Database::new(MemoryStore::new()).with_blobs(Arc::new(InMemory::new()));
    /// let reports = db.table::<Report>("Reports")?;
    /// reports.declare().await?;
    /// let report = Report {
    ///     department: "Sales".into(),
    ///     number: 1,
    ///     author: "Kwok".into(),
    ///     title: "2013".into(),
    ///     text: "a long story. ".repeat(1_000_000),
    /// };
    /// reports.insert(&report).await?; // the blob, then row and entry
    ///
    /// let of_kwok = reports.by(Report::by_author("Sales").author("Kwok"));
    /// assert_eq!(of_kwok.all().await?, [report]); // whole, with the text
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "blobs")]
    #[must_use]
    pub fn with_blobs(self, blobs: Arc<dyn ObjectStore>) -> Self {
        Self {
            blobs: Some(blobs),
            ..self
        }
    }

    /// Sets the options of large values.
    #[cfg(feature = "blobs")]
    #[must_use]
    pub fn with_large(self, large: LargeOptions) -> Self {
        Self { large, ..self }
    }

    /// The writer of a type with large values and the loader of their values; `None` for a type without large fields.
    #[cfg(feature = "blobs")]
    pub(super) fn large_of(
        &self,
        table: &TableName,
        required: &Requirements,
    ) -> Result<Option<(EntityWriter, Arc<dyn RowLoader>)>> {
        let Some(property) = required.large.first() else {
            return Ok(None);
        };
        let Some(blobs) = &self.blobs else {
            return Err(without_blobs(table, property));
        };
        let options = self.options();
        let open = |schema| {
            let (blobs, large) = (Arc::clone(blobs), self.large.clone());
            open_writer(self.store(), table, schema, blobs, large)
        };
        let mut writers = required.schemas.iter().map(|schema| open(schema));
        let Some(first) = writers.next().transpose()? else {
            return Ok(None);
        };
        // The codec must encrypt the marked properties of every type.
        writers.try_for_each(|writer| writer.map(drop))?;
        let loader = LargeLoader::new(first.values().clone(), &required.schemas);
        let writer = first.with_bounds(options.attempts, options.concurrency);
        Ok(Some((writer, Arc::new(loader))))
    }

    #[cfg(not(feature = "blobs"))]
    pub(super) fn large_of(
        &self,
        table: &TableName,
        required: &Requirements,
    ) -> Result<Option<(EntityWriter, Arc<dyn RowLoader>)>> {
        let property = required.large.first();
        property.map_or(Ok(None), |property| Err(without_blobs(table, property)))
    }

    /// Removes all blobs of a deleted table.
    #[cfg(feature = "blobs")]
    pub(super) async fn remove_blobs(&self, table: &TableName) -> Result<()> {
        let Some(blobs) = &self.blobs else {
            return Ok(());
        };
        let concurrency = self.options().concurrency.max(1);
        remove_all(&**blobs, &self.large.root, table, concurrency).await
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        &self.shared.store
    }

    /// Creates a handle for a table with entities of a type. The table need not exist yet. Sends no request.
    ///
    /// # Errors
    /// As for [`PlainTable::new`](table_core::typed::PlainTable::new).
    pub fn table<T: TableEntity>(
        &self,
        name: impl TryInto<TableName, Error: Into<Error>>,
    ) -> Result<Table<T>> {
        let table = self.view::<T>(name)?;
        let indexes = self.indexes(table.name(), EntityCode::of::<T>());
        Ok(table.with_indexes(indexes))
    }

    /// Creates a handle that reads a table as a projection, an enum over several types, or
    /// [`Entity`](table_core::model::Entity). Sends no request. For an entity type use [`table`](Self::table): its set operations by a
    /// view are refused if the type has indexes.
    ///
    /// # Errors
    /// As for [`table`](Self::table).
    pub fn view<T: FromEntity>(
        &self,
        name: impl TryInto<TableName, Error: Into<Error>>,
    ) -> Result<Table<T>> {
        Table::view_of(self.clone(), name)
    }

    /// As [`table`](Self::table), with more indexes than `T` declares: copies, and indexes with Rust code. Read them through
    /// [`entities`](Table::entities). A [`merge`](Table::merge) reads the entity in such a table.
    ///
    /// # Errors
    /// As for [`table`](Self::table).
    pub fn table_with<T: TableEntity>(
        &self,
        name: impl TryInto<TableName, Error: Into<Error>>,
        more: Vec<Index>,
    ) -> Result<Table<T>> {
        let table = self.view::<T>(name)?;
        let code = EntityCode::of::<T>();
        let indexes = Arc::new(self.new_indexes(table.name(), code, more));
        // A group with entities of `T` finds the indexes here.
        self.known()
            .insert(self.key(table.name(), code), Arc::clone(&indexes));
        Ok(table.with_indexes(indexes))
    }

    /// The indexes of a type, the same for all handles of the type and table.
    pub(super) fn indexes(&self, table: &TableName, code: EntityCode) -> Arc<TypeIndexes> {
        let mut known = self.known();
        let indexes = known
            .entry(self.key(table, code))
            .or_insert_with(|| Arc::new(self.new_indexes(table, code, Vec::new())));
        Arc::clone(indexes)
    }

    /// The indexes of the types that have handles of a table.
    pub(super) fn of_table(&self, table: &TableName) -> Vec<Arc<TypeIndexes>> {
        let known = self.known();
        let profile = self.store().profile();
        let of_table =
            (known.values()).filter(|indexes| profile.is_same_table(indexes.table(), table));
        of_table.cloned().collect()
    }

    fn new_indexes(&self, table: &TableName, code: EntityCode, more: Vec<Index>) -> TypeIndexes {
        let (store, options) = (Arc::clone(self.store()), self.shared.options.clone());
        TypeIndexes::new(store, table.clone(), code, more, options)
    }

    fn key(&self, table: &TableName, code: EntityCode) -> (String, TypeId) {
        (self.store().profile().table_identity(table), code.id)
    }

    pub(super) fn options(&self) -> &IndexOptions {
        &self.shared.options
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(String, TypeId), Arc<TypeIndexes>>> {
        let known = self.shared.indexes.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }
}

fn without_blobs(table: &TableName, property: &str) -> Error {
    Error::misuse(format!(
        "values of the property '{property}' in '{table}' may be in blobs: give the database a blob store (`Database::with_blobs`, feature \
         `blobs`)"
    ))
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("store", &self.shared.store)
            .finish_non_exhaustive()
    }
}
