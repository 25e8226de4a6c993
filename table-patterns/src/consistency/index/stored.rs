//! [`Stored`]: a value with its row as it was read, for writes that need the old state.

use std::fmt;
use std::ops::Deref;

use table_core::model::{ETag, Entity, Key};
use table_core::store::{ErrorKind, Result};
use table_core::typed::FromEntity;
use table_core::typed::load::LoadedRow;

use crate::journal::as_read;

/// A value as read from the table, with the ETag of the version read: the *old* value of a replacement or
/// removal. The old value decides which index entries to remove.
///
/// The value can be read but not changed; [`into_inner`](Self::into_inner) returns a value to change. Only a
/// read of the entity itself creates a `Stored`, never a read of an index entry. It keeps every property that
/// was read, including properties that `T` does not know. So a write cannot start from a wrong old value and
/// leave its entries behind.
///
/// A `Stored` belongs to the table that it was read from. It holds both the value and the entity in memory.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # use table_core::prelude::*;
/// # use table_patterns::index::IndexOptions;
/// # use table_patterns::Database;
/// # #[derive(Clone, Debug, PartialEq, TableEntity)]
/// # #[entity(type = "Employee", rename_all = "PascalCase")]
/// # #[index(surname, row_key = "surname_{last_name}_{id:06}")]
/// # struct Employee {
/// #     #[partition_key] department: String,
/// #     #[row_key(format = "empid_{:06}")] id: u32,
/// #     last_name: String,
/// # }
/// # let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
/// # employees.insert(&Employee { department: "Sales".into(), id: 1, last_name: "Kwok".into() }).await?;
/// let ken = employees.get_existing_stored(Employee::key("Sales", 1)?).await?;
/// let married = Employee { last_name: "Lee".into(), ..(*ken).clone() };
/// employees.replace_stored(&ken, &married).await?;
/// assert!(employees.by(Employee::by_surname("Sales").last_name("Kwok")).all().await?.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// A changed value is not an old value. This does not compile:
///
/// ```compile_fail
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # use table_core::prelude::*;
/// # use table_patterns::index::IndexOptions;
/// # use table_patterns::Database;
/// # #[derive(Clone, Debug, PartialEq, TableEntity)]
/// # #[entity(type = "Employee", rename_all = "PascalCase")]
/// # #[index(surname, row_key = "surname_{last_name}_{id:06}")]
/// # struct Employee {
/// #     #[partition_key] department: String,
/// #     #[row_key(format = "empid_{:06}")] id: u32,
/// #     last_name: String,
/// # }
/// # let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
/// # employees.insert(&Employee { department: "Sales".into(), id: 1, last_name: "Kwok".into() }).await?;
/// let mut ken = employees.get_existing_stored(Employee::key("Sales", 1)?).await?;
/// ken.last_name = "Lee".into(); // a `Stored` cannot be changed
/// # Ok(())
/// # }
/// ```
///
/// Nor does a plain value, which any code may have changed:
///
/// ```compile_fail
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # use table_core::prelude::*;
/// # use table_patterns::index::IndexOptions;
/// # use table_patterns::Database;
/// # #[derive(Clone, Debug, PartialEq, TableEntity)]
/// # #[entity(type = "Employee", rename_all = "PascalCase")]
/// # #[index(surname, row_key = "surname_{last_name}_{id:06}")]
/// # struct Employee {
/// #     #[partition_key] department: String,
/// #     #[row_key(format = "empid_{:06}")] id: u32,
/// #     last_name: String,
/// # }
/// # let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
/// # employees.insert(&Employee { department: "Sales".into(), id: 1, last_name: "Kwok".into() }).await?;
/// let mut ken = employees.get_existing(Employee::key("Sales", 1)?).await?;
/// ken.last_name = "Lee".into();
/// employees.replace_stored(&ken, &ken).await?; // an `Employee` for a `Stored<Employee>`
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stored<T> {
    value: T,
    entity: Entity,
    etag: ETag,
}

impl<T: FromEntity> Stored<T> {
    /// Decodes a whole row that was read from the table of the entities.
    pub(crate) fn read(entity: Entity) -> Result<Self> {
        let entity = as_read(entity.detached());
        let without = || {
            ErrorKind::Service(format!(
                "the store returned {} without an ETag",
                entity.key()
            ))
        };
        let etag = entity.etag().cloned().ok_or_else(without)?;
        Ok(Self {
            value: T::from_entity(entity.clone())?,
            entity,
            etag,
        })
    }
}

impl<T: FromEntity> Stored<T> {
    /// Decodes a row with its values outside of the row. [`entity`](Self::entity) is the row as stored.
    pub(crate) fn loaded(row: LoadedRow) -> Result<Self> {
        let LoadedRow { stored, whole } = row;
        let mut read = Self::read(whole)?;
        read.entity = as_read(stored.detached());
        Ok(read)
    }
}

impl<T> Stored<T> {
    /// The value, to change or to keep.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The ETag of the version read. During a move of the entity to another partition, the ETag also names the
    /// move: writes of this table accept it and stop the move, and any other write fails with it.
    pub const fn etag(&self) -> &ETag {
        &self.etag
    }

    /// The key.
    pub const fn key(&self) -> &Key {
        self.entity.key()
    }

    /// The entity as read, with every property.
    pub const fn entity(&self) -> &Entity {
        &self.entity
    }
}

impl<T> Deref for Stored<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Equal: the same version of the same entity.
impl<T: PartialEq> PartialEq for Stored<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key() && self.etag == other.etag && self.value == other.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Stored<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("value", &self.value)
            .field("etag", &self.etag)
            .finish()
    }
}
