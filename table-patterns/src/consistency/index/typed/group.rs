//! Groups of changes in one partition, of entities of several types.

use std::fmt;
use std::marker::PhantomData;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::Manifest;
use table_core::model::{Entity, IfMatch, Key, PartitionKey};
use table_core::store::{Error, Result};
use table_core::typed::{
    EntityPatch as _, IndexedEntity, KeyOf, PartitionIn, Schema, TableEntity, permit_registered,
};

use super::table::IndexedTable;
use crate::index::Stored;
use crate::journal::{Change, Committed};

/// Changes of several entities of one partition, committed together with their entries.
///
/// Created by [`IndexedTable::group`]. Its methods add changes of entities of `T`. [`of`](Self::of) and
/// [`of_plain`](Self::of_plain) add changes of other types of the table, with and without indexes: an order,
/// its lines and the stock, atomically.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # use table_core::prelude::*;
/// # use table_patterns::index::{IndexOptions, IndexedTable};
/// # #[derive(Clone, Debug, TableEntity)]
/// # #[entity(type = "Employee", rename_all = "PascalCase")]
/// # #[index(email, row_key = "email_{email}", unique = "partition")]
/// # struct Employee {
/// #     #[partition_key] department: String,
/// #     #[row_key(format = "empid_{:06}")] id: u32,
/// #     email: String,
/// # }
/// # let employees = IndexedTable::<Employee>::open(MemoryStore::new(), "Employees", IndexOptions::local()).await?;
/// # let ken = Employee { department: "Sales".into(), id: 1, email: "ken@x".into() };
/// # employees.insert(&ken).await?;
/// let ken = employees.get_existing(Employee::key("Sales", 1)?).await?;
/// let mut group = employees.group(Employee::partition("Sales")?);
/// group.delete_stored(&ken)?;
/// group.insert(&Employee { id: 2, ..ken.into_inner() })?; // gets the address of the deleted entity
/// group.commit().await?; // 1 request
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is written until `commit`"]
pub struct IndexedGroup<'a, T> {
    table: &'a IndexedTable<T>,
    partition: PartitionKey,
    steps: Vec<GroupChange>,
    /// The types without declared indexes that expire.
    expiring: Vec<&'static Schema>,
}

/// The changes of one type in a group: created by [`IndexedGroup::of`] and [`IndexedGroup::of_plain`].
pub struct GroupOf<'g, U> {
    partition: &'g PartitionKey,
    steps: &'g mut Vec<GroupChange>,
    of: PhantomData<fn() -> U>,
}

/// A change of the group.
enum GroupChange {
    /// A change whose old value the caller has read.
    Known(Change),
    /// A change whose old value `commit` reads, in this version. `None`: the entity may be missing; `Some(Any)`: it must exist, in any
    /// version.
    Read(Key, Option<IfMatch>, Make),
}

