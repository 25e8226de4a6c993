use std::fmt;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::merge::looks;
use super::versioned::without_etag;
use super::write::{bound, bound_replace, delete, replace};
use super::{KeyOf, PartitionIn, Table};
use crate::manifest::Touched;
use crate::model::{ETag, IfMatch, Key};
use crate::store::{Error, GroupTransaction, Operation, PlainWrite, Result, Written};
use crate::typed::{EntityPatch, FromEntity, Schema, TableEntity};

/// A group transaction: writes to entities of any types in one partition of the table, all or none.
///
/// Made by [`Table::group`]. A write that cannot be in the group is reported when it is added, with
/// its index, and leaves the group as it was.
///
/// ```
/// # use table_core::memory::MemoryStore;
/// # use table_core::model::ETag;
/// # use table_core::typed::{Table, TableEntity};
/// # #[derive(Debug, TableEntity)]
/// # #[entity(rename_all = "PascalCase")]
/// # struct Employee {
/// #     #[partition_key] department: String,
/// #     #[row_key(format = "empid_{:06}")] id: u32,
/// #     name: String,
/// #     age: Option<i32>,
/// #     #[etag] etag: Option<ETag>,
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
/// # employees.create_if_missing().await?;
/// # let ken = Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None };
/// let sales = Employee::partition("Sales")?;
/// let mut group = employees.group(sales);
/// group.insert(&ken)?;
/// group.insert(&Employee { id: 224, name: "Rob".into(), ..ken })?;
/// assert_eq!(group.commit().await?.len(), 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is written until `commit`"]
pub struct TableGroup<T> {
    table: Table<T>,
    group: GroupTransaction,
    /// The type of each write's entity, if it tells.
    types: Vec<Option<&'static Schema>>,
    /// Writes that must not cross types or schema versions.
    checks: Vec<Check>,
}

/// A write, by its index, and the schema that its entity must be stored in; in no later version, of one that replaces.
#[derive(Clone, Copy)]
struct Check {
    index: usize,
    schema: &'static Schema,
    replaces: bool,
}

impl<T: FromEntity> Table<T> {
    /// An empty group transaction on a partition. No request.
    pub fn group(&self, partition: impl PartitionIn<T>) -> TableGroup<T> {
        let partition = partition.partition_key().clone();
        let group = GroupTransaction::new(partition, self.store().profile());
        TableGroup { table: self.clone(), group, types: Vec::new(), checks: Vec::new() }
    }
}

