//! Writes of single entities, also while a migration moves them.

use std::borrow::Cow;

use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Conflicts, Error, Operation, Result, TableStore as _, Written};
use table_core::typed::{EntityPatch as _, KeyOf, Schema, TableEntity};

use super::place::{logical_key, stored_key};
use super::{SpreadRow, SpreadTable};
use crate::rows::encrypted::marked_by_rule;
use crate::rows::plain::permit_after;
use crate::rows::{existed, insert_over_due, with_entity_key, written_value};

/// What a write does with the properties of the stored entity.
#[derive(Clone, Copy)]
enum WriteKind {
    Replace,
    Merge,
}

impl WriteKind {
    /// The operation on an entity that must exist.
    const fn existing(self, entity: Entity, version: IfMatch) -> Operation {
        match self {
            Self::Replace => Operation::Replace(entity, version),
            Self::Merge => Operation::Merge(entity, version),
        }
    }

    /// The operation on an entity that may exist.
    const fn insert_or(self, entity: Entity) -> Operation {
        match self {
            Self::Replace => Operation::InsertOrReplace(entity),
            Self::Merge => Operation::InsertOrMerge(entity),
        }
    }
}

impl<T: TableEntity> SpreadTable<T> {
    /// Inserts an entity that must not exist; an entity that is due is replaced in the version that was read. 1 request, 3 over a due
    /// entity. With previous buckets, 1 more, and 2 in all over a due entity in its previous bucket.
    ///
    /// # Errors
    /// The entity exists; a key or a value that cannot be stored; a conflict over a due entity, after the last attempt.
    pub async fn insert(&self, value: &T) -> Result<Written> {
        self.insert_logical(value.to_logical()?).await
    }

    async fn insert_logical(&self, entity: Entity) -> Result<Written> {
        let mut conflicts = Conflicts::new(self.attempts);
        // An entity in its previous bucket exists too. An insert into the new bucket would make a second row of the entity, which
        // the migration cannot tell from a row that it has moved itself. So a row that is due is replaced where it is.
        while let Some(previous) = self.previous_key(entity.key())?
            && let Some(row) = self.rows.get(&previous).await?
        {
            if !T::SCHEMA.is_due(&row.entity, self.store().context().now()) {
                return Err(Error::entity_already_exists(self.name(), entity.key()));
            }
            let replaced = if row.is_moving() {
                // The migration copies the row after it has set the mark: a write to the old row would be lost.
                Err(self.moving(entity.key()))
            } else {
                let entity = entity.clone().with_key(previous);
                self.write(Operation::Replace(entity, row.entity.version()?))
                    .await
            };
            match replaced {
                Err(error) => conflicts.wait(error).await?,
                replaced => return replaced,
            }
        }
        self.write_over_due(self.with_stored_key(entity)?).await
    }

    /// Inserts a row with its stored key; a row that is due is replaced in the version that was read.
    async fn write_over_due(&self, row: Entity) -> Result<Written> {
        let row = &row;
        insert_over_due(
            T::SCHEMA,
            self.attempts,
            || self.write(Operation::Insert(row.clone())),
            || self.store().get(self.name(), row.key(), None),
            |old: &Entity| T::SCHEMA.is_due(old, self.store().context().now()),
            |old| async move {
                self.write(Operation::Replace(row.clone(), old.version()?))
                    .await
            },
        )
        .await
    }

    /// Replaces the entity in the version that was read, which its `#[etag]` field holds. 1 request.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity, or a migration has moved it. Entity not found. The value
    /// has no ETag.
    pub async fn replace(&self, value: &T) -> Result<Written> {
        self.replace_if(value, value.own_version()?).await
    }

