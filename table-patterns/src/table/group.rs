//! [`Group`]: changes in one partition, of entities of any types, written together.

use std::any::TypeId;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch, Key, PartitionKey};
use table_core::store::{Error, Operation, Result, TableStoreExt as _, Written};
use table_core::typed::load::{LoadedRow, RowLoader};
use table_core::typed::{EntityPatch, FromEntity, KeyOf, PartitionIn, Schema, TableEntity};

use super::Table;
use super::indexes::{EntityCode, TypeIndexes};
use crate::index::{IndexedEntities, Stored};
use crate::journal::Change;
use crate::large_values::{EntityWriter, GroupBlobs};

/// Changes of several entities of one partition, committed together with their entries: an order, its lines and the stock.
///
/// Created by [`Table::group`]. The entities may be of any types of the table. Each method that adds a change fails if the entity is in
/// another partition than the group.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # use table_patterns::prelude::*;
/// # #[derive(Clone, Debug, TableEntity)]
/// # #[entity(type = "Order", rename_all = "PascalCase")]
/// # #[index(state, row_key = "state_{state}_{id:06}")]
/// # struct Order { #[partition_key] customer: String, #[row_key(format = "order_{:06}")] id: u32, state: String }
/// # #[derive(Clone, Debug, TableEntity)]
/// # #[entity(type = "Ticket", rename_all = "PascalCase")]
/// # #[index(subject, row_key = "subject_{subject}", unique = "partition")]
/// # struct Ticket { #[partition_key] customer: String, #[row_key(format = "ticket_{:06}")] id: u32, subject: String }
/// # #[derive(Clone, Debug, TableEntity)]
/// # #[entity(type = "Stock", rename_all = "PascalCase")]
/// # struct Stock { #[partition_key] customer: String, #[row_key(format = "stock_{}")] item: String, left: i32 }
/// # let db = Database::new(MemoryStore::new());
/// let (orders, tickets) = (db.table::<Order>("Shop")?, db.table::<Ticket>("Shop")?);
/// # orders.declare().await?;
/// # tickets.declare().await?;
/// # let order = Order { customer: "contoso".into(), id: 1, state: "open".into() };
/// # let ticket = Ticket { customer: "contoso".into(), id: 7, subject: "late".into() };
/// # let stock = Stock { customer: "contoso".into(), item: "bolt".into(), left: 5 };
/// let mut group = orders.group(Order::partition("contoso")?);
/// group.insert(&order)?.insert(&ticket)?.insert(&stock)?;
/// group.commit().await?; // 1 request: three entities and their entries
/// assert_eq!(tickets.by(Ticket::by_subject("contoso").subject("late")).count().await?, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is written until `commit`"]
pub struct Group<T> {
    table: Table<T>,
    partition: PartitionKey,
    /// In a lock only so that the group can be shared between threads, which the closures in it cannot.
    steps: Mutex<Vec<Step>>,
    /// The types that the table can keep as rows.
    checked: Vec<TypeId>,
    /// The writers of the types with large fields: the table's own type, if it has such fields, and the types of the changes.
    large: Vec<LargeType>,
}

/// A type with large fields in a group.
struct LargeType {
    /// `None` for the table's own type, whose rows an operation on any row may remove.
    id: Option<TypeId>,
    writer: Arc<EntityWriter>,
    loader: Arc<dyn RowLoader>,
}

/// A change of the group.
enum Step {
    /// An operation on an entity of a type.
    Write(EntityCode, Operation),
    /// An operation on any row.
    Push(Operation),
    /// A change whose old value has been read; without a type, of any row.
    Known(Option<EntityCode>, Change),
    /// A change of the row that `commit` reads.
    Update(EntityCode, Key, ChangeOf),
}

/// Changes the row of an entity.
/// From the row as stored, and the row with its large values.
type ChangeOf = Box<dyn FnOnce(&Entity, &Entity) -> Result<Entity> + Send>;

impl Step {
    fn key(&self) -> Result<&Key> {
        match self {
            Self::Write(_, operation) | Self::Push(operation) => Ok(operation.key()),
            Self::Known(_, change) => change.key(),
            Self::Update(_, key, _) => Ok(key),
        }
    }

