use std::fmt;

use table_core::model::{Key, PartitionKey};
use table_core::store::{Error, Result};
use table_core::typed::{IndexedEntity, PartitionIn};

use super::table::IndexedTable;
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
    changes: Vec<Change>,
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// An empty group of changes in a partition. No request.
    pub fn group(&self, partition: impl PartitionIn<T>) -> IndexedGroup<'_, T> {
        IndexedGroup { table: self, partition: partition.partition_key().clone(), changes: Vec::new() }
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
        Ok(self.add(Change::insert(entity)))
    }

    /// Adds the replacement of an entity that was read, in that version.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn replace_stored(&mut self, old: &Stored<T>, new: &T) -> Result<&mut Self> {
        self.check(old.key())?;
        Ok(self.add(Change::replace(old.entity().clone(), new.to_entity()?)))
    }

    /// Adds the removal of an entity that was read, in that version.
    ///
    /// # Errors
    /// See above.
    pub fn delete_stored(&mut self, old: &Stored<T>) -> Result<&mut Self> {
        self.check(old.key())?;
        Ok(self.add(Change::delete(old.entity().clone())))
    }

    /// How many changes there are.
    pub const fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Writes all changes and their entries: all or nothing within the partition, entries elsewhere
    /// as [`Committed::entries`] says. Requests: those of one write, see the [`journal`](crate::journal).
    ///
    /// # Errors
    /// A precondition failed, an entity exists already, a unique value is taken, the group is empty or over a
    /// limit: nothing is written.
    pub async fn commit(self) -> Result<Committed> {
        self.table.entities.write(&self.changes).await
    }

    fn add(&mut self, change: Change) -> &mut Self {
        self.changes.push(change);
        self
    }

    fn check(&self, key: &Key) -> Result<()> {
        if key.partition() == self.partition.as_str() {
            return Ok(());
        }
        let reason = format!("{key} is not in the partition '{}' of the group", self.partition);
        Err(Error::invalid_group(reason))
    }
}

impl<T> fmt::Debug for IndexedGroup<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedGroup")
            .field("partition", &self.partition)
            .field("changes", &self.changes.len())
            .finish_non_exhaustive()
    }
}
