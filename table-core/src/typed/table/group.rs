use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::handle::Shared;
use super::write::{
    delete, discriminating, insert_or_merge_at, insert_or_replace_at, must_read_first, replace,
    replace_by_merged, stored_etag,
};
use super::{KeyOf, PartitionIn, PlainTable};
use crate::manifest::{IndexDefinition, WriteTarget};
use crate::model::{ETag, Entity, IfMatch, Key};
use crate::store::{Error, GroupTransaction, Operation, PlainWrite, Result, Written};
use crate::typed::{EntityPatch, FromEntity, Schema, TableEntity};

/// A group transaction: writes to entities of any types in one partition of the table, all or none. [`PlainTable::group`]
/// creates it.
///
/// A method that adds a write fails if the write cannot be in the group. The error has the index of the write, and the
/// group is unchanged.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # let (employees, ken) = (employees().await?, ken());
/// let sales = Employee::partition("Sales")?;
/// let mut group = employees.group(sales);
/// group.insert(&ken)?;
/// group.insert(&Employee { id: 224, name: "Rob".into(), ..ken })?;
/// assert_eq!(group.commit().await?.len(), 2);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is written until `commit`"]
pub struct PlainGroup<T> {
    table: PlainTable<T>,
    group: GroupTransaction,
    /// The type of each write's entity, if the write says so.
    types: Vec<Option<&'static Schema>>,
    /// Checks of stored entities before the commit.
    checks: Vec<Check>,
    /// Writes that are made of stored entities before the commit. Until then a merge of no properties has their place in the group.
    /// Never locked: closures need not be `Sync`, and the group is with the mutex.
    updates: Mutex<Vec<Update>>,
}

/// A write that is made of the stored entity.
struct Update {
    /// The index of the write.
    index: usize,
    make: Make,
}

/// Makes the write of the stored entity.
type Make = Box<dyn FnOnce(&Shared, Option<Entity>) -> Result<Operation> + Send>;

/// A check that the stored entity of a write has a schema that the write may change or replace.
#[derive(Clone, Copy)]
struct Check {
    /// The index of the write.
    index: usize,
    schema: &'static Schema,
    /// Whether the write replaces the entity. Otherwise the write merges.
    replaces: bool,
}

/// How a write is sent after its stored entity was read.
enum CheckedWrite {
    /// On the condition that the entity is in this version, or is absent.
    IfVersion(Option<ETag>),
    /// As this other operation.
    As(Operation),
}

impl Check {
    /// The check that a write of an entity of this type needs before the group is sent; `None` if it needs none.
    fn of(index: usize, schema: &'static Schema, operation: &Operation) -> Option<Self> {
        let (must_read, replaces) = match operation {
            Operation::Insert(_) | Operation::Delete(..) => (false, true),
            Operation::InsertOrReplace(_) => (schema.may_be_newer(), true),
            Operation::Replace(_, version) => {
                (*version == IfMatch::Any && schema.may_be_newer(), true)
            }
            Operation::InsertOrMerge(_) => {
                let must_read =
                    schema.may_be_newer() || schema.has_split() || schema.expiry.is_some();
                (must_read, false)
            }
            Operation::Merge(_, version) => (must_read_first(schema, version), false),
        };
        must_read.then_some(Self {
            index,
            schema,
            replaces,
        })
    }
}

impl Shared {
    /// Reads the stored entity of an insert-or-merge and decides how the write is sent. 1 request.
    async fn check_insert_or_merge(
        &self,
        schema: &'static Schema,
        over: &Entity,
    ) -> Result<CheckedWrite> {
        let select = (!schema.has_split()).then(|| discriminating(schema));
        let Some(stored) = self
            .store
            .get(&self.name, over.key(), select.as_ref())
            .await?
        else {
            return Ok(CheckedWrite::IfVersion(None));
        };
        // Nothing of an entity that is due may come back.
        if !self.extra_rows.hidden
            && schema
                .merge_base(&stored, self.store.context().now())?
                .is_none()
        {
            return Ok(CheckedWrite::As(Operation::Replace(
                over.clone(),
                stored.version()?,
            )));
        }
        if schema.has_split() {
            return replace_by_merged(schema, &stored, over).map(CheckedWrite::As);
        }
        schema.check_patchable(&stored)?;
        stored_etag(&stored).map(|etag| CheckedWrite::IfVersion(Some(etag)))
    }
}

