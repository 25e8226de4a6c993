use std::fmt;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::merge::looks;
use super::write::{bound, bound_replace, delete, replace};
use super::{KeyOf, PartitionIn, Table};
use crate::model::{IfMatch, Key};
use crate::store::{Error, GroupTransaction, Operation, Result, Written};
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
        TableGroup { table: self.clone(), group, checks: Vec::new() }
    }
}

/// Each method that adds fails if the entity is in another partition, is in the group already, has
/// declared indexes (see [`Table::ignoring_indexes`]), or exceeds a limit of the store: 100 operations
/// and 4 MiB on Azure Table Storage.
impl<T: FromEntity> TableGroup<T> {
    /// Adds an [`insert`](Table::insert).
    ///
    /// # Errors
    /// See above; a key or a value cannot be stored.
    pub fn insert<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add::<E>(entity.to_entity().map(Operation::Insert))
    }

    /// Adds an [`upsert`](Table::upsert). For a type that has a `type` or a `version`, `commit` costs
    /// a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn upsert<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        let (index, schema) = (self.len(), E::SCHEMA);
        self.add::<E>(entity.to_entity().map(Operation::InsertOrReplace))?;
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
        self.add::<E>(entity.to_entity().map(Operation::InsertOrMerge))?;
        self.checks.extend(schema.may_be_newer().then_some(Check { index, schema, replaces: false }));
        Ok(self)
    }

    /// Adds a [`replace`](Table::replace) in the version of the entity's `#[etag]` field.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the value carries no ETag.
    pub fn replace<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add::<E>(entity.own_version().and_then(|version| replace(entity, version.into())))
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
        self.add::<E>(replace(entity, version))?;
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
        self.add::<P::Entity>(entity.map(|entity| Operation::Merge(entity, version)))?;
        self.checks.extend(looks.then_some(Check { index, schema, replaces: false }));
        Ok(self)
    }

    /// Adds a [`delete`](Table::delete) of an entity of any type.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn delete(&mut self, key: impl Into<Key>, version: impl Into<IfMatch>) -> Result<&mut Self> {
        self.add::<T>(Ok(Operation::Delete(key.into(), version.into())))
    }

    /// Adds a [`delete_entity`](Table::delete_entity).
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn delete_entity<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add::<E>(delete(entity))
    }

    /// Adds an operation on an entity as a bag of properties.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn push(&mut self, operation: Operation) -> Result<&mut Self> {
        self.add::<T>(Ok(operation))
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
    /// # Errors
    /// The error of the first operation that failed, with its index; nothing was written. The group is
    /// empty, or too large in the exact form that is sent.
    pub async fn commit(mut self) -> Result<Vec<Written>> {
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
            let operation = &mut self.group.operations_mut()[index];
            match (operation.if_match_mut(), etag) {
                (Some(version), Some(etag)) => *version = IfMatch::Exactly(etag),
                (_, etag) => {
                    if let Some(entity) = operation.entity().cloned() {
                        *operation = if replaces { bound_replace(entity, etag) } else { bound(entity, etag) };
                    }
                }
            }
        }
        Ok(())
    }

    fn add<E: FromEntity>(&mut self, operation: Result<Operation>) -> Result<&mut Self> {
        let index = self.len();
        let added = operation.and_then(|operation| {
            self.table.shared().check_indexes(&E::indexes(), operation.kind().name())?;
            self.group.push(operation)
        });
        added.map_err(|error| Error::in_transaction(index, error))?;
        Ok(self)
    }
}

impl<T> fmt::Debug for TableGroup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableGroup").field("table", self.table.name()).field("group", &self.group).finish()
    }
}