/// The new state of an entity, by the schema of its type.
enum Make {
    Replaced(&'static Schema, Entity),
    Merged(&'static Schema, Entity),
    Updated(&'static Schema, ChangeOf),
    Removed,
}

/// Changes the row of an entity.
type ChangeOf = Box<dyn FnOnce(&Entity) -> Result<Entity> + Send>;

impl<T: IndexedEntity> IndexedTable<T> {
    /// Creates an empty group of changes in a partition. No request.
    pub fn group(&self, partition: impl PartitionIn<T>) -> IndexedGroup<'_, T> {
        IndexedGroup {
            table: self,
            partition: partition.partition_key().clone(),
            steps: Vec::new(),
            expiring: Vec::new(),
        }
    }
}

/// Other types.
impl<T: IndexedEntity> IndexedGroup<'_, T> {
    /// Adds changes of entities of another type with indexes. `handle` is that type's handle of the same table.
    /// Their entries are maintained like those of `T`, and cost as many requests as in a group of `handle`. No
    /// request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// # use table_patterns::index::{IndexOptions, IndexedTable};
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
    /// # let store = MemoryStore::new();
    /// let orders = IndexedTable::<Order>::open(store.clone(), "Shop", IndexOptions::local()).await?;
    /// let tickets = IndexedTable::<Ticket>::open(store, "Shop", IndexOptions::local()).await?;
    /// # let order = Order { customer: "contoso".into(), id: 1, state: "open".into() };
    /// # let ticket = Ticket { customer: "contoso".into(), id: 7, subject: "late".into() };
    /// # let stock = Stock { customer: "contoso".into(), item: "bolt".into(), left: 5 };
    /// let mut group = orders.group(Order::partition("contoso")?);
    /// group.insert(&order)?;
    /// group.of(&tickets)?.insert(&ticket)?;
    /// group.of_plain::<Stock>()?.insert(&stock)?;
    /// group.commit().await?; // 1 request: three entities and their entries
    /// assert_eq!(tickets.by(Ticket::by_subject("contoso").subject("late")).count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `handle` is of another table, or was opened to read.
    pub fn of<U: IndexedEntity>(&mut self, handle: &IndexedTable<U>) -> Result<GroupOf<'_, U>> {
        let (mine, theirs) = (self.table.entities.table(), handle.entities.table());
        if mine != theirs {
            let name = U::SCHEMA.rust_name;
            return Err(Error::misuse(format!(
                "the handle of {name} belongs to the table '{theirs}', and the group to the table '{mine}': open {name} on '{mine}'"
            )));
        }
        handle.entities.set.check_writes()?;
        handle.entities.set.check_type()?;
        // So that the journal of this handle derives the entries of `U` with that handle's Rust code, too.
        self.table.entities.set.learn(&handle.entities.set);
        Ok(self.typed())
    }

    /// Adds changes of entities of another type, which declares no indexes. Indexes of that type that another
    /// program has declared are maintained by their definitions in the manifest. No request.
    ///
    /// # Errors
    /// The type declares indexes: open the table for it and use [`of`](Self::of). Or its entities are not
    /// stored as one row each; see [`Table::new`](table_core::typed::Table::new).
    pub fn of_plain<U: TableEntity>(&mut self) -> Result<GroupOf<'_, U>> {
        if let Some(index) = U::SCHEMA.indexes.first() {
            let (name, index) = (U::SCHEMA.rust_name, &index.name);
            return Err(Error::misuse(format!(
                "{name} declares the index '{index}', which a plain write would leave stale: open the table by `IndexedTable::<{name}>::open`, and \
                 pass that handle to `IndexedGroup::of`"
            )));
        }
        self.table.table().view::<U>()?;
        if U::SCHEMA.expiry.is_some()
            && !self
                .expiring
                .iter()
                .any(|known| std::ptr::eq(*known, U::SCHEMA))
        {
            self.expiring.push(U::SCHEMA);
        }
        Ok(self.typed())
    }

    fn typed<U>(&mut self) -> GroupOf<'_, U> {
        GroupOf {
            partition: &self.partition,
            steps: &mut self.steps,
            of: PhantomData,
        }
    }
}

