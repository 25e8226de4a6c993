use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch, Key, PartitionKey};
use table_core::store::{Error, Result};
use table_core::typed::{EntityPatch as _, IndexedEntity, KeyOf, PartitionIn};

use super::table::IndexedTable;
use super::write::merged;
use crate::index::stored::Stored;
use crate::journal::{Change, Committed};

/// Changes of several entities of one partition, committed together with their entries.
///
/// Made by [`IndexedTable::group`].
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
/// group.insert(&Employee { id: 2, ..ken.into_inner() })?; // takes over the address
/// group.commit().await?; // 1 request
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is written until `commit`"]
pub struct IndexedGroup<'a, T> {
    table: &'a IndexedTable<T>,
    partition: PartitionKey,
    steps: Vec<Step>,
}

/// A change of the group.
enum Step {
    /// Of what the caller has read.
    Known(Change),
    /// Of what `commit` reads: in this version, or whatever is there.
    Read(Key, Option<IfMatch>, Make),
}

/// What becomes of an entity.
enum Make {
    Replaced(Entity),
    Merged(Entity),
    Removed,
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// An empty group of changes in a partition. No request.
    pub fn group(&self, partition: impl PartitionIn<T>) -> IndexedGroup<'_, T> {
        IndexedGroup { table: self, partition: partition.partition_key().clone(), steps: Vec::new() }
    }
}

/// Each method that adds fails if the entity is in another partition.
impl<T: IndexedEntity> IndexedGroup<'_, T> {
    /// Adds a new entity.
    ///
    /// # Errors
    /// See above; a key or a value cannot be stored.
    pub fn insert(&mut self, entity: &T) -> Result<&mut Self> {
        let entity = entity.to_entity()?;
        self.check(entity.key())?;
        Ok(self.add(Step::Known(Change::insert(entity))))
    }

    /// Adds an [`upsert`](IndexedTable::upsert). `commit` costs a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn upsert(&mut self, entity: &T) -> Result<&mut Self> {
        self.add_read(entity.to_entity()?, None, Make::Replaced)
    }

    /// Adds an [`insert_or_merge`](IndexedTable::insert_or_merge). `commit` costs a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_or_merge(&mut self, entity: &T) -> Result<&mut Self> {
        self.add_read(entity.to_entity()?, None, Make::Merged)
    }

    /// Adds a [`replace`](IndexedTable::replace) in the version of the entity's `#[etag]` field. `commit` costs a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the value carries no ETag.
    pub fn replace(&mut self, entity: &T) -> Result<&mut Self> {
        self.replace_if(entity, entity.own_version()?)
    }

    /// Adds a [`replace_if`](IndexedTable::replace_if). `commit` costs a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_if(&mut self, entity: &T, version: impl Into<IfMatch>) -> Result<&mut Self> {
        self.add_read(entity.to_entity()?, Some(version.into()), Make::Replaced)
    }

    /// Adds a [`merge`](IndexedTable::merge). `commit` costs a request more.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the patch sets nothing.
    pub fn merge(
        &mut self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<&mut Self> {
        self.add_read(patch.to_entity(key.into_key())?, Some(version.into()), Make::Merged)
    }

    /// Adds a [`delete`](IndexedTable::delete). `commit` costs a request more.
    ///
    /// # Errors
    /// See above.
    pub fn delete(&mut self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<&mut Self> {
        let key = key.into_key();
        self.check(&key)?;
        Ok(self.add(Step::Read(key, Some(version.into()), Make::Removed)))
    }

    /// Adds the replacement of an entity that was read, in that version.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_stored(&mut self, old: &Stored<T>, new: &T) -> Result<&mut Self> {
        self.check(old.key())?;
        Ok(self.add(Step::Known(Change::replace(old.entity().clone(), new.to_entity()?))))
    }

    /// Adds the removal of an entity that was read, in that version.
    ///
    /// # Errors
    /// See above.
    pub fn delete_stored(&mut self, old: &Stored<T>) -> Result<&mut Self> {
        self.check(old.key())?;
        Ok(self.add(Step::Known(Change::delete(old.entity().clone()))))
    }

    /// How many changes there are.
    pub const fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Writes all changes and their entries: all or nothing within the partition, entries elsewhere
    /// as [`Committed::entries`] says. Requests: those of one write, see the [`journal`](crate::journal); before it one for each
    /// change whose old value is not known, as many at once as [`with_concurrency`](IndexedTable::with_concurrency) allows.
    ///
    /// # Errors
    /// A precondition failed, an entity exists already, a unique value is taken, the group is empty or over a
    /// limit: nothing is written.
    pub async fn commit(self) -> Result<Committed> {
        let Self { table, steps, .. } = self;
        let changes = stream::iter(steps.into_iter().enumerate()).map(|(index, step)| async move {
            table.change_of(step).await.map_err(|error| Error::in_transaction(index, error))
        });
        let changes: Vec<Change> = changes.buffered(table.entities.at_once()).try_collect().await?;
        table.entities.write(&changes).await
    }

    fn add(&mut self, step: Step) -> &mut Self {
        self.steps.push(step);
        self
    }

    fn add_read(
        &mut self,
        entity: Entity,
        version: Option<IfMatch>,
        make: impl FnOnce(Entity) -> Make,
    ) -> Result<&mut Self> {
        self.check(entity.key())?;
        Ok(self.add(Step::Read(entity.key().clone(), version, make(entity))))
    }

    fn check(&self, key: &Key) -> Result<()> {
        if key.partition() == self.partition.as_str() {
            return Ok(());
        }
        let reason = format!("{key} is not in the partition '{}' of the group", self.partition);
        Err(Error::invalid_group(reason))
    }
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// The change that a step of a group is, of what is there now.
    async fn change_of(&self, step: Step) -> Result<Change> {
        let (key, version, make) = match step {
            Step::Known(change) => return Ok(change),
            Step::Read(key, version, make) => (key, version, make),
        };
        let old = self.entities.read(&key).await?;
        if let Some(version) = &version {
            self.wanted(&key, old.as_ref(), version)?;
        }
        match (old, make) {
            (Some(old), Make::Replaced(new)) => {
                T::SCHEMA.check_replaceable(&old)?;
                Ok(Change::replace(old, new))
            }
            (Some(old), Make::Merged(over)) => {
                let new = merged::<T>(&old, &over)?;
                Ok(Change::replace(old, new))
            }
            (Some(old), Make::Removed) => Ok(Change::delete(old)),
            (None, Make::Replaced(new) | Make::Merged(new)) => Ok(Change::insert(new)),
            (None, Make::Removed) => Err(self.missing(&key)),
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