    /// The type of the entity; `None` for an operation on any row.
    const fn code(&self) -> Option<EntityCode> {
        match self {
            Self::Write(code, _) | Self::Update(code, ..) => Some(*code),
            Self::Known(code, _) => *code,
            Self::Push(_) => None,
        }
    }
}

impl<T: FromEntity> Table<T> {
    /// Creates an empty group of changes in a partition. No request.
    pub fn group(&self, partition: impl PartitionIn<T>) -> Group<T> {
        Group {
            table: self.clone(),
            partition: partition.partition_key().clone(),
            steps: Mutex::default(),
            checked: Vec::new(),
            large: self.large_type(None).into_iter().collect(),
        }
    }

    fn large_type(&self, id: Option<TypeId>) -> Option<LargeType> {
        let (writer, loader) = self.large().zip(self.plain().loader())?;
        let (writer, loader) = (Arc::clone(writer), Arc::clone(loader));
        Some(LargeType { id, writer, loader })
    }
}

impl<T: FromEntity> Group<T> {
    /// Adds an insert.
    ///
    /// # Errors
    /// The entity is in another partition; a key or a value cannot be stored.
    pub fn insert<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.write::<E>(Operation::Insert(entity.to_entity()?))
    }

    /// Adds an [`upsert`](Table::upsert). `commit` costs 1 request more if the type has a `type` or a `version`, or the table indexes.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn upsert<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.write::<E>(Operation::InsertOrReplace(entity.to_entity()?))
    }

    /// Adds an [`insert_or_merge`](Table::insert_or_merge). `commit` costs 1 request more, as for [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_or_merge<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.write::<E>(Operation::InsertOrMerge(entity.to_entity()?))
    }

    /// Adds a [`replace`](Table::replace) in the version of the entity's `#[etag]` field. `commit` costs 1 request more in a table with
    /// indexes.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the value has no ETag.
    pub fn replace<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        self.replace_if(entity, entity.own_version()?)
    }

    /// Adds a [`replace_if`](Table::replace_if). `commit` costs 1 request more in a table with indexes, and with [`IfMatch::Any`] as for
    /// [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_if<E: TableEntity>(
        &mut self,
        entity: &E,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        let replace = Operation::Replace(entity.to_entity()?, version.into());
        self.write::<E>(replace)
    }

    /// Adds a [`merge`](Table::merge). `commit` costs 1 request more in a table with indexes, and if [`merge`](Table::merge) reads first.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the patch sets nothing.
    pub fn merge<P: EntityPatch>(
        &mut self,
        key: impl KeyOf<P::Entity>,
        patch: &P,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        let merge = Operation::Merge(patch.to_entity(key.into_key())?, version.into());
        self.write::<P::Entity>(merge)
    }

    /// Adds an [`update`](Table::update): `commit` reads the entity, calls `change`, and replaces the entity in the version that it has
    /// read. Properties that `E` does not know stay. `commit` costs 1 request more, and makes one attempt.
    ///
    /// # Errors
    /// The entity is in another partition. `commit` fails if the entity does not exist, or if `change` fails or changes the key.
    pub fn update<E: TableEntity>(
        &mut self,
        key: impl KeyOf<E>,
        change: impl FnOnce(&mut E) -> Result<()> + Send + 'static,
    ) -> Result<&mut Self> {
        let change: ChangeOf = Box::new(move |old, whole| {
            let mut value = E::from_entity(whole.clone())?;
            change(&mut value)?;
            E::SCHEMA.updated(old, value.to_entity()?)
        });
        let code = self.code_of::<E>()?;
        self.add(Step::Update(code, key.into_key(), change))
    }

    /// Adds a delete in this version; [`IfMatch::Any`] accepts any version. `commit` costs 1 request more in a table with indexes, and if the
    /// type of the table has large fields.
    ///
    /// A delete does not name the type of its row. In the group of a table whose own type has no large fields, the blobs of a row of another
    /// type are left to a collection of blobs.
    ///
    /// # Errors
    /// The entity is in another partition.
    pub fn delete(
        &mut self,
        key: impl Into<Key>,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        self.push(Operation::Delete(key.into(), version.into()))
    }

    /// Adds a delete in the version of the entity's `#[etag]` field. `commit` costs 1 request more in a table with indexes.
    ///
    /// # Errors
    /// The entity is in another partition; the value has no ETag.
    pub fn delete_entity<E: TableEntity>(&mut self, entity: &E) -> Result<&mut Self> {
        let (key, version) = (entity.entity_key()?.into_key(), entity.own_version()?);
        self.write::<E>(Operation::Delete(key, version.into()))
    }

    /// Adds the replacement of an entity that was read, in that version. Properties that `E` does not know stay.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_stored<E: TableEntity>(
        &mut self,
        old: &Stored<E>,
        new: &E,
    ) -> Result<&mut Self> {
        let new = E::SCHEMA.updated(old.entity(), new.to_entity()?)?;
        let code = self.code_of::<E>()?;
        let change = Change::replace(old.entity().clone(), new);
        self.add(Step::Known(Some(code), change))
    }

    /// Adds the removal of an entity that was read, in that version.
    ///
    /// # Errors
    /// The entity is in another partition.
    pub fn delete_stored<E: TableEntity>(&mut self, old: &Stored<E>) -> Result<&mut Self> {
        let code = self.code_of::<E>()?;
        let change = Change::delete(old.entity().clone());
        self.add(Step::Known(Some(code), change))
    }

    /// Adds an operation on any row, such as an append to a log. `commit` costs 1 request more for each that is not an insert, in a table
    /// with indexes.
    ///
    /// # Errors
    /// The row is in another partition.
    pub fn push(&mut self, operation: Operation) -> Result<&mut Self> {
        self.add(Step::Push(operation))
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.steps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether the group has no changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes all changes and their entries in the partition atomically. Entries in other partitions follow:
    /// [`Written::pending`] says whether a worker or a sweep will write them. Returns the answers in the order of the changes.
    ///
    /// 1 request without indexes, otherwise the requests of one write: see the [`journal`](crate::journal#cost-in-requests). Before it 1 for each
    /// change whose old value must be read, with [`with_concurrency`](Table::with_concurrency) requests in parallel. For types that expire,
    /// 1 if the manifest was not read for 30 seconds, and 2 more for the first write of the type to the table.
    ///
    /// # Errors
    /// Nothing is written in these cases: a precondition failed, an entity exists already, a unique value is taken, the group is empty or
    /// exceeds a limit: 100 operations and 4 MiB on Azure Table Storage
    /// ([source](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions)).
    pub async fn commit(self) -> Result<Vec<Written>> {
        let Self {
            table,
            steps,
            partition,
            large,
            ..
        } = self;
        let steps = steps.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Each type once: a group has few types and up to a hundred changes.
        let mut types = Vec::<EntityCode>::new();
        for code in steps.iter().filter_map(Step::code) {
            if types.iter().all(|known| known.id != code.id) {
                types.push(code);
            }
        }
        if large.is_empty() {
            let entities = table.entities_of(&types).await?;
            return table.commit_rows(entities.as_ref(), partition, steps).await;
        }
        Box::pin(table.commit_large(&types, partition, steps, &large)).await
    }

    fn write<E: TableEntity>(&mut self, operation: Operation) -> Result<&mut Self> {
        let code = self.code_of::<E>()?;
        self.add(Step::Write(code, operation))
    }

    /// The type of a change, which the table must be able to keep as rows.
    fn code_of<E: TableEntity>(&mut self) -> Result<EntityCode> {
        let code = EntityCode::of::<E>();
        if !self.checked.contains(&code.id) {
            let of_type = self.table.view::<E>()?;
            self.large.extend(of_type.large_type(Some(code.id)));
            self.checked.push(code.id);
        }
        Ok(code)
    }

    fn add(&mut self, step: Step) -> Result<&mut Self> {
        let key = step.key()?;
        if key.partition() != self.partition.as_str() {
            let reason = format!(
                "{key} is not in the partition '{}' of the group",
                self.partition
            );
            return Err(Error::in_transaction(self.len(), Error::misuse(reason)));
        }
        self.steps
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .push(step);
        Ok(self)
    }
}

