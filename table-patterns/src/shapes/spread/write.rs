use std::borrow::Cow;

use table_core::manifest::WriteTarget;
use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, ErrorKind, Operation, Outcome, Result, TableStore as _, Written};
use table_core::typed::{EntityPatch as _, KeyOf, Schema, TableEntity};

use super::place::{logical, stored};
use super::{SpreadRow, SpreadTable};
use crate::rows::conflict::{Conflicts, told_of, version_of};
use crate::rows::encrypted::marked_by_rule;
use crate::rows::plain::permit;

impl<T: TableEntity> SpreadTable<T> {
    /// Adds an entity that must not exist. One request; two while there is a previous number of buckets.
    ///
    /// # Errors
    /// The entity exists; a key or a value cannot be stored.
    pub async fn insert(&self, value: &T) -> Result<Written> {
        self.insert_logical(value.to_logical()?).await
    }

    async fn insert_logical(&self, entity: Entity) -> Result<Written> {
        if let Some(previous) = self.previous_key(entity.key())?
            && self.table.get(previous).await?.is_some()
        {
            let (table, key) = (self.name().to_string(), entity.key().to_string());
            return Err(ErrorKind::EntityAlreadyExists { table, key }.into());
        }
        self.write(Operation::Insert(self.here(entity)?)).await
    }

    /// Replaces the entity in the version it was read in: that of its `#[etag]` field. One request.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster, or it was moved. Entity not found. The value
    /// carries no ETag.
    pub async fn replace(&self, value: &T) -> Result<Written> {
        self.replace_if(value, value.own_version()?).await
    }

