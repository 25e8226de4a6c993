use std::future::ready;
use std::sync::Arc;

use futures_util::TryStreamExt as _;

use super::write::insert_or_replace_at;
use super::{KeyOf, Table};
use crate::model::{Entity, IfMatch};
use crate::store::{Conflicts, Error, Operation, Outcome, Result};
use crate::typed::TableEntity;

/// Read-modify-write.
impl<T: TableEntity> Table<T> {
    /// Reads the entity, calls `change`, and replaces the entity if it has not changed since. After a conflict with another
    /// writer it starts again. Returns the stored entity.
    ///
    /// 2 requests, and 2 more per conflict, at most [`with_attempts`](Self::with_attempts) attempts. Between attempts it
    /// waits for a random time, of at most 8 ms at first and at most half a second later. If `change` returns an
    /// error, nothing is written.
    ///
    /// Properties that `T` does not know are kept. An entity in an older schema version is converted to the current
    /// version.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/employees.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let (employees, ken) = (employees().await?, ken());
    /// # employees.insert(&ken).await?;
    /// let birthday = |ken: &mut Employee| {
    ///     ken.age = ken.age.map(|age| age + 1).or(Some(41));
    ///     Ok(())
    /// };
    /// let ken = employees.update(Employee::key("Sales", 223)?, birthday).await?;
    /// assert_eq!(ken.age, Some(41));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the entity does not exist, if `change` changes the key, or if the last attempt conflicts with another
    /// writer. An ambiguous error of the write is returned without another attempt.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let key = key.into_key();
        self.to_write(&key, "an update").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            let read = self.store().get(self.name(), &key, None).await?;
            let read = read.ok_or_else(|| self.shared().not_found(&key))?;
            let mut value = T::from_entity(read.clone())?;
            change(&mut value)?;
            match self.write_back(&read, &value).await {
                Err(error) => conflicts.wait(error).await?,
                stored => return stored,
            }
        }
    }

    async fn write_back(&self, read: &Entity, value: &T) -> Result<T> {
        let version = read.version()?;
        let entity = T::SCHEMA.updated(read, value.to_entity()?)?;
        let written = self.write(Operation::Replace(entity.clone(), version)).await?;
        let stored = T::from_entity(entity.with_system(written.etag, None));
        stored.map_err(|error| error.with_outcome(Outcome::Applied))
    }
}

/// Moves.
impl<T: TableEntity> Table<T> {
    /// Moves an entity to a key of this or another table, with the properties that `T` does not know. An entity at the
    /// target is replaced. Returns whether there was an entity to move.
    ///
    /// The move writes the target and then deletes the source in the version that it copied. If another writer changes
    /// the source in between, the move starts again. If the process ends in between, both entities exist: run the
    /// move again.
    ///
    /// 3 requests; 4 for a type with a `type` or a `version`, because the target may be stored in a later schema
    /// version. Each conflict costs the same number again.
    ///
    /// # Errors
    /// Fails if source and target are the same, if the entity at the target is stored in a later schema version, or if
    /// the last attempt conflicts with another writer. Returns the errors of the stores.
    pub async fn move_to(&self, key: impl KeyOf<T>, target: &Self, to: impl KeyOf<T>) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        if Arc::ptr_eq(self.store(), target.store()) && self.name() == target.name() && key == to {
            return Err(Error::invalid_request(format!(
                "a move of {key} in '{}' has the same key as its target",
                self.name()
            )));
        }
        self.to_write(&key, "a move").await?;
        target.to_write(&to, "a move").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            let Some(row) = self.store().get(self.name(), &key, None).await? else { return Ok(false) };
            let version = row.etag().cloned().map_or(IfMatch::Any, IfMatch::Exactly);
            let moved = row.with_system(None, None).with_key(to.clone());
            let put = if T::SCHEMA.may_be_newer() {
                insert_or_replace_at(moved, target.shared().replaceable_version(T::SCHEMA, &to).await?)
            } else {
                Operation::InsertOrReplace(moved)
            };
            // The target first: a crash between the two requests leaves two entities. In the other order it would
            // leave none.
            let moved = match target.write(put).await {
                Ok(_) => self.write(Operation::Delete(key.clone(), version)).await,
                Err(error) => Err(error),
            };
            match moved {
                Err(error) => conflicts.wait(error).await?,
                Ok(_) => return Ok(true),
            }
        }
    }
}