impl<T: FromEntity> Table<T> {
    /// The entities that maintain the indexes of a group's types; `None` if the table has no indexes.
    async fn entities_of(&self, codes: &[EntityCode]) -> Result<Option<IndexedEntities>> {
        if self.ignores_indexes() {
            return Ok(None);
        }
        let known = codes
            .iter()
            .map(|code| self.database().indexes(self.name(), *code));
        let own = self.own_indexes().cloned().into_iter();
        let (mut types, mut seen) = (Vec::<Arc<TypeIndexes>>::new(), HashSet::new());
        // A type with Rust code for its keys joins every group: an operation does not say the type of the row that it deletes.
        let with_code = self.database().of_table(self.name()).into_iter();
        let with_code = with_code.filter(|indexes| indexes.has_more());
        for indexes in own.chain(known).chain(with_code) {
            if seen.insert(indexes.code().id) {
                types.push(indexes);
            }
        }
        if types.is_empty() {
            types = self.database().of_table(self.name());
        }
        let first = types
            .iter()
            .position(|indexes| indexes.must_be_maintained());
        if first.is_none() && self.store().manifest(self.name()).await?.indexes.is_empty() {
            return Ok(None);
        }
        if types.is_empty() {
            let reason = "the table has indexes, and the group only operations on rows of types that the program has not named: create a \
                          handle of their type (`Database::table`)";
            return Err(Error::misuse(reason));
        }
        let first = types.swap_remove(first.unwrap_or(0));
        let entities = first.to_write().await?.clone();
        for other in types {
            if other.must_be_maintained() {
                // So that the journal of this handle derives the entries with the Rust code of that type, too.
                entities.set.learn(&other.to_write().await?.set);
            } else {
                // A sweep finds entities that expire by the manifest.
                self.plain().register(other.code().schema).await?;
            }
        }
        Ok(Some(entities))
    }

