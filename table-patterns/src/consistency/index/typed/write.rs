//! Writes of typed entities with their entries. Every function here builds a [`Change`] or a closure for
//! [`modify`](crate::index::IndexedEntities::modify);
//! [`IndexedEntities::write`](crate::index::IndexedEntities::write) sends it.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{Stream, StreamExt as _};
use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{BulkOutcome, Error, Outcome, Result, TableStore as _};
use table_core::typed::{EntityPatch as _, IndexedEntity, KeyOf, SoftDelete};

use super::table::IndexedTable;
use crate::index::{BulkInsert, Stored};
use crate::journal::{Change, Committed, Entries, is_marked};

impl<T: IndexedEntity> IndexedTable<T> {
    /// Sets the parallel requests of one call; at least 1. See
    /// [`IndexOptions::concurrency`](crate::index::IndexOptions::concurrency).
    #[must_use]
    pub fn with_concurrency(mut self, requests: usize) -> Self {
        self.entities = self
            .entities
            .with_options(|options| options.concurrency = requests.max(1));
        self
    }

    /// Sets the attempts of a write that conflicts with other writers; at least 1. See
    /// [`IndexOptions::attempts`](crate::index::IndexOptions::attempts).
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.entities.options.attempts = attempts.max(1);
        self
    }

    /// Waits until the background tasks of earlier writes have deleted or handed over their journal rows and tickets. See
    /// [`Journal::flush`](crate::journal::Journal::flush).
    pub async fn flush(&self) {
        self.entities.flush().await;
    }

    /// Inserts an entity. Requests: see [`IndexedEntities::write`](crate::index::IndexedEntities::write).
    ///
    /// # Errors
    /// The entity exists already; a unique value is taken.
    pub async fn insert(&self, entity: &T) -> Result<Committed> {
        self.entities
            .write(&[Change::insert(entity.to_entity()?)])
            .await
    }

    /// Inserts or replaces an entity: reads the old value first. 1 request more.
    ///
    /// # Errors
    /// A unique value is taken; the write conflicts after all attempts; the entity is stored in a later version
    /// of the schema.
    pub async fn upsert(&self, entity: &T) -> Result<Committed> {
        let entity = entity.to_entity()?;
        let replace = |old: Option<&Entity>| {
            old.map_or(Ok(()), |old| T::SCHEMA.check_replaceable(old))?;
            Ok(Some(entity.clone()))
        };
        self.entities.modify(entity.key(), replace).await
    }

    /// Replaces the entity in the version of its `#[etag]` field. The result has the new version. The old value
    /// is read first: 1 request more than a write; [`replace_stored`](Self::replace_stored) has the old value
    /// already.
    ///
    /// # Errors
    /// Precondition failed: another writer changed the entity first. Entity not found. The value has no ETag. A
    /// unique value is taken. The entity is stored in a later version of the schema.
    pub async fn replace(&self, entity: &T) -> Result<Committed> {
        self.replace_if(entity, entity.own_version()?).await
    }

    /// Replaces the entity in this version; [`IfMatch::Any`] accepts any version. The old value is read first:
    /// 1 request more than a write.
    ///
    /// # Errors
    /// As for [`replace`](Self::replace); the write conflicts after all attempts.
    pub async fn replace_if(&self, entity: &T, version: impl Into<IfMatch>) -> Result<Committed> {
        let (new, version) = (entity.to_entity()?, version.into());
        let key = new.key();
        self.entities
            .modify(key, |old| {
                T::SCHEMA.check_replaceable(self.wanted(key, old, &version)?)?;
                Ok(Some(new.clone()))
            })
            .await
    }

    /// Replaces an entity that was read, in that version: the old value decides which entries to remove. Keeps the
    /// properties that `T` does not have, as [`update`](Self::update) does. No request more than a write.
    ///
    /// # Errors
    /// Another writer changed the entity since the read; a unique value is taken; the keys differ.
    pub async fn replace_stored(&self, old: &Stored<T>, new: &T) -> Result<Committed> {
        let new = T::SCHEMA.updated(old.entity(), new.to_entity()?)?;
        self.entities
            .write(&[Change::replace(old.entity().clone(), new)])
            .await
    }

    /// Changes an entity that was read, in that version, and updates `stored` to the new version: a task that
    /// works on an entity for long reads it once. No request more than a write, and 1 read in a table with
    /// indexes that copy into entities.
    ///
    /// If the answer was lost and the new version is unknown, `stored` stays unchanged: its next write is
    /// refused, and the entity must be read again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// # use table_patterns::index::{IndexOptions, IndexedTable};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(type = "Job", rename_all = "PascalCase")]
    /// # #[index(state, row_key = "state_{state}_{id:06}")]
    /// # struct Job { #[partition_key] queue: String, #[row_key(format = "job_{:06}")] id: u32, state: String }
    /// # let jobs = IndexedTable::<Job>::open(MemoryStore::new(), "Jobs", IndexOptions::local()).await?;
    /// # jobs.insert(&Job { queue: "mail".into(), id: 1, state: "new".into() }).await?;
    /// let mut job = jobs.get_existing(Job::key("mail", 1)?).await?;
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
    ) -> Result<Committed> {
        let mut value = T::from_entity(stored.entity().clone())?;
        change(&mut value)?;
        let mut new = value.to_entity()?;
        T::SCHEMA.keep_unknown(stored.entity(), &mut new)?;
        let changes = [Change::replace(stored.entity().clone(), new)];
        let committed = self.entities.write(&changes).await?;
        let [Change { new, .. }] = changes;
        // If the new state is not known, the caller keeps the earlier one. Its next write then fails at the
        // ETag, and no update is lost.
        if let Some((new, etag)) = new.zip(committed.written.first().and_then(|w| w.etag.clone()))
            && let Some(now) = self
                .entities
                .changes()
                .as_stored(new.with_system(Some(etag), None))
                .await
            && let Ok(now) = Stored::read(now)
        {
            *stored = now;
        }
        Ok(committed)
    }

    /// Reads the entity, lets `change` change it, and replaces it in the version that was read; starts again
    /// after a conflict, up to [`IndexOptions::attempts`](crate::index::IndexOptions::attempts) times. Returns
    /// the entity as stored. Properties that `T` does not know stay.
    ///
    /// 1 request more than a write, and all of them again for each conflict. 1 more in a table with indexes
    /// that copy into entities, and 1 more after a lost answer: that read may return a later write.
    ///
    /// # Errors
    /// Entity not found; an error of `change`; `change` changed the key; a unique value is taken; the write
    /// conflicts after all attempts.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()> + Send,
    ) -> Result<Stored<T>> {
        let (key, mut made) = (key.into_key(), None);
        let committed = self
            .entities
            .modify(&key, |old| {
                let old = self.visible_row(old).ok_or_else(|| self.missing(&key))?;
                let mut value = T::from_entity(old.clone())?;
                change(&mut value)?;
                let new = T::SCHEMA.updated(old, value.to_entity()?)?;
                made = Some(new.clone());
                Ok(Some(new))
            })
            .await?;
        let etag = committed.etag().cloned();
        let stored = match made.zip(etag) {
            Some((new, etag)) => {
                self.entities
                    .changes()
                    .as_stored(new.with_system(Some(etag), None))
                    .await
            }
            None => None,
        };
        let stored = match stored {
            Some(stored) => Stored::read(stored),
            None => self.get_existing(&key).await,
        };
        stored.map_err(|error| error.with_outcome(Outcome::Applied))
    }

    /// Merges the fields of a patch into the entity in this version; [`IfMatch::Any`] accepts any version. The
    /// patch has no field that a declared index holds, so no entry changes. As many requests as
    /// [`Table::merge`](table_core::typed::Table::merge).
    ///
    /// In a table with remote entries, the entity may be under a move. With [`IfMatch::Any`], or with a version
    /// that was read during a move, the entity is therefore read and replaced.
    ///
    /// A patch may change fields that other indexes ([`open_with`](Self::open_with)) hold: with such indexes,
    /// the entity is read and replaced, and its entries follow. 1 request more than a write.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// # use table_patterns::index::{IndexOptions, IndexedTable};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(type = "Employee", rename_all = "PascalCase")]
    /// # #[index(email, row_key = "email_{email}", unique = "partition")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     email: String,
    /// #     age: i32,
    /// # }
    /// # let employees = IndexedTable::<Employee>::open(MemoryStore::new(), "Employees", IndexOptions::local()).await?;
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
    ) -> Result<Committed> {
        let (key, version) = (key.into_key(), version.into());
        // Indexes that another program has declared may hold fields of the patch.
        let has_others =
            || self.has_more || self.entities.set.has_others_of(&T::SCHEMA.entity_type());
        // Fresh states for the two questions below. The write asks again, under its own permission.
        drop(self.entities.set.prepare_write().await?);
        self.entities.set.check_type()?;
        // An unconditional write may meet an entity under a move; so does a version that was read during a move.
        let may_be_moved = match &version {
            IfMatch::Any => self.entities.changes().has_remote_entries(),
            IfMatch::Exactly(version) => is_marked(version),
        };
        if has_others() || may_be_moved {
            return self.merge_read(patch.to_entity(key)?, &version).await;
        }
        let (table, timing) = (
            self.table().clone().unmanaged(),
            self.entities.options.timing,
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
        let written = self
            .entities
            .set
            .while_valid(
                timing,
                check,
                table.merge(key.clone(), patch, version.clone()),
            )
            .await;
        if declared.load(Ordering::Relaxed) {
            return self.merge_read(patch.to_entity(key)?, &version).await;
        }
        Ok(Committed {
            written: vec![written?],
            entries: Entries::Applied,
        })
    }

    /// A merge that may change entries: it reads the old value, which decides the changes of entries.
    async fn merge_read(&self, patch: Entity, version: &IfMatch) -> Result<Committed> {
        let key = patch.key();
        self.entities
            .modify(key, |old| {
                T::SCHEMA
                    .merged(self.wanted(key, self.visible_row(old), version)?, &patch)
                    .map(Some)
            })
            .await
    }

    /// Inserts the entity, or merges its properties into the existing entity. A field that is `None` keeps the
    /// stored value, and so do properties that `T` does not know. The old value is read first: 1 request more
    /// than a write.
    ///
    /// # Errors
    /// A unique value is taken; the write conflicts after all attempts. The existing entity has another type,
    /// or another version of the schema: [`update`](Self::update) it.
    pub async fn insert_or_merge(&self, entity: &T) -> Result<Committed> {
        let entity = entity.to_entity()?;
        let merge = |old: Option<&Entity>| match old {
            Some(old) => match self.merge_base(old)? {
                Some(old) => T::SCHEMA.merged(old, &entity).map(Some),
                None => Ok(Some(entity.clone())),
            },
            None => Ok(Some(entity.clone())),
        };
        self.entities.modify(entity.key(), merge).await
    }

    /// The stored row, unless the entity is hidden from this handle.
    fn visible_row<'e>(&self, row: Option<&'e Entity>) -> Option<&'e Entity> {
        row.filter(|row| !self.table().hides(row))
    }

    /// The stored row into which a write may merge; `None` if the write replaces it.
    fn merge_base<'e>(&self, row: &'e Entity) -> Result<Option<&'e Entity>> {
        if self.table().shows_hidden() {
            return Ok(Some(row));
        }
        T::SCHEMA.merge_base(row, self.entities.store().context().now())
    }

    /// The entity that was read, if it exists in the requested version.
    pub(crate) fn wanted<'e>(
        &self,
        key: &Key,
        old: Option<&'e Entity>,
        version: &IfMatch,
    ) -> Result<&'e Entity> {
        version.check_form(key)?;
        let old = old.ok_or_else(|| self.missing(key))?;
        match version {
            IfMatch::Exactly(wanted) if Some(wanted) != old.etag() => Err(self.changed(key)),
            _ => Ok(old),
        }
    }

    pub(crate) fn missing(&self, key: &Key) -> Error {
        Error::entity_not_found(self.entities.table(), key)
    }

    fn changed(&self, key: &Key) -> Error {
        Error::precondition_failed(self.entities.table(), key)
    }

    /// Deletes the entity in this version, with its entries; [`IfMatch::Any`] accepts any version. The old
    /// value is read first: 1 request more than a write; [`delete_stored`](Self::delete_stored) has the old
    /// value already.
    ///
    /// # Errors
    /// Precondition failed: another writer changed the entity first. Entity not found. The write conflicts
    /// after all attempts.
    pub async fn delete(
        &self,
        key: impl KeyOf<T>,
        version: impl Into<IfMatch>,
    ) -> Result<Committed> {
        let (key, version) = (key.into_key(), version.into());
        self.entities
            .modify(&key, |old| self.wanted(&key, old, &version).map(|_| None))
            .await
    }

    /// Deletes the entity in any version; returns whether it existed. The old value is read first: 1 request
    /// more than a write.
    ///
    /// # Errors
    /// The write conflicts after all attempts.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        let done = self.entities.modify(&key.into_key(), |_| Ok(None)).await?;
        Ok(!done.written.is_empty())
    }

    /// Deletes an entity that was read, in that version. No request more than a write.
    ///
    /// # Errors
    /// Another writer changed the entity since the read.
    pub async fn delete_stored(&self, old: &Stored<T>) -> Result<Committed> {
        self.entities
            .write(&[Change::delete(old.entity().clone())])
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
        let check = |old: &Entity| T::SCHEMA.check_replaceable(old);
        self.entities
            .changes()
            .move_to(&key, &target.entities.changes(), &to, check)
            .await
    }

    /// Inserts entities of one partition, in one group transaction with their local entries. Nothing is written
    /// after an error.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert), for any of the entities; the group exceeds a limit.
    pub async fn insert_group(&self, entities: &[T]) -> Result<Committed> {
        let changes = entities.iter().map(|e| e.to_entity().map(Change::insert));
        self.entities
            .write(&changes.collect::<Result<Vec<_>>>()?)
            .await
    }
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// Inserts entities while the stream is polled; returns a result for each. See
    /// [`IndexedEntities::insert_all`] for groups and requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// use futures_util::stream;
    /// use table_core::store::BulkSummary;
    /// use table_patterns::index::{BulkInsert, IndexOptions, IndexedTable};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(type = "Employee", rename_all = "PascalCase")]
    /// # #[index(email, row_key = "email_{email}", unique = "partition")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     email: String,
    /// # }
    /// # let employees = IndexedTable::<Employee>::open(MemoryStore::new(), "Employees", IndexOptions::local()).await?;
    /// let hired = (0..100).map(|id| {
    ///     let department = if id % 2 == 0 { "Sales" } else { "Marketing" }.to_owned();
    ///     Ok(Employee { department, id, email: format!("{id}@x") })
    /// });
    /// let outcomes = employees.insert_all(stream::iter(hired), BulkInsert::default());
    /// let summary = BulkSummary::of(outcomes).await?;
    /// assert_eq!(summary.written, 100);
    /// assert_eq!(summary.requests, 2); // 50 entities with 50 entries each
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`IndexedEntities::insert_all`]: crate::index::IndexedEntities::insert_all
    ///
    /// # Errors
    /// As items: an error of the input, as the last item; an error of reading the states of indexes.
    pub fn insert_all<'a, S>(
        &'a self,
        entities: S,
        options: BulkInsert,
    ) -> impl Stream<Item = Result<BulkOutcome>> + Send + use<'a, T, S>
    where
        S: Stream<Item = Result<T>> + Send + 'a,
    {
        self.entities
            .insert_all(entities.map(|entity| entity?.to_entity()), options)
    }
}

/// Soft deletion: see [`Table::soft_delete`](table_core::typed::Table::soft_delete). Index entries and unique values stay, so that no other entity takes
/// a value that a restore needs.
impl<T: IndexedEntity + SoftDelete> IndexedTable<T> {
    /// Sets the time of deletion: reads and lookups leave the entity out, and a sweep removes it for good, with its entries, when it was kept for
    /// the days of `#[deleted_at]`. Returns the entity as stored. Requests as for [`update`](Self::update).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn soft_delete(&self, key: impl KeyOf<T>) -> Result<Stored<T>> {
        let now = self.entities.store().context().now();
        self.update(key, |entity| {
            entity.set_deleted_at(Some(now));
            Ok(())
        })
        .await
    }

    /// Removes the time of deletion. Returns the entity as stored. Requests as for [`update`](Self::update).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn restore(&self, key: impl KeyOf<T>) -> Result<Stored<T>> {
        let all = self.clone().with_hidden();
        all.update(key, |entity| {
            entity.set_deleted_at(None);
            Ok(())
        })
        .await
    }
}