/// Each method that adds a change fails if the entity is in another partition than the group.
impl<T: IndexedEntity> IndexedGroup<'_, T> {
    /// Adds an insert.
    ///
    /// # Errors
    /// The entity is in another partition; a key or a value cannot be stored.
    pub fn insert(&mut self, entity: &T) -> Result<&mut Self> {
        self.add(|group| group.insert(entity).map(drop))
    }

    /// Adds an [`upsert`](IndexedTable::upsert). `commit` costs 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn upsert(&mut self, entity: &T) -> Result<&mut Self> {
        self.add(|group| group.upsert(entity).map(drop))
    }

    /// Adds an [`insert_or_merge`](IndexedTable::insert_or_merge). `commit` costs 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_or_merge(&mut self, entity: &T) -> Result<&mut Self> {
        self.add(|group| group.insert_or_merge(entity).map(drop))
    }

    /// Adds a [`replace`](IndexedTable::replace) in the version of the entity's `#[etag]` field. `commit` costs
    /// 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the value has no ETag.
    pub fn replace(&mut self, entity: &T) -> Result<&mut Self> {
        self.replace_if(entity, entity.own_version()?)
    }

    /// Adds a [`replace_if`](IndexedTable::replace_if). `commit` costs 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_if(&mut self, entity: &T, version: impl Into<IfMatch>) -> Result<&mut Self> {
        self.add(|group| group.replace_if(entity, version).map(drop))
    }

    /// Adds a [`merge`](IndexedTable::merge). `commit` costs 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the patch sets nothing.
    pub fn merge(
        &mut self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        self.add(|group| group.merge(key, patch, version).map(drop))
    }

    /// Adds an [`update`](IndexedTable::update): `commit` reads the entity, calls `change`, and replaces the entity in
    /// the version that it has read. Properties that `T` does not know stay. `commit` costs 1 request more, and makes one
    /// attempt.
    ///
    /// # Errors
    /// The entity is in another partition. `commit` fails if the entity does not exist, or if `change` fails or changes
    /// the key.
    pub fn update(
        &mut self,
        key: impl KeyOf<T>,
        change: impl FnOnce(&mut T) -> Result<()> + Send + 'static,
    ) -> Result<&mut Self> {
        self.add(|group| group.update(key, change).map(drop))
    }

    /// Adds a [`delete`](IndexedTable::delete). `commit` costs 1 request more.
    ///
    /// # Errors
    /// The entity is in another partition.
    pub fn delete(&mut self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<&mut Self> {
        self.add(|group| group.delete(key, version).map(drop))
    }

    /// Adds the replacement of an entity that was read, in that version. Properties that `T` does not know stay.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_stored(&mut self, old: &Stored<T>, new: &T) -> Result<&mut Self> {
        self.add(|group| group.replace_stored(old, new).map(drop))
    }

    /// Adds the removal of an entity that was read, in that version.
    ///
    /// # Errors
    /// The entity is in another partition.
    pub fn delete_stored(&mut self, old: &Stored<T>) -> Result<&mut Self> {
        self.add(|group| group.delete_stored(old).map(drop))
    }

    /// The number of changes.
    pub const fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether the group has no changes.
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Writes all changes and their local entries atomically; remote entries follow as [`Committed::entries`]
    /// says. Requests: those of one write, see the [`journal`](crate::journal#cost-in-requests); before it 1
    /// for each change whose old value is unknown, with [`with_concurrency`](IndexedTable::with_concurrency)
    /// requests in parallel. For types of [`of_plain`](Self::of_plain) that expire, 1 if the manifest was not read for 30 seconds, and 2 more for the
    /// first write of the type to the table.
    ///
    /// # Errors
    /// Nothing is written in these cases: a precondition failed, an entity exists already, a unique value is
    /// taken, the group is empty or exceeds a limit.
    pub async fn commit(self) -> Result<Committed> {
        let Self {
            table,
            steps,
            expiring,
            ..
        } = self;
        table.register_expiring(&expiring).await?;
        let changes = stream::iter(steps.into_iter().enumerate()).map(|(index, step)| async move {
            table
                .change_of(step)
                .await
                .map_err(|error| Error::in_transaction(index, error))
        });
        // The old states are read before the group is sent, and each is a condition of the group: a change in
        // between fails the group, and no entry is derived from a state that is gone.
        let changes: Vec<Change> = changes
            .buffered(table.entities.rows().concurrency)
            .try_collect()
            .await?;
        table.entities.write(&changes).await
    }

    fn add(&mut self, change: impl FnOnce(&mut GroupOf<'_, T>) -> Result<()>) -> Result<&mut Self> {
        change(&mut self.typed())?;
        Ok(self)
    }
}