    async fn commit_rows(
        &self,
        entities: Option<&IndexedEntities>,
        partition: PartitionKey,
        steps: Vec<Step>,
    ) -> Result<Vec<Written>> {
        match entities {
            None => self.commit_plain(partition, steps).await,
            Some(entities) => self.commit_indexed(entities, steps).await,
        }
    }

    /// Stores the blobs of the group, writes it within the write deadline, and removes the blobs that no row refers to then.
    async fn commit_large(
        &self,
        types: &[EntityCode],
        partition: PartitionKey,
        steps: Vec<Step>,
        large: &[LargeType],
    ) -> Result<Vec<Written>> {
        let entities = self.entities_of(types).await?;
        let entities = entities.as_ref();
        let Some(first) = large.first() else {
            return self.commit_rows(entities, partition, steps).await;
        };
        check_distinct(&steps)?;
        let reads = stream::iter(steps.into_iter().enumerate()).map(|(index, step)| async move {
            self.with_old_row(entities, step, large)
                .await
                .map_err(|error| Error::in_transaction(index, error))
        });
        let read: Vec<(Step, Option<Entity>)> = reads
            .buffered(self.plain().concurrency())
            .try_collect()
            .await?;
        let mut blobs = GroupBlobs::new(&first.writer, entities);
        let mut written = Vec::new();
        for (index, (step, _)) in read.iter().enumerate() {
            if let Step::Known(Some(code), change) = step
                && let Some(of) = large_of(large, *code)
            {
                written.push((index, of, change.key()?.clone()));
            }
        }
        for (index, of, key) in written {
            let checked = blobs.check(&of.writer, &key).await;
            checked.map_err(|error| Error::in_transaction(index, error))?;
        }
        let (mut steps, mut old) = (Vec::with_capacity(read.len()), Vec::new());
        for (index, (mut step, row)) in read.into_iter().enumerate() {
            old.extend(row);
            if let Step::Known(code, change) = &mut step {
                old.extend(change.old().cloned());
                let of_type = code.and_then(|code| large_of(large, code));
                match (&mut change.new, of_type) {
                    (Some(new), Some(of)) => {
                        if let Err(error) = blobs.store(&of.writer, new).await {
                            blobs.withdraw().await;
                            return Err(Error::in_transaction(index, error));
                        }
                    }
                    (Some(new), None) => blobs.keeps(new),
                    (None, _) => {}
                }
            }
            if let Step::Push(operation) = &step
                && let Some(row) = operation.entity()
            {
                blobs.keeps(row);
            }
            steps.push(step);
        }
        old.iter().for_each(|row| blobs.replaces(row));
        // Another program may have built an index while the blobs were stored.
        let write = async {
            let now = self.entities_of(types).await?;
            self.commit_rows(now.as_ref(), partition, steps).await
        };
        blobs.commit(write).await
    }