    /// Replaces the entity if it is in this version; [`IfMatch::Any`] asks for any. One request; two of any version for a type
    /// that has a `type` or a `version`, which may be stored in a later one; more while there is a previous number of buckets.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_if(&self, value: &T, version: impl Into<IfMatch>) -> Result<Written> {
        self.replace_logical(value.to_logical()?, version.into()).await
    }

    async fn replace_logical(&self, entity: Entity, version: IfMatch) -> Result<Written> {
        let looks = version == IfMatch::Any && T::SCHEMA.may_be_newer();
        self.write_existing(entity, version, looks, Schema::check_replaceable, Operation::Replace).await
    }

    /// Writes over the entity: at once, unless there is a previous number of buckets or what is there must be looked at, and then
    /// checked.
    async fn write_existing(
        &self,
        entity: Entity,
        version: IfMatch,
        looks: bool,
        check: fn(&Schema, &Entity) -> Result<()>,
        operation: fn(Entity, IfMatch) -> Operation,
    ) -> Result<Written> {
        if self.previous_key(entity.key())?.is_none() && !looks {
            return self.write(operation(self.here(entity)?, version)).await;
        }
        let key = entity.key().clone();
        self.at_its_place(&key, &version, |row, place, exactly| {
            check(T::SCHEMA, &row.entity)?;
            Ok(operation(entity.clone().with_key(place), exactly))
        })
        .await
    }

    /// Writes the entity, whatever was there. One request; two for a type that has a `type` or a `version`, which may be stored
    /// in a later one; more while there is a previous number of buckets.
    ///
    /// # Errors
    /// A key or a value cannot be stored; a conflict, after the last attempt.
    pub async fn upsert(&self, value: &T) -> Result<Written> {
        self.put_logical(value.to_logical()?).await
    }

    pub(super) async fn put_logical(&self, entity: Entity) -> Result<Written> {
        if self.previous_key(entity.key())?.is_none() && !T::SCHEMA.may_be_newer() {
            return self.write(Operation::InsertOrReplace(self.here(entity)?)).await;
        }
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let done = match self.replace_logical(entity.clone(), IfMatch::Any).await {
                Err(error) if error.is_entity_not_found() && !error.is_ambiguous() => {
                    self.insert_logical(entity.clone()).await
                }
                done => return done,
            };
            match done {
                Err(error) if error.is_already_exists() => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// Writes the fields that the patch sets over those of the entity, if it is in this version; [`IfMatch::Any`] asks for
    /// any. What the patch does not set stays.
    ///
    /// One request; two of any version for a type that has a `type` or a `version`, and of a type in version 2 or later; more
    /// while there is a previous number of buckets.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster, or it was moved. Entity not found. The patch sets nothing. The entity is
    /// stored in another version of the schema.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        self.merge_logical(patch.to_entity(key.into_key())?, version.into()).await
    }

    async fn merge_logical(&self, entity: Entity, version: IfMatch) -> Result<Written> {
        let looks = T::SCHEMA.version > 1 || (version == IfMatch::Any && T::SCHEMA.may_be_newer());
        // What is there stays in the version that it is stored in.
        let entity = Schema::without_version(entity);
        self.write_existing(entity, version, looks, Schema::check_patchable, Operation::Merge).await
    }

    /// Adds the entity, or writes its properties over those of the one that is there. A field that is `None` keeps what is
    /// stored, and so do properties that `T` does not know. Requests as for [`upsert`](Self::upsert).
    ///
    /// # Errors
    /// A key or a value cannot be stored; a conflict, after the last attempt. The entity that is there is of another type, or
    /// stored in another version of the schema: [`update`](Self::update) it.
    pub async fn insert_or_merge(&self, value: &T) -> Result<Written> {
        let entity = value.to_logical()?;
        if self.previous_key(entity.key())?.is_none() && !T::SCHEMA.may_be_newer() {
            return self.write(Operation::InsertOrMerge(self.here(entity)?)).await;
        }
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let done = match self.merge_logical(entity.clone(), IfMatch::Any).await {
                Err(error) if error.is_entity_not_found() && !error.is_ambiguous() => {
                    self.insert_logical(entity.clone()).await
                }
                done => return done,
            };
            match done {
                Err(error) if error.is_already_exists() => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// Reads the entity, lets `change` change it, and replaces it in the version that was read; from the start
    /// if another writer was faster. Returns what was stored. Properties that `T` does not know stay. Two requests.
    ///
    /// # Errors
    /// Entity not found; an error of `change`; `change` changed the key; precondition failed, after the
    /// last attempt.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let key = key.into_key();
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let row = self.existing(&key).await?;
            if row.is_moving() {
                conflicts.wait(self.moving(&key)).await?;
                continue;
            }
            let (place, version) = (self.place_of(&row)?, exact(&row)?);
            let old = row.entity.clone();
            let mut value = row.decode()?;
            change(&mut value)?;
            let mut entity = value.to_logical()?;
            if *entity.key() != key {
                let name = T::SCHEMA.rust_name;
                return Err(Error::invalid_request(format!("an update of the {name} {key} changes its key")));
            }
            T::SCHEMA.keep_unknown(&old, &mut entity)?;
            match self.write(Operation::Replace(entity.clone().with_key(place), version)).await {
                Err(error) => conflicts.wait(error).await?,
                Ok(written) => {
                    let stored = T::from_entity(entity.with_system(written.etag, None));
                    return stored.map_err(|error| error.with_outcome(Outcome::Applied));
                }
            }
        }
    }

    /// Removes the entity if it is in this version; [`IfMatch::Any`] asks for any. One request; more while
    /// there is a previous number of buckets.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster, or it was moved. Entity not found.
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        let (key, version) = (key.into_key(), version.into());
        if self.previous_key(&key)?.is_none() {
            return self.write(Operation::Delete(stored(&key, self.spread)?, version)).await.map(drop);
        }
        self.at_its_place(&key, &version, |_, key, version| Ok(Operation::Delete(key, version)))
            .await
            .map(drop)
    }

    /// Removes the entity in any version, if it is there; whether it was. Requests as for [`delete`](Self::delete).
    ///
    /// # Errors
    /// The store's.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        match self.delete(key, IfMatch::Any).await {
            Err(error) if error.is_entity_not_found() && !error.is_ambiguous() => Ok(false),
            other => other.map(|()| true),
        }
    }

    pub(super) async fn delete_if_there(&self, key: Key, version: IfMatch) -> Result<()> {
        match self.write(Operation::Delete(key, version)).await {
            Err(error) if error.is_entity_not_found() && !error.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Writes to the row where it is found, in the version found, if that is the one wanted.
    pub(super) async fn at_its_place(
        &self,
        key: &Key,
        wanted: &IfMatch,
        operation: impl Fn(&SpreadRow<T>, Key, IfMatch) -> Result<Operation>,
    ) -> Result<Written> {
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let row = self.existing(key).await?;
            let exactly = exact(&row)?;
            let operation = operation(&row, self.place_of(&row)?, exactly.clone())?;
            let lost = if self.must_wait(&row, &operation).await? {
                self.moving(key)
            } else if *wanted != IfMatch::Any && *wanted != exactly {
                return Err(self.changed(key));
            } else {
                match self.write(operation).await {
                    Err(error) if *wanted == IfMatch::Any => error,
                    done => return done,
                }
            };
            conflicts.wait(lost).await?;
        }
    }

    /// Whether a migration has begun to move the row and must come to an end before the operation. For a delete it is
    /// not enough that the row is at its new place: what is left at the old one would be moved there again.
    async fn must_wait(&self, row: &SpreadRow<T>, operation: &Operation) -> Result<bool> {
        if row.is_moving() || !matches!(operation, Operation::Delete(..)) {
            return Ok(row.is_moving());
        }
        match self.previous_key(row.entity.key())? {
            Some(previous) if previous.partition() != row.partition => {
                self.table.get(previous).await.map(|left| left.is_some())
            }
            _ => Ok(false),
        }
    }

    fn changed(&self, key: &Key) -> Error {
        let (table, key) = (self.name().to_string(), key.to_string());
        ErrorKind::PreconditionFailed { table, key }.into()
    }

    pub(super) fn moving(&self, key: &Key) -> Error {
        self.changed(key).with_source(format!(
            "{key} is being moved to another bucket: if no migration is under way, one died: run `migrate` again"
        ))
    }

    pub(super) fn place_of(&self, row: &SpreadRow<T>) -> Result<Key> {
        Key::new(&row.partition, row.entity.key().row())
    }

    /// An entity under its stored key.
    fn here(&self, entity: Entity) -> Result<Entity> {
        let key = stored(entity.key(), self.spread)?;
        Ok(entity.with_key(key))
    }

    pub(super) async fn write(&self, mut operation: Operation) -> Result<Written> {
        let key = logical(operation.key());
        // A rule by row knows the entity's key, not that of its bucket.
        if let (Some(key), Some(entity)) = (&key, operation.entity_mut()) {
            let marked = marked_by_rule(&**self.store(), self.name(), key, entity.properties());
            if let Cow::Owned(marked) = marked {
                *entity.properties_mut() = marked;
            }
        }
        let touched = T::SCHEMA.entity_type();
        let touched = WriteTarget::Type(&touched, operation.key());
        let _permitted = permit(&**self.store(), self.name(), touched).await?;
        let written = self.store().write(self.name(), operation).await;
        written.map_err(|error| match key {
            Some(key) => told_of(&key, error),
            None => error,
        })
    }
}

/// The version that a row was read in.
pub(super) fn exact<T>(row: &SpreadRow<T>) -> Result<IfMatch> {
    version_of(&row.entity)
}