/// Each method that adds a change fails if the entity is in another partition than the group.
impl<U: TableEntity> GroupOf<'_, U> {
    /// Adds an insert.
    ///
    /// # Errors
    /// The entity is in another partition; a key or a value cannot be stored.
    pub fn insert(&mut self, entity: &U) -> Result<&mut Self> {
        let entity = entity.to_entity()?;
        self.check(entity.key())?;
        Ok(self.add(GroupChange::Known(Change::insert(entity))))
    }

    /// Adds an insert, or a replacement of any version. `commit` costs 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn upsert(&mut self, entity: &U) -> Result<&mut Self> {
        self.add_read(entity.to_entity()?, None, Make::Replaced)
    }

    /// Adds an insert, or a merge into the existing entity. `commit` costs 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_or_merge(&mut self, entity: &U) -> Result<&mut Self> {
        self.add_read(entity.to_entity()?, None, Make::Merged)
    }

    /// Adds a replacement in the version of the entity's `#[etag]` field. `commit` costs 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the value has no ETag.
    pub fn replace(&mut self, entity: &U) -> Result<&mut Self> {
        self.replace_if(entity, entity.own_version()?)
    }

    /// Adds a replacement in this version; [`IfMatch::Any`] accepts any version. `commit` costs 1 request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_if(&mut self, entity: &U, version: impl Into<IfMatch>) -> Result<&mut Self> {
        self.add_read(entity.to_entity()?, Some(version.into()), Make::Replaced)
    }

    /// Adds a merge of a patch, in this version; [`IfMatch::Any`] accepts any version. `commit` costs 1 request
    /// more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the patch sets nothing.
    pub fn merge(
        &mut self,
        key: impl KeyOf<U>,
        patch: &U::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        self.add_read(
            patch.to_entity(key.into_key())?,
            Some(version.into()),
            Make::Merged,
        )
    }

    /// Adds a change of the stored entity. Properties that `U` does not know stay. `commit` costs 1 request more, and makes
    /// one attempt.
    ///
    /// # Errors
    /// The entity is in another partition. `commit` fails if the entity does not exist, or if `change` fails or changes
    /// the key.
    pub fn update(
        &mut self,
        key: impl KeyOf<U>,
        change: impl FnOnce(&mut U) -> Result<()> + Send + 'static,
    ) -> Result<&mut Self> {
        let key = key.into_key();
        self.check(&key)?;
        let change: ChangeOf = Box::new(move |old| {
            let mut value = U::from_entity(old.clone())?;
            change(&mut value)?;
            U::SCHEMA.updated(old, value.to_entity()?)
        });
        let make = Make::Updated(U::SCHEMA, change);
        Ok(self.add(GroupChange::Read(key, Some(IfMatch::Any), make)))
    }

    /// Adds a removal in this version; [`IfMatch::Any`] accepts any version. `commit` costs 1 request more.
    ///
    /// # Errors
    /// The entity is in another partition.
    pub fn delete(&mut self, key: impl KeyOf<U>, version: impl Into<IfMatch>) -> Result<&mut Self> {
        let key = key.into_key();
        self.check(&key)?;
        Ok(self.add(GroupChange::Read(key, Some(version.into()), Make::Removed)))
    }

    /// Adds the replacement of an entity that was read, in that version: by its own handle, or by
    /// [`IndexedTable::get_plain`]. Properties that `U` does not know stay.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_stored(&mut self, old: &Stored<U>, new: &U) -> Result<&mut Self> {
        self.check(old.key())?;
        let new = U::SCHEMA.updated(old.entity(), new.to_entity()?)?;
        Ok(self.add(GroupChange::Known(Change::replace(
            old.entity().clone(),
            new,
        ))))
    }

    /// Adds the removal of an entity that was read, in that version.
    ///
    /// # Errors
    /// The entity is in another partition.
    pub fn delete_stored(&mut self, old: &Stored<U>) -> Result<&mut Self> {
        self.check(old.key())?;
        Ok(self.add(GroupChange::Known(Change::delete(old.entity().clone()))))
    }

    fn add(&mut self, step: GroupChange) -> &mut Self {
        self.steps.push(step);
        self
    }

    fn add_read(
        &mut self,
        entity: Entity,
        version: Option<IfMatch>,
        make: impl FnOnce(&'static Schema, Entity) -> Make,
    ) -> Result<&mut Self> {
        self.check(entity.key())?;
        Ok(self.add(GroupChange::Read(
            entity.key().clone(),
            version,
            make(U::SCHEMA, entity),
        )))
    }

    fn check(&self, key: &Key) -> Result<()> {
        if key.partition() == self.partition.as_str() {
            return Ok(());
        }
        let reason = format!(
            "{key} is not in the partition '{}' of the group",
            self.partition
        );
        Err(Error::misuse(reason))
    }
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// An entity of another type of the table, which declares no indexes, as stored. A
    /// [group](IndexedGroup::of_plain) replaces or removes it without a further read. 1 request.
    ///
    /// # Errors
    /// The row is not a `U`; entities of `U` are not stored as one row each; an error of the store.
    pub async fn get_plain<U: TableEntity>(&self, key: impl KeyOf<U>) -> Result<Option<Stored<U>>> {
        self.table().view::<U>()?;
        self.entities
            .read(&key.into_key())
            .await?
            .map(Stored::read)
            .transpose()
    }

    /// Adds types that expire to the manifest, by which a sweep finds their entities.
    async fn register_expiring(&self, types: &[&'static Schema]) -> Result<()> {
        let (store, table) = (self.table().store(), self.table().name());
        for schema in types {
            let check = |manifest: &Manifest| {
                manifest.check_type(table, schema)?;
                Ok(manifest.type_to_register(schema))
            };
            // The index set of the table holds the permit of the write: this one may end before.
            permit_registered(store, table, schema, check).await?;
        }
        Ok(())
    }

    /// The change of a step, relative to the stored entity.
    async fn change_of(&self, step: GroupChange) -> Result<Change> {
        let (key, version, make) = match step {
            GroupChange::Known(change) => return Ok(change),
            GroupChange::Read(key, version, make) => (key, version, make),
        };
        let old = self.entities.read(&key).await?;
        if let Some(version) = &version {
            self.wanted(&key, old.as_ref(), version)?;
        }
        match (old, make) {
            (Some(old), Make::Replaced(schema, new)) => {
                schema.check_replaceable(&old)?;
                Ok(Change::replace(old, new))
            }
            (Some(old), Make::Merged(schema, over)) => {
                if !self.table().shows_hidden() {
                    let now = self.table().store().context().now();
                    // A patch does not find a hidden entity, and nothing of an entity that is due may come back.
                    if version.is_some() && schema.hides(&old, now) {
                        return Err(self.missing(&key));
                    }
                    if version.is_none() && schema.merge_base(&old, now)?.is_none() {
                        return Ok(Change::replace(old, over));
                    }
                }
                let new = schema.merged(&old, &over)?;
                Ok(Change::replace(old, new))
            }
            (Some(old), Make::Updated(schema, change)) => {
                let now = self.table().store().context().now();
                if !self.table().shows_hidden() && schema.hides(&old, now) {
                    return Err(self.missing(&key));
                }
                let new = change(&old)?;
                Ok(Change::replace(old, new))
            }
            (Some(old), Make::Removed) => Ok(Change::delete(old)),
            // No version is wanted here: `wanted` has refused a missing entity otherwise.
            (None, Make::Replaced(_, new) | Make::Merged(_, new)) => Ok(Change::insert(new)),
            (None, Make::Updated(..) | Make::Removed) => Err(self.missing(&key)),
        }
    }
}

impl<T> fmt::Debug for IndexedGroup<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedGroup")
            .field("partition", &self.partition)
            .field("changes", &self.steps.len())
            .finish_non_exhaustive()
    }
}

impl<U> fmt::Debug for GroupOf<'_, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupOf")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