    /// The step as a change of the row that was read, if it writes a row of a type with large fields. An operation on any row may remove such a
    /// row too: it is returned, because its blobs go with it.
    async fn with_old_row(
        &self,
        entities: Option<&IndexedEntities>,
        step: Step,
        large: &[LargeType],
    ) -> Result<(Step, Option<Entity>)> {
        let of = |code: EntityCode| large_of(large, code);
        match step {
            Step::Push(operation)
                if !matches!(operation, Operation::Insert(_) | Operation::Merge(..)) =>
            {
                if entities.is_some() {
                    let change = self.change_of(entities, Step::Push(operation)).await?;
                    return Ok((Step::Known(None, change), None));
                }
                let row = self.row_of(entities, operation.key()).await?;
                Ok(match (operation, row) {
                    // In the version that was read: another writer may give the row blobs that this group does not know.
                    (Operation::Delete(_, IfMatch::Any), Some(row)) => {
                        (Step::Known(None, Change::delete(row)), None)
                    }
                    (operation, row) => (Step::Push(operation), row),
                })
            }
            Step::Update(code, key, change) if of(code).is_some() => {
                let is_found = |row: &Entity| !self.hides(code.schema, row);
                let row = self.row_of(entities, &key).await?.filter(is_found);
                let loaded = match (row, of(code)) {
                    (Some(row), Some(of)) => of.loader.load(row, 1, &is_found).await?,
                    _ => None,
                };
                let LoadedRow { stored, whole } = loaded.ok_or_else(|| self.missing(&key))?;
                let new = change(&stored, &whole)?;
                Ok((Step::Known(Some(code), Change::replace(stored, new)), None))
            }
            Step::Write(code, _) if of(code).is_some() => {
                let change = self.change_of(entities, step).await?;
                Ok((Step::Known(Some(code), change), None))
            }
            // Before the blobs are stored: from then on, the write deadline runs.
            Step::Update(code, ..) => {
                let change = self.change_of(entities, step).await?;
                Ok((Step::Known(Some(code), change), None))
            }
            step => Ok((step, None)),
        }
    }

    async fn row_of(
        &self,
        entities: Option<&IndexedEntities>,
        key: &Key,
    ) -> Result<Option<Entity>> {
        match entities {
            Some(entities) => entities.read(key).await,
            None => self.store().get(self.name(), key, None).await,
        }
    }

    async fn commit_plain(
        &self,
        partition: PartitionKey,
        steps: Vec<Step>,
    ) -> Result<Vec<Written>> {
        let mut group = self.plain().group(partition);
        for step in steps {
            match step {
                Step::Write(code, operation) => group.push_typed(code.schema, operation)?,
                Step::Push(operation) => group.push(operation)?,
                Step::Known(Some(code), change) => {
                    group.push_typed(code.schema, change.operation()?)?
                }
                Step::Known(None, change) => group.push(change.operation()?)?,
                Step::Update(code, key, change) => {
                    group.update_row(code.schema, key, |old| change(old, old))?
                }
            };
        }
        group.commit().await
    }