/// Each method that adds fails if the entity is in another partition, is in the group already, has
/// declared indexes (see [`Table::unmanaged`]), or exceeds a limit of the store: 100 operations
/// and 4 MiB on Azure Table Storage.
impl<T: FromEntity> TableGroup<T> {
    /// Adds an [`insert`](Table::insert).
    ///
    /// # Errors
    /// See above; a key or a value cannot be stored.
    pub fn insert<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add_typed::<E>(entity.to_entity().map(Operation::Insert))
    }

    /// Adds an [`upsert`](Table::upsert). For a type that has a `type` or a `version`, `commit` costs
    /// a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn upsert<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        let (index, schema) = (self.len(), E::SCHEMA);
        self.add_typed::<E>(entity.to_entity().map(Operation::InsertOrReplace))?;
        self.checks.extend(schema.may_be_newer().then_some(Check { index, schema, replaces: true }));
        Ok(self)
    }

    /// Adds an [`insert_or_merge`](Table::insert_or_merge). For a type that has a `type` or a `version`, `commit` costs
    /// a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_or_merge<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        let (index, schema) = (self.len(), E::SCHEMA);
        self.add_typed::<E>(entity.to_entity().map(Operation::InsertOrMerge))?;
        self.checks.extend(schema.may_be_newer().then_some(Check { index, schema, replaces: false }));
        Ok(self)
    }

    /// Adds a [`replace`](Table::replace) in the version of the entity's `#[etag]` field.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the value carries no ETag.
    pub fn replace<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add_typed::<E>(entity.own_version().and_then(|version| replace(entity, version.into())))
    }

    /// Adds a [`replace_if`](Table::replace_if). Under [`IfMatch::Any`], as [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_if<E: TableEntity>(
        &mut self,
        entity: &E,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        let (index, schema, version) = (self.len(), E::SCHEMA, version.into());
        let looks = version == IfMatch::Any && schema.may_be_newer();
        self.add_typed::<E>(replace(entity, version))?;
        self.checks.extend(looks.then_some(Check { index, schema, replaces: true }));
        Ok(self)
    }

    /// Adds a [`merge`](Table::merge). For a type in schema version 2 or later, and under [`IfMatch::Any`] for one that has a
    /// `type` or a `version`, `commit` costs a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the patch sets nothing.
    pub fn merge<P: EntityPatch>(
        &mut self,
        key: impl KeyOf<P::Entity>,
        patch: &P,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        let (index, schema, version) = (self.len(), P::Entity::SCHEMA, version.into());
        let (entity, looks) = (patch.to_entity(key.into_key()), looks(schema, &version));
        self.add_typed::<P::Entity>(entity.map(|entity| Operation::Merge(entity, version)))?;
        self.checks.extend(looks.then_some(Check { index, schema, replaces: false }));
        Ok(self)
    }

    /// Adds a [`delete`](Table::delete) of an entity of any type.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn delete(&mut self, key: impl Into<Key>, version: impl Into<IfMatch>) -> Result<&mut Self> {
        self.add::<T>(Ok(Operation::Delete(key.into(), version.into())), None)
    }

    /// Adds a [`delete_entity`](Table::delete_entity).
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn delete_entity<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add_typed::<E>(delete(entity))
    }

    /// Adds an operation on an entity as a bag of properties.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn push(&mut self, operation: Operation) -> Result<&mut Self> {
        self.add::<T>(Ok(operation), None)
    }

    /// How many writes there are.
    pub const fn len(&self) -> usize {
        self.group.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.group.is_empty()
    }

    /// Writes all or nothing; answers in the order of the group.
    ///
    /// One request, and before it one for each merge of a type in schema version 2 or later, and for each unconditional write
    /// of a type that has a `type` or a `version`, to read what is there, as many at once as
    /// [`with_concurrency`](Table::with_concurrency) allows. Dropped before the answer, the group is done or undone
    /// as a whole.
    ///
    /// Where the manifest of the table names indexes, one more for each write that does not tell which type its entity is of: a
    /// [`delete`](Self::delete), what is [pushed](Self::push). It is bound to what was read.
    ///
    /// # Errors
    /// An entity is one that an index of the manifest is of (see [`Table::unmanaged`]). The error of the first operation that failed, with its index; nothing was written. The group is
    /// empty, or too large in the exact form that is sent.
    pub async fn commit(mut self) -> Result<Vec<Written>> {
        let rests_on = self.table.shared().plain_write().await?;
        if let Some(rests_on) = &rests_on {
            self.check_types(rests_on)?;
            self.check_stored(rests_on).await?;
        }
        self.check_schemas().await?;
        self.table.store().transact(self.table.name(), self.group).await
    }

    /// Binds the writes to the versions in which the schema was checked.
    async fn check_schemas(&mut self) -> Result<()> {
        let (shared, operations) = (self.table.shared(), self.group.operations());
        let checks = stream::iter(self.checks.clone()).map(|check| async move {
            let Check { index, schema, replaces } = check;
            let key = operations[index].key();
            let read = match operations[index].if_match() {
                Some(version) if !replaces => shared.check_schema(schema, key, version).await.map(Some),
                Some(_) => match shared.replaceable_in(schema, key).await {
                    Ok(None) => Err(shared.not_found(key)),
                    read => read,
                },
                None if replaces => shared.replaceable_in(schema, key).await,
                None => shared.stored_in(schema, key).await,
            };
            read.map(|etag| (check, etag)).map_err(|error| Error::in_transaction(index, error))
        });
        let read: Vec<_> = checks.buffered(shared.concurrency).try_collect().await?;
        for (Check { index, replaces, .. }, etag) in read {
            self.bind(index, replaces, etag);
        }
        Ok(())
    }

    /// Refuses what an index of the manifest is of, as far as the writes tell.
    fn check_types(&self, rests_on: &PlainWrite) -> Result<()> {
        if rests_on.manifest().indexes.is_empty() {
            return Ok(());
        }
        for (index, (operation, schema)) in self.group.operations().iter().zip(&self.types).enumerate() {
            let of = schema.map(Schema::entity_type);
            let touched = match (&of, operation.entity()) {
                (Some(of), _) => Touched::Type(of, operation.key()),
                // Of others what is stored tells the rest.
                (None, Some(entity)) => Touched::Entity(entity),
                (None, None) => continue,
            };
            let checked = self.table.shared().check_plain(rests_on, touched, operation.kind().name());
            checked.map_err(|error| Error::in_transaction(index, error))?;
        }
        Ok(())
    }

    /// Refuses to overwrite or remove what an index of the manifest is of, where only what is stored tells, and binds such
    /// writes to it.
    async fn check_stored(&mut self, rests_on: &PlainWrite) -> Result<()> {
        let (shared, operations) = (self.table.shared(), self.group.operations());
        let is_open = |operation: &Operation| {
            let touches = rests_on.manifest().index_of(Touched::Key(operation.key())).is_some();
            touches && !matches!(operation, Operation::Insert(_))
        };
        let open = (0..self.len()).filter(|&n| self.types[n].is_none() && is_open(&operations[n]));
        let reads = stream::iter(open.collect::<Vec<_>>()).map(|index| async move {
            let (key, what) = (operations[index].key(), operations[index].kind().name());
            let stored = shared.store.get(&shared.name, key, None).await;
            let stored = stored.and_then(|stored| match stored {
                None => Ok(None),
                Some(row) => shared
                    .check_plain(rests_on, Touched::Entity(&row), what)
                    .and_then(|()| row.etag().cloned().map(Some).ok_or_else(|| without_etag(key))),
            });
            stored.map(|etag| (index, etag)).map_err(|error| Error::in_transaction(index, error))
        });
        let read: Vec<_> = reads.buffered(shared.concurrency).try_collect().await?;
        for (index, etag) in read {
            let operation = &self.group.operations()[index];
            let unbound = operation.if_match().is_none_or(|version| *version == IfMatch::Any);
            // What is missing and conditioned fails by itself.
            if unbound && (etag.is_some() || operation.if_match().is_none()) {
                let replaces = matches!(operation, Operation::InsertOrReplace(_));
                self.bind(index, replaces, etag);
            }
        }
        Ok(())
    }

    /// Binds a write to the version that was read, or to there being nothing.
    fn bind(&mut self, index: usize, replaces: bool, stored: Option<ETag>) {
        let operation = &mut self.group.operations_mut()[index];
        match (operation.if_match_mut(), stored) {
            (Some(version), Some(etag)) => *version = IfMatch::Exactly(etag),
            (_, etag) => {
                if let Some(entity) = operation.entity().cloned() {
                    *operation = if replaces { bound_replace(entity, etag) } else { bound(entity, etag) };
                }
            }
        }
    }

    fn add_typed<E: TableEntity>(&mut self, operation: Result<Operation>) -> Result<&mut Self> {
        self.add::<E>(operation, Some(E::SCHEMA))
    }

    fn add<E: FromEntity>(
        &mut self,
        operation: Result<Operation>,
        schema: Option<&'static Schema>,
    ) -> Result<&mut Self> {
        let index = self.len();
        let added = operation.and_then(|operation| {
            self.table.shared().check_indexes(&E::indexes(), operation.kind().name())?;
            self.group.push(operation)
        });
        added.map_err(|error| Error::in_transaction(index, error))?;
        self.types.push(schema);
        Ok(self)
    }
}

impl<T> fmt::Debug for TableGroup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableGroup").field("table", self.table.name()).field("group", &self.group).finish()
    }
}
