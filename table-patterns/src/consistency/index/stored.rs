use std::fmt;
use std::ops::Deref;

use table_core::model::{ETag, Entity, Key};
use table_core::store::{ErrorKind, Result};
use table_core::typed::FromEntity;

use crate::journal::as_read;

/// A value as it is stored: what was read of an entity, in the version that was read. It is the *old* value of
/// a replacement or a removal, which decides which index entries go.
///
/// It can be read as the value, and not be changed: a copy is. Nothing but a read makes one, of the entity
/// itself and never of an index entry, and it keeps every property that came, those that `T` does not know among
/// them. So no write can take an entity for something that it was not, and leave its entries behind.
///
/// It belongs to the table that it was read from. Its memory is that of the value and of the entity.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # use table_core::prelude::*;
/// # use table_patterns::index::{IndexOptions, IndexedTable};
/// # #[derive(Clone, Debug, PartialEq, TableEntity)]
/// # #[entity(type = "Employee", rename_all = "PascalCase")]
/// # #[index(surname, row_key = "surname_{last_name}_{id:06}")]
/// # struct Employee {
/// #     #[partition_key] department: String,
/// #     #[row_key(format = "empid_{:06}")] id: u32,
/// #     last_name: String,
/// # }
/// # let employees = IndexedTable::<Employee>::open(MemoryStore::new(), "Employees", IndexOptions::local()).await?;
/// # employees.insert(&Employee { department: "Sales".into(), id: 1, last_name: "Kwok".into() }).await?;
/// let ken = employees.get_existing(Employee::key("Sales", 1)?).await?;
/// let married = Employee { last_name: "Lee".into(), ..(*ken).clone() };
/// employees.replace_stored(&ken, &married).await?;
/// assert!(employees.by(Employee::by_surname("Sales").last_name("Kwok")).all().await?.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// What was read cannot be made into something else on its way back: this does not compile.
///
/// ```compile_fail
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # use table_core::prelude::*;
/// # use table_patterns::index::{IndexOptions, IndexedTable};
/// # #[derive(Clone, Debug, PartialEq, TableEntity)]
/// # #[entity(type = "Employee", rename_all = "PascalCase")]
/// # #[index(surname, row_key = "surname_{last_name}_{id:06}")]
/// # struct Employee {
/// #     #[partition_key] department: String,
/// #     #[row_key(format = "empid_{:06}")] id: u32,
/// #     last_name: String,
/// # }
/// # let employees = IndexedTable::<Employee>::open(MemoryStore::new(), "Employees", IndexOptions::local()).await?;
/// # employees.insert(&Employee { department: "Sales".into(), id: 1, last_name: "Kwok".into() }).await?;
/// let mut ken = employees.get_existing(Employee::key("Sales", 1)?).await?;
/// ken.last_name = "Lee".into(); // it is what was read
/// # Ok(())
/// # }
/// ```
///
/// Nor does this: a value that anybody may have changed is no old value.
///
/// ```compile_fail
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # use table_core::prelude::*;
/// # use table_patterns::index::{IndexOptions, IndexedTable};
/// # #[derive(Clone, Debug, PartialEq, TableEntity)]
/// # #[entity(type = "Employee", rename_all = "PascalCase")]
/// # #[index(surname, row_key = "surname_{last_name}_{id:06}")]
/// # struct Employee {
/// #     #[partition_key] department: String,
/// #     #[row_key(format = "empid_{:06}")] id: u32,
/// #     last_name: String,
/// # }
/// # let employees = IndexedTable::<Employee>::open(MemoryStore::new(), "Employees", IndexOptions::local()).await?;
/// # employees.insert(&Employee { department: "Sales".into(), id: 1, last_name: "Kwok".into() }).await?;
/// let mut ken = employees.get_existing(Employee::key("Sales", 1)?).await?.into_inner();
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
    /// What was read from the table of the entities, whole.
    pub(super) fn read(entity: Entity) -> Result<Self> {
        let entity = as_read(entity.detached());
        let without = || ErrorKind::Service(format!("{} without an ETag", entity.key()));
        let etag = entity.etag().cloned().ok_or_else(without)?;
        Ok(Self { value: T::from_entity(entity.clone())?, entity, etag })
    }
}

impl<T> Stored<T> {
    /// The value, to change and to keep: it is no longer what is stored.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The version that was read. While the entity is moved to another partition, it tells the move, too: writes of this table
    /// accept it and give the move up, and any other write is refused by it.
    pub const fn etag(&self) -> &ETag {
        &self.etag
    }

    /// The key.
    pub const fn key(&self) -> &Key {
        self.entity.key()
    }

    /// The entity as it came, with every property.
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

/// The same version of the same entity.
impl<T: PartialEq> PartialEq for Stored<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key() && self.etag == other.etag && self.value == other.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Stored<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("value", &self.value).field("etag", &self.etag).finish()
    }
}