    async fn commit_indexed(
        &self,
        entities: &IndexedEntities,
        steps: Vec<Step>,
    ) -> Result<Vec<Written>> {
        check_distinct(&steps)?;
        let changes = stream::iter(steps.into_iter().enumerate()).map(|(index, step)| async move {
            self.change_of(Some(entities), step)
                .await
                .map_err(|error| Error::in_transaction(index, error))
        });
        // The old states are read before the group is sent, and each is a condition of the group: a change in
        // between fails the group, and no entry is derived from a state that is gone.
        let changes: Vec<Change> = changes
            .buffered(self.plain().concurrency())
            .try_collect()
            .await?;
        // Not `write`: whether it removes due entities that are in the way depends on the type whose indexes `entities` were opened with.
        let committed = entities.changes().write_once(&changes).await?;
        Ok(committed.into_all_written())
    }

    /// The change of a step, relative to the stored entity.
    async fn change_of(&self, entities: Option<&IndexedEntities>, step: Step) -> Result<Change> {
        let schema = step.code().map(|code| code.schema);
        let operation = match step {
            Step::Known(_, change) => return Ok(change),
            Step::Write(_, operation) | Step::Push(operation) => operation,
            Step::Update(_, key, change) => {
                let old = self.row_of(entities, &key).await?;
                let old = old.filter(|old| !schema.is_some_and(|schema| self.hides(schema, old)));
                let old = old.ok_or_else(|| self.missing(&key))?;
                let new = change(&old, &old)?;
                return Ok(Change::replace(old, new));
            }
        };
        if let Operation::Insert(new) = operation {
            return Ok(Change::insert(new));
        }
        let old = self.row_of(entities, operation.key()).await?;
        if let Some(version) = operation.if_match() {
            self.check_version(operation.key(), old.as_ref(), version)?;
        }
        let Some(old) = old else {
            // Of the operations without a version, each has an entity.
            let new = operation.entity().cloned();
            let new = new.ok_or_else(|| self.missing(operation.key()))?;
            return Ok(Change::insert(new));
        };
        match operation {
            Operation::Insert(new) => Ok(Change::insert(new)),
            Operation::Delete(..) => Ok(Change::delete(old)),
            Operation::InsertOrReplace(new) | Operation::Replace(new, _) => {
                schema.map_or(Ok(()), |schema| schema.check_replaceable(&old))?;
                Ok(Change::replace(old, new))
            }
            Operation::Merge(patch, _) => {
                // A patch does not find a hidden entity.
                if schema.is_some_and(|schema| self.hides(schema, &old)) {
                    return Err(self.missing(patch.key()));
                }
                let new = merged(schema, &old, &patch)?;
                Ok(Change::replace(old, new))
            }
            Operation::InsertOrMerge(over) => {
                let now = self.store().context().now();
                let is_due = match schema {
                    Some(schema) if !self.plain().shows_hidden() => {
                        schema.merge_base(&old, now)?.is_none()
                    }
                    _ => false,
                };
                // Nothing of an entity that is due may come back.
                if is_due {
                    return Ok(Change::replace(old, over));
                }
                let new = merged(schema, &old, &over)?;
                Ok(Change::replace(old, new))
            }
        }
    }

    fn hides(&self, schema: &Schema, row: &Entity) -> bool {
        !self.plain().shows_hidden() && schema.hides(row, self.store().context().now())
    }
}

/// The type of a change, if it has large fields.
fn large_of(large: &[LargeType], code: EntityCode) -> Option<&LargeType> {
    large.iter().find(|of| of.id == Some(code.id))
}

/// Refuses two changes of one entity, as a group without indexes does: each would be relative to the stored entity.
fn check_distinct(steps: &[Step]) -> Result<()> {
    let mut keys = HashSet::new();
    for (index, step) in steps.iter().enumerate() {
        let key = step.key()?;
        if !keys.insert(key) {
            let reason =
                format!("{key} occurs twice: a group transaction can write an entity once");
            return Err(Error::in_transaction(index, Error::misuse(reason)));
        }
    }
    Ok(())
}

/// The row after a merge. Of a row without a known type, the merge changes the properties that it has.
fn merged(schema: Option<&Schema>, old: &Entity, over: &Entity) -> Result<Entity> {
    if let Some(schema) = schema {
        return schema.merged(old, over);
    }
    let mut new = old.clone();
    new.properties_mut().merge(over.properties());
    Ok(new)
}

impl<T> fmt::Debug for Group<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