/// Schema versions.
impl<T: TableEntity> Table<T> {
    /// Converts every entity that is stored in an older schema version to the current version. Returns the number of
    /// converted entities.
    ///
    /// Properties that no version of the type knows are kept. Rows of a newer version do not change.
    ///
    /// Reads convert older rows, but filters and projections work on the stored properties. Run the upgrade after the
    /// last program that writes the older version has stopped. After an interruption run it again; it continues with
    /// the remaining rows. If another writer changes an entity at the same time, the entity is read again.
    ///
    /// 1 request per page of the type's rows and 1 request per older entity, at most
    /// [`with_concurrency`](Self::with_concurrency) at once; 2 more requests per conflict with another writer. An entity that cannot be
    /// converted does not stop the upgrade of the others; [`SchemaDiff`](crate::typed::SchemaDiff) lists such entities before. The
    /// handles of `table-patterns`, such as `IndexedTable`, have their own `upgrade_all`.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::typed::{Table, TableEntity};
    /// #[derive(TableEntity)]
    /// #[entity(type = "Customer")]
    /// struct CustomerV1 {
    ///     #[partition_key] country: String,
    ///     #[row_key] number: u32,
    ///     full_name: String,
    /// }
    /// #[derive(TableEntity)]
    /// #[entity(type = "Customer", version = 2, previous = CustomerV1)]
    /// struct Customer {
    ///     #[partition_key] country: String,
    ///     #[row_key] number: u32,
    ///     name: String,
    /// }
    /// impl From<CustomerV1> for Customer {
    ///     fn from(old: CustomerV1) -> Self {
    ///         Self { country: old.country, number: old.number, name: old.full_name }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// let customers = Table::<Customer>::new(MemoryStore::new(), "Customers")?;
    /// customers.create_if_missing().await?;
    /// let old = CustomerV1 { country: "UK".into(), number: 1, full_name: "Ada".into() };
    /// customers.view::<CustomerV1>()?.insert(&old).await?;
    ///
    /// let by_name = customers.query().filter(Customer::NAME.eq("Ada"));
    /// assert_eq!(by_name.count().await?, 0); // the row has a full_name
    /// assert_eq!(customers.upgrade_all().await?, 1);
    /// assert_eq!(by_name.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if a conversion fails or changes a key, after all other entities were converted: returns the first such error. Also returns the
    /// errors of the store.
    pub async fn upgrade_all(&self) -> Result<u64> {
        self.shared().check_no_index(T::SCHEMA.indexes.first(), "an upgrade")?;
        let rows = self.query().project::<Entity>().stream();
        let upgrades = rows.map_ok(|row| async move {
            match self.upgrade(row).await {
                Err(error) if error.is_of_one_entity() => Ok(Err(error)),
                done => done.map(Ok),
            }
        });
        let upgrades = upgrades.try_buffer_unordered(self.shared().concurrency);
        let add = |upgraded: Upgraded, one| ready(Ok(upgraded.with(one)));
        upgrades.try_fold(Upgraded::default(), add).await?.into_result()
    }

    /// Converts one entity. Returns whether it was converted.
    async fn upgrade(&self, mut row: Entity) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.shared().attempts);
        while T::SCHEMA.stored_version(&row)? < i64::from(T::SCHEMA.version) {
            let key = row.key().clone();
            let version = row.etag().cloned().map_or(IfMatch::Any, IfMatch::Exactly);
            let mut new = T::from_entity(row.clone())?.to_entity()?;
            T::SCHEMA.keep_unknown(&row, &mut new)?;
            match self.write(Operation::Replace(new, version)).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_entity_not_found() => return Ok(false),
                Err(error) => conflicts.wait(error).await?,
            }
            let Some(now) = self.store().get(self.name(), &key, None).await? else { return Ok(false) };
            row = now;
        }
        Ok(false)
    }
}

/// The result of an upgrade of many entities: the number of converted entities, and the first error that concerns one entity.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Upgraded {
    count: u64,
    error: Option<Error>,
}

impl Upgraded {
    /// Adds the result for one entity.
    #[must_use]
    pub fn with(mut self, one: Result<bool>) -> Self {
        match one {
            Ok(upgraded) => self.count += u64::from(upgraded),
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self
    }

    /// Returns the number of converted entities.
    ///
    /// # Errors
    /// Returns the first error.
    pub fn into_result(self) -> Result<u64> {
        self.error.map_or(Ok(self.count), Err)
    }
}