    /// Replaces the entity if it has this version; [`IfMatch::Any`] accepts any version.
    ///
    /// 1 request. 2 for any version of a type with a `type` or a `version`, because the stored entity may have a later
    /// schema version. More with previous buckets.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub async fn replace_if(&self, value: &T, version: impl Into<IfMatch>) -> Result<Written> {
        self.replace_logical(value.to_logical()?, version.into())
            .await
    }

    async fn replace_logical(&self, entity: Entity, version: IfMatch) -> Result<Written> {
        // Without an exact version, only a read shows whether the stored entity has a later schema version.
        let must_read = version == IfMatch::Any && T::SCHEMA.may_be_newer();
        self.write_existing(entity, version, must_read, WriteKind::Replace)
            .await
    }

    /// Replaces or merges the entity. Reads and checks the stored entity first if `must_read`, or if the entity may be in a
    /// previous bucket.
    async fn write_existing(
        &self,
        entity: Entity,
        version: IfMatch,
        must_read: bool,
        kind: WriteKind,
    ) -> Result<Written> {
        if self.previous_key(entity.key())?.is_none() && !must_read {
            return self
                .write(kind.existing(self.with_stored_key(entity)?, version))
                .await;
        }
        let key = entity.key().clone();
        self.write_at_place(&key, &version, |row, place, version| {
            match kind {
                WriteKind::Replace => T::SCHEMA.check_replaceable(&row.entity)?,
                WriteKind::Merge if self.hides(row) => {
                    return Err(Error::entity_not_found(self.name(), &key));
                }
                WriteKind::Merge => T::SCHEMA.check_patchable(&row.entity)?,
            }
            Ok(kind.existing(entity.clone().with_key(place), version))
        })
        .await
    }

    /// Inserts or replaces the entity. 1 request; 2 for a type with a `type` or a `version`, because the stored entity may
    /// have a later schema version. More with previous buckets.
    ///
    /// # Errors
    /// A key or a value that cannot be stored; a conflict, after the last attempt.
    pub async fn upsert(&self, value: &T) -> Result<Written> {
        self.upsert_logical(value.to_logical()?).await
    }

    pub(super) async fn upsert_logical(&self, entity: Entity) -> Result<Written> {
        self.insert_or_write(entity, WriteKind::Replace).await
    }

    /// Inserts the entity, or writes it over the stored entity.
    async fn insert_or_write(&self, entity: Entity, kind: WriteKind) -> Result<Written> {
        // A merge reads the stored entity for two more reasons: only a replacement removes the parts of a longer split value, and an entity
        // that has expired or is deleted must not come back with its old properties.
        let reads_stored = T::SCHEMA.has_split() || T::SCHEMA.expiry.is_some();
        let must_read =
            T::SCHEMA.may_be_newer() || (reads_stored && matches!(kind, WriteKind::Merge));
        if self.previous_key(entity.key())?.is_none() && !must_read {
            return self
                .write(kind.insert_or(self.with_stored_key(entity)?))
                .await;
        }
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let written = match kind {
                WriteKind::Replace => self.replace_logical(entity.clone(), IfMatch::Any).await,
                WriteKind::Merge if T::SCHEMA.has_split() => self.merge_whole(&entity).await,
                WriteKind::Merge => self.merge_logical(entity.clone(), IfMatch::Any).await,
            };
            match written {
                Err(error) if error.is_certainly_missing() => {
                    match self.insert_logical(entity.clone()).await {
                        Err(error) if error.is_already_exists() => {
                            // The first write found no entity and the insert found one, for one of two reasons. Another writer
                            // has inserted it in between: try again. Or the entity is deleted and kept, so that every further
                            // attempt would fail in the same way: refuse.
                            self.refuse_deleted(entity.key()).await?;
                            conflicts.wait(error).await?;
                        }
                        done => return done,
                    }
                }
                done => return done,
            }
        }
    }

    /// Replaces the stored entity by its merge with another: only a replacement removes the parts of a longer value.
    async fn merge_whole(&self, entity: &Entity) -> Result<Written> {
        self.write_at_place(entity.key(), &IfMatch::Any, |row, place, version| {
            if self.hides(row) {
                return Err(Error::entity_not_found(self.name(), entity.key()));
            }
            let merged = T::SCHEMA
                .merged(&row.entity, entity)?
                .with_system(None, None);
            Ok(Operation::Replace(merged.with_key(place), version))
        })
        .await
    }

    /// Refuses an entity that is deleted and kept.
    async fn refuse_deleted(&self, key: &Key) -> Result<()> {
        let Some(row) = self.locate(key).await?.filter(|row| self.hides(row)) else {
            return Ok(());
        };
        // `merge_base` refuses an entity that is deleted and kept.
        T::SCHEMA
            .merge_base(&row.entity, self.store().context().now())
            .map(drop)
    }

    /// Merges the fields of a patch into the entity if it has this version; [`IfMatch::Any`] accepts any version. Other
    /// fields stay.
    ///
    /// 1 request. 2 for any version of a type with a `type` or a `version`, and for a type with version 2 or later. More with
    /// previous buckets.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity, or a migration has moved it. Entity not found. An empty
    /// patch. The entity has another schema version.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        self.merge_logical(patch.to_entity(key.into_key())?, version.into())
            .await
    }

    async fn merge_logical(&self, entity: Entity, version: IfMatch) -> Result<Written> {
        let may_have_changed = T::SCHEMA.may_be_newer() || T::SCHEMA.expiry.is_some();
        // A caller that gives an exact version has read the entity. But a read converts an entity of an earlier schema version, and a
        // patch does not fit the properties that are stored.
        let must_read = T::SCHEMA.version > 1 || (version == IfMatch::Any && may_have_changed);
        // A merge does not change the schema version of the stored entity.
        let entity = Schema::without_version(entity);
        self.write_existing(entity, version, must_read, WriteKind::Merge)
            .await
    }

    /// Inserts the entity, or merges its properties into the stored entity. A field that is `None` keeps its stored value, as
    /// do properties that `T` does not know. Requests as for [`upsert`](Self::upsert); 2 for a type with a split field.
    ///
    /// # Errors
    /// A key or a value that cannot be stored; a conflict, after the last attempt. The stored entity has another type, or
    /// another schema version: use [`update`](Self::update).
    pub async fn insert_or_merge(&self, value: &T) -> Result<Written> {
        self.insert_or_write(value.to_logical()?, WriteKind::Merge)
            .await
    }

    /// Reads the entity, calls `change`, and replaces the entity in the version that was read; after a conflict, starts
    /// again. Returns the stored entity. Properties that `T` does not know stay. 2 requests.
    ///
    /// # Errors
    /// Entity not found; the error of `change`; `change` changed the key; precondition failed, after the last attempt.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()>,
    ) -> Result<T> {
        let key = key.into_key();
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let row = self.existing_visible_row(&key).await?;
            if row.is_moving() {
                // The migration copies the row after it has set the mark: a write to the old row would be lost.
                conflicts.wait(self.moving(&key)).await?;
                continue;
            }
            let (place, version) = (self.place_of(&row)?, row.entity.version()?);
            let old = row.entity.clone();
            let mut value = row.decode()?;
            change(&mut value)?;
            let entity = T::SCHEMA.updated(&old, value.to_logical()?)?;
            match self
                .write(Operation::Replace(entity.clone().with_key(place), version))
                .await
            {
                Err(error) => conflicts.wait(error).await?,
                Ok(written) => return written_value(entity, written),
            }
        }
    }

    /// Deletes the entity if it has this version; [`IfMatch::Any`] accepts any version. 1 request; more with previous
    /// buckets.
    ///
    /// # Errors
    /// Precondition failed: another writer has changed the entity, or a migration has moved it. Entity not found.
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<()> {
        let (key, version) = (key.into_key(), version.into());
        if self.previous_key(&key)?.is_none() {
            return self
                .write(Operation::Delete(stored_key(&key, self.spread)?, version))
                .await
                .map(drop);
        }
        self.write_at_place(&key, &version, |_, key, version| {
            Ok(Operation::Delete(key, version))
        })
        .await
        .map(drop)
    }

    /// Deletes the entity in any version if it exists. Returns whether it existed. Requests as for
    /// [`delete`](Self::delete).
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        existed(self.delete(key, IfMatch::Any).await)
    }

    /// Deletes a row by its stored key, if it exists in this version.
    pub(super) async fn delete_row_if_exists(&self, key: Key, version: IfMatch) -> Result<()> {
        existed(self.write(Operation::Delete(key, version)).await).map(drop)
    }

    /// Finds the row of an entity and writes to it in the version that was read, if the version is the wanted one. `operation` gets the row,
    /// its key, and the condition for the version. With any version, repeats after a conflict; waits while a migration moves the row.
    pub(super) async fn write_at_place(
        &self,
        key: &Key,
        wanted: &IfMatch,
        operation: impl Fn(&SpreadRow<T>, Key, IfMatch) -> Result<Operation>,
    ) -> Result<Written> {
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let row = self.existing(key).await?;
            let version = row.entity.version()?;
            let operation = operation(&row, self.place_of(&row)?, version.clone())?;
            let lost = if self.must_wait(&row, &operation).await? {
                self.moving(key)
            } else if *wanted != IfMatch::Any && *wanted != version {
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

    /// Whether the operation must wait until a migration has moved the row.
    ///
    /// A delete waits also while the entity is in both buckets: if it deleted only the new row, the migration would move the
    /// old row there again.
    pub(super) async fn must_wait(
        &self,
        row: &SpreadRow<T>,
        operation: &Operation,
    ) -> Result<bool> {
        if row.is_moving() || !matches!(operation, Operation::Delete(..)) {
            return Ok(row.is_moving());
        }
        match self.previous_key(row.entity.key())? {
            Some(previous) if previous.partition() != row.partition => {
                self.rows.get(previous).await.map(|left| left.is_some())
            }
            _ => Ok(false),
        }
    }

    fn changed(&self, key: &Key) -> Error {
        Error::precondition_failed(self.name(), key)
    }

    pub(super) fn moving(&self, key: &Key) -> Error {
        self.changed(key).with_source(format!(
            "{key} is being moved to another bucket: wait for the migration, or if no migration runs, run `migrate` again"
        ))
    }

    /// The key under which a row was found, in its new or its previous bucket.
    pub(super) fn place_of(&self, row: &SpreadRow<T>) -> Result<Key> {
        Key::new(&row.partition, row.entity.key().row())
    }

    /// The entity with its stored key, in its new bucket.
    fn with_stored_key(&self, entity: Entity) -> Result<Entity> {
        let key = stored_key(entity.key(), self.spread)?;
        Ok(entity.with_key(key))
    }

    /// Marks the properties that a rule of the store encrypts. A rule that depends on the key expects the logical key, so the
    /// rules are applied before the stored key is used. Returns the logical key.
    pub(super) fn mark_by_rules(&self, operation: &mut Operation) -> Option<Key> {
        let key = logical_key(operation.key());
        if let (Some(key), Some(entity)) = (&key, operation.entity_mut()) {
            let marked = marked_by_rule(&**self.store(), self.name(), key, entity.properties());
            if let Cow::Owned(marked) = marked {
                *entity.properties_mut() = marked;
            }
        }
        key
    }

    pub(super) async fn write(&self, mut operation: Operation) -> Result<Written> {
        let key = self.mark_by_rules(&mut operation);
        let (store, table) = (&**self.store(), self.name());
        let _permitted =
            permit_after(store, table, T::SCHEMA, self.previous, operation.key()).await?;
        let written = self.store().write(self.name(), operation).await;
        written.map_err(|error| match key {
            Some(key) => with_entity_key(&key, error),
            None => error,
        })
    }
}
