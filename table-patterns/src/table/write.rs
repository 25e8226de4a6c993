//! Writes of typed entities. Without indexes, each is the write of the row alone. With indexes, it is a [`Change`] or a closure for
//! [`modify`](crate::index::IndexedEntities::modify), which [`IndexedEntities::write`](crate::index::IndexedEntities::write) sends.

use std::sync::atomic::{AtomicBool, Ordering};

use table_core::manifest::IndexDefinition;
use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, Outcome, Result, Written};
use table_core::typed::{EntityPatch as _, KeyOf, PlainTable, TableEntity};

use super::Table;
use crate::index::Stored;
use crate::journal::{Change, is_marked};

/// Writes. Each says its requests without indexes; with indexes, "a write" is that of
/// [`IndexedEntities::write`](crate::index::IndexedEntities::write): 1 request if all entries are in the partition.
impl<T: TableEntity> Table<T> {
    /// Inserts an entity that must not exist. 1 request; 3 if a stored entity is due, which is replaced in the version that was read. With
    /// indexes, a write.
    ///
    /// # Errors
    /// The entity exists already; a unique value is taken.
    pub async fn insert(&self, entity: &T) -> Result<Written> {
        if let Some(written) = self.write_plain(|plain| plain.insert(entity)).await {
            return written;
        }
        self.write_changes(&[Change::insert(entity.to_entity()?)])
            .await
    }

    /// Inserts the entity or replaces the existing entity: the last writer wins. 1 request for a type with neither `type` nor `version`,
    /// otherwise 2: the first shows that the stored entity has no later version of the schema. 2 more for each conflict. With indexes, a
    /// write and the read of the old value.
    ///
    /// # Errors
    /// A unique value is taken; the write conflicts after all attempts; the entity is stored in a later version
    /// of the schema.
    pub async fn upsert(&self, entity: &T) -> Result<Written> {
        if let Some(written) = self.write_plain(|plain| plain.upsert(entity)).await {
            return written;
        }
        let entity = entity.to_entity()?;
        let replace = |old: Option<&Entity>| {
            old.map_or(Ok(()), |old| T::SCHEMA.check_replaceable(old))?;
            Ok(Some(entity.clone()))
        };
        self.modify(entity.key(), replace).await
    }

    /// Replaces the entity in the version of its `#[etag]` field. The result has the new version. 1 request. With indexes, a write and the
    /// read of the old value; [`replace_stored`](Self::replace_stored) has the old value already.
    ///
    /// # Errors
    /// Precondition failed: another writer changed the entity first. Entity not found. The value has no ETag. A
    /// unique value is taken. The entity is stored in a later version of the schema.
    pub async fn replace(&self, entity: &T) -> Result<Written> {
        self.replace_if(entity, entity.own_version()?).await
    }

    /// Replaces the entity in this version; [`IfMatch::Any`] accepts any version. 1 request; with [`IfMatch::Any`] as many as
    /// [`upsert`](Self::upsert). With indexes, a write and the read of the old value.
    ///
    /// # Errors
    /// As for [`replace`](Self::replace); the write conflicts after all attempts.
    pub async fn replace_if(&self, entity: &T, version: impl Into<IfMatch>) -> Result<Written> {
        let version = version.into();
        let plain = |plain| PlainTable::replace_if(plain, entity, version.clone());
        if let Some(written) = self.write_plain(plain).await {
            return written;
        }
        let new = entity.to_entity()?;
        let key = new.key();
        self.modify(key, |old| {
            T::SCHEMA.check_replaceable(self.wanted(key, old, &version)?)?;
            Ok(Some(new.clone()))
        })
        .await
    }

    /// Replaces an entity that was read, in that version: the old value decides which entries to remove. Keeps the
    /// properties that `T` does not have, as [`update`](Self::update) does. 1 request. With indexes, a write.
    ///
    /// # Errors
    /// Another writer changed the entity since the read; a unique value is taken; the keys differ.
    pub async fn replace_stored(&self, old: &Stored<T>, new: &T) -> Result<Written> {
        let new = T::SCHEMA.updated(old.entity(), new.to_entity()?)?;
        self.write_changes(&[Change::replace(old.entity().clone(), new)])
            .await
    }

