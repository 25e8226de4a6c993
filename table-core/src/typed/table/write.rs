use super::{Conflicts, KeyOf, Table};
use crate::model::{ETag, Entity, IfMatch};
use crate::store::{Error, Operation, Result, Written};
use crate::typed::{Schema, TableEntity};

/// Writes. What an index is of is refused: see [`Table::unmanaged`].
impl<T: TableEntity> Table<T> {
    /// Adds an entity that must not exist. One request.
    ///
    /// # Errors
    /// The entity exists already; a key or a value cannot be stored.
    pub async fn insert(&self, entity: &T) -> Result<Written> {
        self.write(Operation::Insert(entity.to_entity()?)).await
    }

    /// Writes the entity, whatever was there: the last writer wins. What a program of a later version has stored is
    /// refused.
    ///
    /// Two requests for a type that has a `type` or a `version`: what is there may be of a later version, so that is read
    /// first, and the write is bound to what was read; two more for each writer that comes in between, within the bound of
    /// [`with_attempts`](Self::with_attempts). One for any other type: nothing else is in its table.
    ///
    /// # Errors
    /// A key or a value cannot be stored. The entity that is there is stored in a later version of the schema.
    pub async fn upsert(&self, entity: &T) -> Result<Written> {
        let entity = entity.to_entity()?;
        if !T::SCHEMA.may_be_newer() {
            return self.write(Operation::InsertOrReplace(entity)).await;
        }
        self.to_write(entity.key(), "an upsert").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            let stored = self.shared().replaceable_in(T::SCHEMA, entity.key()).await?;
            match self.write(bound_replace(entity.clone(), stored)).await {
                Err(error) => conflicts.wait_if(is_lost(&error), error).await?,
                written => return written,
            }
        }
    }

    /// Adds the entity, or writes its properties over those of the one that is there: the last writer
    /// of each property wins. One request.
    ///
    /// A field that is `None` keeps what is stored, and so do properties that `T` does not know.
    ///
    /// Two requests for a type that has a `type` or a `version`: what is there must be of this type and version, so
    /// that is read first, and the write is
    /// bound to what was read. Two more for each writer that comes in between, within the bound of
    /// [`with_attempts`](Self::with_attempts).
    ///
    /// # Errors
    /// A key or a value cannot be stored. The entity that is there is of another type, or stored in another
    /// version of the schema: [`update`](Self::update) it.
    pub async fn insert_or_merge(&self, entity: &T) -> Result<Written> {
        let entity = entity.to_entity()?;
        if !T::SCHEMA.may_be_newer() {
            return self.write(Operation::InsertOrMerge(entity)).await;
        }
        self.to_write(entity.key(), "an upsert").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            let stored = self.shared().stored_in(T::SCHEMA, entity.key()).await?;
            match self.write(bound(entity.clone(), stored)).await {
                Err(error) => conflicts.wait_if(is_lost(&error), error).await?,
                written => return written,
            }
        }
    }

    /// Replaces the entity in the version it was read in: that of its `#[etag]` field. One request.
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
    /// # employees.insert(&ken).await?;
    /// let ken = employees.get_existing(Employee::key("Sales", 223)?).await?;
    /// employees.replace(&Employee { age: Some(41), ..ken }).await?;
    ///
    /// let stale = employees.get_existing(Employee::key("Sales", 223)?).await?;
    /// employees.update(Employee::key("Sales", 223)?, |ken| { ken.age = Some(42); Ok(()) }).await?;
    /// assert!(employees.replace(&stale).await.unwrap_err().is_precondition_failed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. The value carries no ETag:
    /// name the version with [`replace_if`](Self::replace_if).
    pub async fn replace(&self, entity: &T) -> Result<Written> {
        self.write(replace(entity, entity.own_version()?.into())?).await
    }

    /// Replaces the entity if it is in this version; [`IfMatch::Any`] asks for any, and is refused where a program of a
    /// later version has stored it.
    ///
    /// One request; under [`IfMatch::Any`] as many as [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. The entity is stored in a later version of the schema.
    pub async fn replace_if(&self, entity: &T, version: impl Into<IfMatch>) -> Result<Written> {
        let version = version.into();
        if version != IfMatch::Any || !T::SCHEMA.may_be_newer() {
            return self.write(replace(entity, version)?).await;
        }
        let (entity, mut conflicts) = (entity.to_entity()?, Conflicts::new(self.shared().attempts));
        self.to_write(entity.key(), "a replace").await?;
        loop {
            let stored = self.shared().replaceable_in(T::SCHEMA, entity.key()).await?;
            let stored = stored.ok_or_else(|| self.shared().not_found(entity.key()))?;
            match self.write(Operation::Replace(entity.clone(), stored.into())).await {
                Err(error) => conflicts.wait(error).await?,
                written => return written,
            }
        }
    }

    /// Removes the entity if it is in this version; [`IfMatch::Any`] asks for any. One request.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found.
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        self.write(Operation::Delete(key.into_key(), version.into())).await.map(drop)
    }

    /// Removes the entity in the version it was read in: that of its `#[etag]` field. One request.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn delete_entity(&self, entity: &T) -> Result<()> {
        self.write(delete(entity)?).await.map(drop)
    }

    /// Removes the entity in any version, if it is there; whether it was. One request.
    ///
    /// # Errors
    /// The store's, a missing table among them.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        match self.delete(key, IfMatch::Any).await {
            Err(error) if error.is_entity_not_found() => Ok(false),
            other => other.map(|()| true),
        }
    }

    pub(super) async fn write(&self, operation: Operation) -> Result<Written> {
        let _rests_on = self.to_write(operation.key(), operation.kind().name()).await?;
        self.store().write(self.name(), operation).await
    }
}

/// A replacement of what is there in this version, or of nothing.
pub(super) fn bound_replace(entity: Entity, stored: Option<ETag>) -> Operation {
    match stored {
        Some(etag) => Operation::Replace(entity, etag.into()),
        None => Operation::Insert(entity),
    }
}

/// An upsert of what is there in this version, or of nothing. What is there stays in the schema version that it is stored in.
pub(super) fn bound(entity: Entity, stored: Option<ETag>) -> Operation {
    match stored {
        Some(etag) => Operation::Merge(Schema::without_version(entity), etag.into()),
        None => Operation::Insert(entity),
    }
}

/// Whether what was read is not what is there any more.
pub(super) fn is_lost(error: &Error) -> bool {
    error.is_precondition_failed() || error.is_already_exists() || error.is_entity_not_found()
}

pub(super) fn replace<E: TableEntity>(entity: &E, version: IfMatch) -> Result<Operation> {
    Ok(Operation::Replace(entity.to_entity()?, version))
}

pub(super) fn delete<E: TableEntity>(entity: &E) -> Result<Operation> {
    Ok(Operation::Delete(entity.entity_key()?.into_key(), entity.own_version()?.into()))
}