impl<T: FromEntity> PlainTable<T> {
    /// Creates an empty group transaction on a partition. Sends no request.
    pub fn group(&self, partition: impl PartitionIn<T>) -> PlainGroup<T> {
        let partition = partition.partition_key().clone();
        let group = GroupTransaction::new(partition, self.store().profile());
        PlainGroup {
            table: self.clone(),
            group,
            types: Vec::new(),
            checks: Vec::new(),
            updates: Mutex::default(),
        }
    }
}

/// Every method that adds a write fails if the entity is in another partition, is in the group already, or has declared
/// indexes (see [`PlainTable::ignoring_indexes`]), or if a limit of the store is exceeded: 100 operations and 4 MiB on Azure Table
/// Storage.
impl<T: FromEntity> PlainGroup<T> {
    /// Adds an [`insert`](PlainTable::insert).
    ///
    /// # Errors
    /// Fails if a key or value cannot be stored, and for the reasons above.
    pub fn insert<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add_typed::<E>(entity.to_entity().map(Operation::Insert))
    }

    /// Adds an [`upsert`](PlainTable::upsert). For a type with a `type` or a `version`, `commit` sends 1 more request.
    ///
    /// # Errors
    /// Returns the errors of [`insert`](Self::insert).
    pub fn upsert<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add_typed::<E>(entity.to_entity().map(Operation::InsertOrReplace))
    }

    /// Adds an [`insert_or_merge`](PlainTable::insert_or_merge). For a type with a `type`, a `version`, a split field or an expiry, `commit`
    /// sends 1 more request.
    ///
    /// # Errors
    /// Returns the errors of [`insert`](Self::insert).
    pub fn insert_or_merge<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add_typed::<E>(entity.to_entity().map(Operation::InsertOrMerge))
    }

    /// Adds a [`replace`](PlainTable::replace) on the condition of the entity's `#[etag]` field.
    ///
    /// # Errors
    /// Fails if the value has no ETag; also returns the errors of [`insert`](Self::insert).
    pub fn replace<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add_typed::<E>(
            entity
                .own_version()
                .and_then(|version| replace(entity, version.into())),
        )
    }

    /// Adds a [`replace_if`](PlainTable::replace_if). With [`IfMatch::Any`] it has the cost of [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// Returns the errors of [`insert`](Self::insert).
    pub fn replace_if<E: TableEntity>(
        &mut self,
        entity: &E,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        self.add_typed::<E>(replace(entity, version.into()))
    }

    /// Adds a [`merge`](PlainTable::merge). `commit` sends 1 more request for a type in schema version 2 or later, and, with
    /// [`IfMatch::Any`], for a type with a `type` or a `version`.
    ///
    /// # Errors
    /// Fails if the patch sets no field; also returns the errors of [`insert`](Self::insert).
    pub fn merge<P: EntityPatch>(
        &mut self,
        key: impl KeyOf<P::Entity>,
        patch: &P,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        let patch = patch.to_entity(key.into_key());
        self.add_typed::<P::Entity>(patch.map(|patch| Operation::Merge(patch, version.into())))
    }

    /// Adds an [`update`](PlainTable::update): `commit` reads the entity, calls `change`, and replaces the entity in the version that it has
    /// read. Keeps the properties that the type does not have. `commit` sends 1 more request, and makes one attempt.
    ///
    /// # Errors
    /// Returns the errors of [`insert`](Self::insert). `commit` fails if the entity does not exist, if `change` fails or changes the key, or
    /// if another writer changes the entity in between.
    pub fn update<E: TableEntity>(
        &mut self,
        key: impl KeyOf<E>,
        change: impl FnOnce(&mut E) -> Result<()> + Send + 'static,
    ) -> Result<&mut Self> {
        let change = move |row: &Entity| {
            let mut value = E::from_entity(row.clone())?;
            change(&mut value)?;
            E::SCHEMA.updated(row, value.to_entity()?)
        };
        self.update_row(E::SCHEMA, key.into_key(), change)
    }

    /// Adds a change of the row of an entity of this type: `commit` reads the row, and replaces it in the version that was read.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    #[doc(hidden)]
    pub fn update_row(
        &mut self,
        schema: &'static Schema,
        key: Key,
        change: impl FnOnce(&Entity) -> Result<Entity> + Send + 'static,
    ) -> Result<&mut Self> {
        let index = self.len();
        let placeholder = schema
            .check_one_row()
            .map(|()| Operation::Merge(key.clone().into(), IfMatch::Any));
        self.add_operation(placeholder, Some(schema), schema.indexes.first())?;
        let make: Make = Box::new(move |shared, row| {
            let row = row.filter(|row| !shared.hides_row_of(schema, row));
            let row = row.ok_or_else(|| shared.not_found(&key))?;
            Ok(Operation::Replace(change(&row)?, row.version()?))
        });
        self.updates
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Update { index, make });
        Ok(self)
    }

    /// Adds a write of an entity of this type.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    #[doc(hidden)]
    pub fn push_typed(
        &mut self,
        schema: &'static Schema,
        operation: Operation,
    ) -> Result<&mut Self> {
        let check = Check::of(self.len(), schema, &operation);
        self.add_operation(Ok(operation), Some(schema), schema.indexes.first())?;
        self.checks.extend(check);
        Ok(self)
    }

    /// Adds a [`delete`](PlainTable::delete) of an entity of any type.
    ///
    /// # Errors
    /// Returns the errors of [`insert`](Self::insert).
    pub fn delete(
        &mut self,
        key: impl Into<Key>,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        self.add_untyped(Operation::Delete(key.into(), version.into()))
    }

    /// Adds a [`delete_entity`](PlainTable::delete_entity).
    ///
    /// # Errors
    /// Returns the errors of [`replace`](Self::replace).
    pub fn delete_entity<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.add_typed::<E>(delete(entity))
    }

    /// Adds an operation on an untyped entity.
    ///
    /// # Errors
    /// Returns the errors of [`insert`](Self::insert).
    pub fn push(&mut self, operation: Operation) -> Result<&mut Self> {
        self.add_untyped(operation)
    }

    /// Returns the number of writes.
    pub const fn len(&self) -> usize {
        self.group.len()
    }

    /// Whether there are no writes.
    pub const fn is_empty(&self) -> bool {
        self.group.is_empty()
    }

    /// Commits the writes, all or none. Returns the answers in the order of the writes.
    ///
    /// 1 request, and before it 1 request for each of the following writes. They read the stored entities, at most
    /// [`with_concurrency`](PlainTable::with_concurrency) at once. The writes are then conditional on the versions read.
    ///
    /// - An [`update`](Self::update).
    /// - A merge of a type in schema version 2 or later.
    /// - An unconditional write of a type with a `type` or a `version`.
    /// - An [`insert_or_merge`](Self::insert_or_merge) of a type with a split field.
    /// - If the manifest has indexes: a write that does not say its entity's type, that is, a
    ///   [`delete`](Self::delete) or a [pushed](Self::push) operation.
    ///
    /// If the future is dropped before the answer, the group has taken effect as a whole or not at all.
    ///
    /// # Errors
    /// Fails if the group is empty or exceeds a limit of the store, or if an entity has an index in the manifest (see
    /// [`PlainTable::ignoring_indexes`]). If an operation fails, returns its error with its index. In all cases nothing was
    /// written, unless the error is ambiguous.
    pub async fn commit(mut self) -> Result<Vec<Written>> {
        self.register().await?;
        let plain = self.table.shared().plain_write().await?;
        if let Some(plain) = &plain {
            // The checks that send no request come before the reads of stored entities.
            self.check_types(plain)?;
            self.check_stored(plain).await?;
        }
        self.check_schemas().await?;
        self.make_updates().await?;
        self.table
            .store()
            .transact(self.table.name(), self.group)
            .await
    }

    /// Adds the types of the group that expire to the manifest.
    async fn register(&self) -> Result<()> {
        let mut registered: Vec<&'static Schema> = Vec::new();
        for schema in self
            .types
            .iter()
            .flatten()
            .copied()
            .filter(|schema| schema.expiry.is_some())
        {
            if !registered.iter().any(|known| std::ptr::eq(*known, schema)) {
                self.table.shared().register(schema).await?;
                registered.push(schema);
            }
        }
        Ok(())
    }

    /// Checks the schemas of stored entities, and makes the writes conditional on the versions that were checked.
    async fn check_schemas(&mut self) -> Result<()> {
        let (shared, operations) = (self.table.shared(), self.group.operations());
        let checks = stream::iter(self.checks.clone()).map(|check| async move {
            let Check {
                index,
                schema,
                replaces,
            } = check;
            let operation = &operations[index];
            let key = operation.key();
            let read = match (operation, operation.if_match()) {
                (Operation::InsertOrMerge(over), _) => {
                    shared.check_insert_or_merge(schema, over).await
                }
                (_, Some(version)) if !replaces => shared
                    .check_schema(schema, key, version)
                    .await
                    .map(|etag| CheckedWrite::IfVersion(Some(etag))),
                (_, Some(_)) => match shared.replaceable_version(schema, key).await {
                    Ok(None) => Err(shared.not_found(key)),
                    read => read.map(CheckedWrite::IfVersion),
                },
                (_, None) => shared
                    .replaceable_version(schema, key)
                    .await
                    .map(CheckedWrite::IfVersion),
            };
            read.map(|checked| (check, checked))
                .map_err(|error| Error::in_transaction(index, error))
        });
        let read: Vec<_> = checks.buffered(shared.concurrency).try_collect().await?;
        for (
            Check {
                index, replaces, ..
            },
            checked,
        ) in read
        {
            match checked {
                CheckedWrite::IfVersion(etag) => self.make_conditional(index, replaces, etag),
                CheckedWrite::As(operation) => self.group.operations_mut()[index] = operation,
            }
        }
        Ok(())
    }

    /// Reads the entities of updates, and makes the writes.
    async fn make_updates(&mut self) -> Result<()> {
        let updates = self
            .updates
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let updates = std::mem::take(updates);
        let (shared, operations) = (self.table.shared(), self.group.operations());
        let reads = stream::iter(updates).map(|Update { index, make }| async move {
            let row = shared
                .store
                .get(&shared.name, operations[index].key(), None)
                .await;
            let made = row.and_then(|row| make(shared, row));
            made.map(|made| (index, made))
                .map_err(|error| Error::in_transaction(index, error))
        });
        let made: Vec<_> = reads.buffered(shared.concurrency).try_collect().await?;
        for (index, operation) in made {
            self.group.operations_mut()[index] = operation;
        }
        Ok(())
    }

    /// Refuses writes whose entities have an index or another layout in the manifest, as far as type or properties of the write show it.
    fn check_types(&self, plain: &PlainWrite) -> Result<()> {
        let (shared, manifest) = (self.table.shared(), plain.manifest());
        if manifest.indexes.is_empty() && manifest.types.is_empty() {
            return Ok(());
        }
        for (index, (operation, schema)) in
            self.group.operations().iter().zip(&self.types).enumerate()
        {
            let of = schema.map(Schema::entity_type);
            let in_layout =
                schema.map_or(Ok(()), |schema| manifest.check_type(&shared.name, schema));
            let target = match (&of, operation.entity()) {
                (Some(of), _) => WriteTarget::Type(of, operation.key()),
                (None, Some(entity)) => WriteTarget::Entity(entity),
                // `check_stored` decides by the stored entity.
                (None, None) => continue,
            };
            let checked =
                in_layout.and_then(|()| shared.check_plain(plain, target, operation.kind().name()));
            checked.map_err(|error| Error::in_transaction(index, error))?;
        }
        Ok(())
    }

    /// Reads the stored entities of untyped writes, refuses writes whose stored entity has an index in the manifest, and
    /// makes the other writes conditional on the versions that were read.
    async fn check_stored(&mut self, plain: &PlainWrite) -> Result<()> {
        let (shared, operations) = (self.table.shared(), self.group.operations());
        let may_have_index = |operation: &Operation| {
            let has_index = plain
                .manifest()
                .index_of(WriteTarget::Key(operation.key()))
                .is_some();
            has_index && !matches!(operation, Operation::Insert(_))
        };
        let untyped =
            (0..self.len()).filter(|&n| self.types[n].is_none() && may_have_index(&operations[n]));
        let reads = stream::iter(untyped.collect::<Vec<_>>()).map(|index| async move {
            let (key, operation) = (operations[index].key(), operations[index].kind().name());
            let stored = shared.store.get(&shared.name, key, None).await;
            let stored = stored.and_then(|stored| match stored {
                None => Ok(None),
                Some(row) => shared
                    .check_plain(plain, WriteTarget::Entity(&row), operation)
                    .and_then(|()| stored_etag(&row).map(Some)),
            });
            stored
                .map(|etag| (index, etag))
                .map_err(|error| Error::in_transaction(index, error))
        });
        let read: Vec<_> = reads.buffered(shared.concurrency).try_collect().await?;
        for (index, etag) in read {
            let operation = &self.group.operations()[index];
            let is_unconditional = operation
                .if_match()
                .is_none_or(|version| *version == IfMatch::Any);
            // A replace, merge or delete of a missing entity fails anyway.
            if is_unconditional && (etag.is_some() || operation.if_match().is_none()) {
                let replaces = matches!(operation, Operation::InsertOrReplace(_));
                self.make_conditional(index, replaces, etag);
            }
        }
        Ok(())
    }

    /// Makes a write conditional on the version that was read, or on the absence of the entity.
    fn make_conditional(&mut self, index: usize, replaces: bool, stored: Option<ETag>) {
        let operation = &mut self.group.operations_mut()[index];
        match (operation.if_match_mut(), stored) {
            (Some(version), Some(etag)) => *version = IfMatch::Exactly(etag),
            (_, etag) => {
                if let Some(entity) = operation.entity().cloned() {
                    *operation = if replaces {
                        insert_or_replace_at(entity, etag)
                    } else {
                        insert_or_merge_at(entity, etag)
                    };
                }
            }
        }
    }

    pub(super) fn add_typed<E: TableEntity>(
        &mut self,
        operation: Result<Operation>,
    ) -> Result<&mut Self> {
        match operation {
            Ok(operation) => self.push_typed(E::SCHEMA, operation),
            Err(error) => Err(Error::in_transaction(self.len(), error)),
        }
    }

    fn add_untyped(&mut self, operation: Operation) -> Result<&mut Self> {
        let index = T::requirements().indexes.first().copied();
        self.add_operation(Ok(operation), None, index)
    }

    fn add_operation(
        &mut self,
        operation: Result<Operation>,
        schema: Option<&'static Schema>,
        index: Option<&IndexDefinition>,
    ) -> Result<&mut Self> {
        let place = self.len();
        let added = operation.and_then(|operation| {
            self.table
                .shared()
                .check_no_index(index, operation.kind().name())?;
            self.group.push(operation)
        });
        added.map_err(|error| Error::in_transaction(place, error))?;
        self.types.push(schema);
        Ok(self)
    }
}

impl<T> fmt::Debug for PlainGroup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainGroup")
            .field("table", self.table.name())
            .field("group", &self.group)
            .finish()
    }
}