    /// Changes an entity that was read, in that version, and updates `stored` to the new version: a task that
    /// works on an entity for long reads it once. 1 request. With indexes, a write, and 1 read in a table with indexes that copy into
    /// entities.
    ///
    /// If the answer was lost and the new version is unknown, `stored` stays unchanged: its next write is
    /// refused, and the entity must be read again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// # use table_patterns::index::IndexOptions;
    /// # use table_patterns::Database;
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(type = "Job", rename_all = "PascalCase")]
    /// # #[index(state, row_key = "state_{state}_{id:06}")]
    /// # struct Job { #[partition_key] queue: String, #[row_key(format = "job_{:06}")] id: u32, state: String }
    /// # let jobs = Database::new(MemoryStore::new()).table::<Job>("Jobs")?;
    /// # jobs.insert(&Job { queue: "mail".into(), id: 1, state: "new".into() }).await?;
    /// let mut job = jobs.get_existing_stored(Job::key("mail", 1)?).await?;
    /// for state in ["running", "done"] {
    ///     let set = |job: &mut Job| {
    ///         job.state = state.to_owned();
    ///         Ok(())
    ///     };
    ///     jobs.update_stored(&mut job, set).await?; // 1 request
    /// }
    /// assert_eq!(jobs.by(Job::by_state("mail").state("done")).count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An error of `change`; another writer changed the entity since the read; a unique value is taken; the key
    /// differs. `stored` stays unchanged.
    pub async fn update_stored(
        &self,
        stored: &mut Stored<T>,
        change: impl FnOnce(&mut T) -> Result<()> + Send,
    ) -> Result<Written> {
        if let Some(large) = self.large() {
            return Box::pin(self.update_stored_large(large, stored, change)).await;
        }
        let mut value = T::from_entity(stored.entity().clone())?;
        change(&mut value)?;
        let mut new = value.to_entity()?;
        T::SCHEMA.keep_unknown(stored.entity(), &mut new)?;
        let changes = [Change::replace(stored.entity().clone(), new)];
        let written = self.write_changes(&changes).await?;
        let [Change { new, .. }] = changes;
        // If the new state is not known, the caller keeps the earlier one. Its next write then fails at the
        // ETag, and no update is lost.
        if let Some((new, etag)) = new.zip(written.etag.clone())
            && let Some(now) = self.as_stored(new.with_system(Some(etag), None)).await
            && let Ok(now) = Stored::read(now)
        {
            *stored = now;
        }
        Ok(written)
    }

    /// Reads the entity, lets `change` change it, and replaces it in the version that was read; starts again
    /// after a conflict, up to [`with_attempts`](Self::with_attempts) times. Returns the entity as stored. Properties that `T` does not
    /// know stay.
    ///
    /// 2 requests, and 2 more for each conflict. With indexes, a write and the read of the old value, and all of them again for each
    /// conflict; 1 more in a table with indexes that copy into entities, and 1 more after a lost answer: that read may return a later
    /// write.
    ///
    /// # Errors
    /// Entity not found; an error of `change`; `change` changed the key; a unique value is taken; the write
    /// conflicts after all attempts.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()> + Send,
    ) -> Result<T> {
        let (key, mut made) = (key.into_key(), None);
        if let Some(large) = self.large() {
            return Box::pin(self.update_large(large, &key, change)).await;
        }
        let changed = &mut change;
        let plain = self.write_plain(|plain| plain.update(&key, changed)).await;
        if let Some(updated) = plain {
            return updated;
        }
        let written = self
            .modify(&key, |old| {
                let old = self.visible_row(old).ok_or_else(|| self.missing(&key))?;
                let mut value = T::from_entity(old.clone())?;
                change(&mut value)?;
                let new = T::SCHEMA.updated(old, value.to_entity()?)?;
                made = Some(new.clone());
                Ok(Some(new))
            })
            .await?;
        let stored = match made.zip(written.etag) {
            Some((new, etag)) => self.as_stored(new.with_system(Some(etag), None)).await,
            None => None,
        };
        let stored = match stored {
            Some(stored) => T::from_entity(stored),
            None => self.get_existing(&key).await,
        };
        stored.map_err(|error| error.with_outcome(Outcome::Applied))
    }

    /// Merges the fields of a patch into the entity in this version; [`IfMatch::Any`] accepts any version. The
    /// patch has no field that a declared index holds, so no entry changes. As many requests as
    /// [`PlainTable::merge`](table_core::typed::PlainTable::merge).
    ///
    /// In a table with remote entries, the entity may be under a move. With [`IfMatch::Any`], or with a version
    /// that was read during a move, the entity is therefore read and replaced.
    ///
    /// A patch may change fields that other indexes ([`table_with`](crate::Database::table_with)) hold, and a [feed](crate::changes)
    /// records the merge: then the entity is read and replaced, and its entries follow. 1 request more than a write.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// # use table_patterns::index::IndexOptions;
    /// # use table_patterns::Database;
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(type = "Employee", rename_all = "PascalCase")]
    /// # #[index(email, row_key = "email_{email}", unique = "partition")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     email: String,
    /// #     age: i32,
    /// # }
    /// # let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
    /// # let ken = Employee { department: "Sales".into(), id: 1, email: "ken@x".into(), age: 41 };
    /// # employees.insert(&ken).await?;
    /// let older = Employee::patch().age(42); // there is no `.email(…)`: an index holds the property
    /// employees.merge(Employee::key("Sales", 1)?, &older, IfMatch::Any).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Precondition failed: another writer changed the entity first. Entity not found. The patch sets nothing.
    /// The entity is stored in another version of the schema.
    ///
    /// If the entity is read and replaced: a unique value is taken; with [`IfMatch::Any`], the write conflicts
    /// after all attempts.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Written> {
        let (key, version) = (key.into_key(), version.into());
        let plain = |plain| PlainTable::merge(plain, &key, patch, version.clone());
        if let Some(written) = self.write_plain(plain).await {
            return written;
        }
        if let Some(large) = self.large() {
            let patch = patch.to_entity(key)?;
            return Box::pin(self.merge_large(large, patch, &version)).await;
        }
        let indexes = self.indexes();
        let entities = indexes.to_write().await?;
        // Indexes that another program has declared may hold fields of the patch. A feed records the merge.
        let has_feed = T::SCHEMA.indexes.iter().any(IndexDefinition::is_feed);
        let has_others = || {
            has_feed || indexes.has_more() || entities.set.has_others_of(&T::SCHEMA.entity_type())
        };
        // Fresh states for the two questions below. The write asks again, under its own permission.
        drop(entities.set.prepare_write().await?);
        entities.set.check_type()?;
        // An unconditional write may meet an entity under a move; so does a version that was read during a move.
        let may_be_moved = match &version {
            IfMatch::Any => entities.changes().has_remote_entries(),
            IfMatch::Exactly(version) => is_marked(version),
        };
        if has_others() || may_be_moved {
            return self.merge_read(patch.to_entity(key)?, &version).await;
        }
        let (table, timing) = (
            self.plain().clone().ignoring_indexes(),
            entities.options.timing,
        );
        let declared = AtomicBool::new(false);
        let check = || {
            declared.store(has_others(), Ordering::Relaxed);
            let reason = "an index of the entities was declared during the merge";
            if declared.load(Ordering::Relaxed) {
                Err(Error::wrong_state(reason))
            } else {
                Ok(())
            }
        };
        let merge = table.merge(key.clone(), patch, version.clone());
        let written = entities.set.while_valid(timing, check, merge).await;
        if declared.load(Ordering::Relaxed) {
            return self.merge_read(patch.to_entity(key)?, &version).await;
        }
        written
    }

    /// A merge that may change entries: it reads the old value, which decides the changes of entries.
    async fn merge_read(&self, patch: Entity, version: &IfMatch) -> Result<Written> {
        let key = patch.key();
        self.modify(key, |old| {
            T::SCHEMA
                .merged(self.wanted(key, self.visible_row(old), version)?, &patch)
                .map(Some)
        })
        .await
    }

    /// Inserts the entity, or merges its properties into the existing entity. A field that is `None` keeps the
    /// stored value, and so do properties that `T` does not know. 1 request for a type with neither `type`, `version`, `#[expires]`,
    /// `#[deleted_at]` nor a split field, otherwise 2, and 2 more for each conflict. With indexes, a write and the read of the old value.
    ///
    /// # Errors
    /// A unique value is taken; the write conflicts after all attempts. The existing entity has another type,
    /// or another version of the schema: [`update`](Self::update) it.
    pub async fn insert_or_merge(&self, entity: &T) -> Result<Written> {
        let plain = |plain| PlainTable::insert_or_merge(plain, entity);
        if let Some(written) = self.write_plain(plain).await {
            return written;
        }
        let entity = entity.to_entity()?;
        let merge = |old: Option<&Entity>| match old {
            Some(old) => match self.merge_base(old)? {
                Some(old) => T::SCHEMA.merged(old, &entity).map(Some),
                None => Ok(Some(entity.clone())),
            },
            None => Ok(Some(entity.clone())),
        };
        self.modify(entity.key(), merge).await
    }

    /// The stored row, unless the entity is hidden from this handle.
    fn visible_row<'e>(&self, row: Option<&'e Entity>) -> Option<&'e Entity> {
        row.filter(|row| !self.plain().hides(row))
    }

    /// The stored row into which a write may merge; `None` if the write replaces it.
    fn merge_base<'e>(&self, row: &'e Entity) -> Result<Option<&'e Entity>> {
        if self.plain().shows_hidden() {
            return Ok(Some(row));
        }
        T::SCHEMA.merge_base(row, self.store().context().now())
    }

    /// The entity that was read, if it exists in the requested version.
    fn wanted<'e>(
        &self,
        key: &Key,
        old: Option<&'e Entity>,
        version: &IfMatch,
    ) -> Result<&'e Entity> {
        self.check_version(key, old, version)?;
        old.ok_or_else(|| self.missing(key))
    }

    /// Deletes the entity in this version, with its entries; [`IfMatch::Any`] accepts any version. 1 request. With indexes, a write and the
    /// read of the old value; [`delete_stored`](Self::delete_stored) has the old value already.
    ///
    /// # Errors
    /// Precondition failed: another writer changed the entity first. Entity not found. The write conflicts
    /// after all attempts.
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<Written> {
        let (key, version) = (key.into_key(), version.into());
        let plain = |plain| PlainTable::delete(plain, &key, version.clone());
        if let Some(deleted) = self.write_plain(plain).await {
            return deleted.map(|()| Written::deleted());
        }
        self.modify(&key, |old| self.wanted(&key, old, &version).map(|_| None))
            .await
    }

    /// Deletes the entity in any version; returns whether it existed. Requests as for [`delete`](Self::delete).
    ///
    /// # Errors
    /// The write conflicts after all attempts.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        let key = key.into_key();
        let plain = |plain| PlainTable::delete_if_exists(plain, &key);
        if let Some(existed) = self.write_plain(plain).await {
            return existed;
        }
        if let Some(large) = self.large() {
            let deleted = Box::pin(self.modify_large(large, &key, |_| Ok(None))).await?;
            return Ok(deleted.is_some());
        }
        let entities = self.indexes().to_write().await?;
        let done = Box::pin(entities.modify(&key, |_| Ok(None))).await?;
        Ok(!done.written.is_empty())
    }

    /// Deletes the entity in the version of its `#[etag]` field. Requests as for [`delete`](Self::delete).
    ///
    /// # Errors
    /// As for [`replace`](Self::replace).
    pub async fn delete_entity(&self, entity: &T) -> Result<Written> {
        self.delete(entity.entity_key()?, entity.own_version()?)
            .await
    }

    /// Deletes an entity that was read, in that version. 1 request. With indexes, a write.
    ///
    /// # Errors
    /// Another writer changed the entity since the read.
    pub async fn delete_stored(&self, old: &Stored<T>) -> Result<Written> {
        self.write_changes(&[Change::delete(old.entity().clone())])
            .await
    }

    /// Moves an entity with its entries to a key of this or another table, and replaces an entity at that key.
    /// See [`IndexedEntities::move_to`](crate::index::IndexedEntities::move_to).
    ///
    /// # Errors
    /// As for [`IndexedEntities::move_to`](crate::index::IndexedEntities::move_to); the entity at the target has a later
    /// version of the schema.
    pub async fn move_to(
        &self,
        key: impl KeyOf<T>,
        target: &Self,
        to: impl KeyOf<T>,
    ) -> Result<()> {
        let (key, to) = (key.into_key(), to.into_key());
        if let (Some(here), Some(there)) = (self.large(), target.large()) {
            return Box::pin(self.move_large(here, &key, (target, there), &to)).await;
        }
        if self.maintained_entities().await?.is_none()
            && target.maintained_entities().await?.is_none()
        {
            return self.plain().move_to(&key, target.plain(), &to).await;
        }
        let here = self.indexes().to_write().await?;
        let there = target.indexes().to_write().await?;
        let check = |old: &Entity| T::SCHEMA.check_replaceable(old);
        let (here, there) = (here.changes(), there.changes());
        Box::pin(here.move_to(&key, &there, &to, check)).await
    }

    /// Writes one change with its entries, or its row alone if there are no indexes.
    async fn write_changes(&self, changes: &[Change; 1]) -> Result<Written> {
        let [change] = changes;
        let plain = async |plain: &PlainTable<T>| plain.write(change.operation()?).await;
        if let Some(written) = self.write_plain(plain).await {
            return written;
        }
        if let Some(large) = self.large() {
            let (written, _) = Box::pin(self.write_large(large, change)).await?;
            return Ok(written);
        }
        let entities = self.indexes().to_write().await?;
        // Boxed: the future of a write by the journal is large.
        let committed = Box::pin(entities.write(changes)).await?;
        Ok(committed.into_written())
    }

    async fn modify(
        &self,
        key: &Key,
        change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Written> {
        if let Some(large) = self.large() {
            let written = Box::pin(self.modify_large(large, key, change)).await?;
            return Ok(written.unwrap_or_default());
        }
        let entities = self.indexes().to_write().await?;
        let committed = Box::pin(entities.modify(key, change)).await?;
        Ok(committed.into_written())
    }

    /// The entity after a write, as stored.
    pub(super) async fn as_stored(&self, new: Entity) -> Option<Entity> {
        match self.indexes().opened() {
            Some(entities) => entities.changes().as_stored(new).await,
            None => Some(new),
        }
    }
}
