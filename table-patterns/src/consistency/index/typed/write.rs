//! Writes.

use std::sync::atomic::{AtomicBool, Ordering};

use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, ErrorKind, Outcome, Result};
use table_core::typed::{EntityPatch as _, IndexedEntity, KeyOf, Schema};

use super::table::IndexedTable;
use crate::index::stored::Stored;
use crate::journal::{Change, Committed, Entries, is_marked};

impl<T: IndexedEntity> IndexedTable<T> {
    /// The same table with another bound on the requests that one call has in flight; at least 1. See
    /// [`IndexOptions::concurrency`](crate::index::IndexOptions::concurrency).
    #[must_use]
    pub fn with_concurrency(mut self, requests: usize) -> Self {
        self.entities.options.concurrency = requests.max(1);
        self
    }

    /// The same table with another bound on the attempts of a write that loses against other writers; at least 1. See
    /// [`IndexOptions::attempts`](crate::index::IndexOptions::attempts).
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.entities.options.attempts = attempts.max(1);
        self
    }

    /// Adds an entity.
    ///
    /// # Errors
    /// It exists already; a unique value is taken.
    pub async fn insert(&self, entity: &T) -> Result<Committed> {
        self.entities.insert(entity.to_entity()?).await
    }

    /// Writes the entity whatever was there: the old value is read first. One request more.
    ///
    /// # Errors
    /// A unique value is taken; still in conflict after all attempts; the entity is stored in a later version of the schema.
    pub async fn upsert(&self, entity: &T) -> Result<Committed> {
        let entity = entity.to_entity()?;
        let replace = |old: Option<&Entity>| {
            old.map_or(Ok(()), |old| T::SCHEMA.check_replaceable(old))?;
            Ok(Some(entity.clone()))
        };
        self.entities.modify(entity.key(), replace).await
    }

    /// Replaces the entity in the version it was read in: that of its `#[etag]` field. The answer has the new version.
    /// The old value is read first: one request more than the write's. [`replace_stored`](Self::replace_stored) knows it.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. The value carries no ETag. A unique value is taken.
    /// The entity is stored in a later version of the schema.
    pub async fn replace(&self, entity: &T) -> Result<Committed> {
        self.replace_if(entity, entity.own_version()?).await
    }

    /// Replaces the entity if it is in this version; [`IfMatch::Any`] asks for any. The old value is read first: one request
    /// more than the write's.
    ///
    /// # Errors
    /// As for [`replace`](Self::replace); still in conflict after all attempts.
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

    /// Replaces an entity that was read, in that version: the old value decides which entries go. No request more
    /// than the write's.
    ///
    /// # Errors
    /// It was changed meanwhile; a unique value is taken; the keys differ.
    pub async fn replace_stored(&self, old: &Stored<T>, new: &T) -> Result<Committed> {
        let change = Change::replace(old.entity().clone(), new.to_entity()?);
        self.entities.write(&[change]).await
    }

    /// Changes an entity that was read, in that version, and keeps what is stored then: so that one who works with
    /// an entity for long reads it once. No request more than the write's, and a read where the table has indexes
    /// that copy into entities.
    ///
    /// Where the new version is not known, because the answer was lost, `stored` stays as it was: its next write
    /// is refused, and it is to be read again.
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
    ///     jobs.update_stored(&mut job, set).await?; // one request
    /// }
    /// assert_eq!(jobs.by(Job::by_state("mail").state("done")).count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `change` returns; it was changed meanwhile by another; a unique value is taken; the key differs.
    /// `stored` stays as it was.
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
        if let Some((new, etag)) = new.zip(committed.written.first().and_then(|w| w.etag.clone()))
            && let Some(now) = self.entities.as_stored(new.with_system(Some(etag), None)).await
            && let Ok(now) = Stored::read(now)
        {
            *stored = now;
        }
        Ok(committed)
    }

    /// Reads the entity, lets `change` change it, and replaces it in the version that was read; from the start if another
    /// writer was faster, as often as the options say. Returns what is stored then. Properties that `T` does not know stay.
    ///
    /// One request more than the write's, and all of them again for each conflict; one more where the table has indexes
    /// that copy into entities, and where the answer was lost: what is read then may be of a later write.
    ///
    /// # Errors
    /// Entity not found; an error of `change`; `change` changed the key; a unique value is taken; still in conflict after
    /// all attempts.
    pub async fn update(
        &self,
        key: impl KeyOf<T>,
        mut change: impl FnMut(&mut T) -> Result<()> + Send,
    ) -> Result<Stored<T>> {
        let (key, mut made) = (key.into_key(), None);
        let committed = self
            .entities
            .modify(&key, |old| {
                let old = old.ok_or_else(|| self.missing(&key))?;
                let mut value = T::from_entity(old.clone())?;
                change(&mut value)?;
                let mut new = value.to_entity()?;
                if *new.key() != key {
                    let name = T::SCHEMA.rust_name;
                    return Err(Error::invalid_request(format!(
                        "an update of the {name} {key} would make it {}: insert the new one and delete the old",
                        new.key()
                    )));
                }
                T::SCHEMA.keep_unknown(old, &mut new)?;
                made = Some(new.clone());
                Ok(Some(new))
            })
            .await?;
        let etag = committed.etag().cloned();
        let stored = match made.zip(etag) {
            Some((new, etag)) => self.entities.as_stored(new.with_system(Some(etag), None)).await,
            None => None,
        };
        let stored = match stored {
            Some(stored) => Stored::read(stored),
            None => self.get_existing(&key).await,
        };
        stored.map_err(|error| error.with_outcome(Outcome::Applied))
    }

    /// Writes the fields that the patch sets over those of the entity, if it is in this version;
    /// [`IfMatch::Any`] asks for any. The patch has no field that a declared index holds, so the entries stay
    /// as they are. As many requests as [`Table::merge`](table_core::typed::Table::merge).
    ///
    /// Where entries are in other partitions, a move may be under way: for [`IfMatch::Any`] the entity is read and replaced then,
    /// and so it is in a version that was read while it was moved.
    ///
    /// Of other indexes ([`open_with`](Self::open_with)) a patch cannot know what they hold: with them the
    /// entity is read and replaced, and their entries follow. One request more than the write's.
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
    /// let older = Employee::patch().age(42); // and no `.email(…)`: an index holds it
    /// employees.merge(Employee::key("Sales", 1)?, &older, IfMatch::Any).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. The patch sets nothing. The entity
    /// is stored in another version of the schema.
    pub async fn merge(
        &self,
        key: impl KeyOf<T>,
        patch: &T::Patch,
        version: impl Into<IfMatch>,
    ) -> Result<Committed> {
        let (key, version) = (key.into_key(), version.into());
        // Indexes that another version of the program has declared may hold fields of the patch.
        let has_others = || self.has_more || self.entities.set.has_others_of(&T::SCHEMA.entity_type());
        self.entities.prepare().await?;
        self.entities.set.check_type()?;
        // What is written whatever is there may be an entity that is being moved, and so may what was read as one.
        let may_be_moved = match &version {
            IfMatch::Any => self.entities.has_entries_elsewhere(),
            IfMatch::Exactly(version) => is_marked(version),
        };
        if has_others() || may_be_moved {
            return self.merge_read(patch.to_entity(key)?, &version).await;
        }
        let table = self.table().clone().unmanaged();
        let declared = AtomicBool::new(false);
        let check = || {
            declared.store(has_others(), Ordering::Relaxed);
            let reason = "an index was declared meanwhile";
            if declared.load(Ordering::Relaxed) { Err(Error::invalid_request(reason)) } else { Ok(()) }
        };
        let written = self.entities.while_so(check, table.merge(key.clone(), patch, version.clone())).await;
        if declared.load(Ordering::Relaxed) {
            return self.merge_read(patch.to_entity(key)?, &version).await;
        }
        Ok(Committed { written: vec![written?], entries: Entries::Applied })
    }

    /// A merge whose entries may change: the old value decides which.
    async fn merge_read(&self, patch: Entity, version: &IfMatch) -> Result<Committed> {
        let key = patch.key();
        self.entities
            .modify(key, |old| merged(T::SCHEMA, self.wanted(key, old, version)?, &patch).map(Some))
            .await
    }

    /// Adds the entity, or writes its properties over those of the one that is there. A field that is `None` keeps what is
    /// stored, and so do properties that `T` does not know. The old value is read first: one request more than the write's.
    ///
    /// # Errors
    /// A unique value is taken; still in conflict after all attempts. The entity that is there is of another type, or stored
    /// in another version of the schema: [`update`](Self::update) it.
    pub async fn insert_or_merge(&self, entity: &T) -> Result<Committed> {
        let entity = entity.to_entity()?;
        let merge = |old: Option<&Entity>| match old {
            Some(old) => merged(T::SCHEMA, old, &entity).map(Some),
            None => Ok(Some(entity.clone())),
        };
        self.entities.modify(entity.key(), merge).await
    }

    /// The entity that was read, if it is there in the version that is asked for.
    pub(super) fn wanted<'e>(
        &self,
        key: &Key,
        old: Option<&'e Entity>,
        version: &IfMatch,
    ) -> Result<&'e Entity> {
        let old = old.ok_or_else(|| self.missing(key))?;
        match version {
            IfMatch::Exactly(wanted) if Some(wanted) != old.etag() => Err(self.changed(key)),
            _ => Ok(old),
        }
    }

    pub(super) fn missing(&self, key: &Key) -> Error {
        ErrorKind::EntityNotFound { table: self.entities.table().to_string(), key: key.to_string() }.into()
    }

    fn changed(&self, key: &Key) -> Error {
        ErrorKind::PreconditionFailed { table: self.entities.table().to_string(), key: key.to_string() }
            .into()
    }

    /// Removes the entity if it is in this version, with its entries; [`IfMatch::Any`] asks for any. The old value is read
    /// first: one request more than the write's. [`delete_stored`](Self::delete_stored) knows it.
    ///
    /// # Errors
    /// Precondition failed: another writer was faster. Entity not found. Still in conflict after all attempts.
    pub async fn delete(&self, key: impl KeyOf<T>, version: impl Into<IfMatch>) -> Result<Committed> {
        let (key, version) = (key.into_key(), version.into());
        self.entities.modify(&key, |old| self.wanted(&key, old, &version).map(|_| None)).await
    }

    /// Removes the entity in any version, if it is there; whether it was. The old value is read first: one request more than
    /// the write's.
    ///
    /// # Errors
    /// Still in conflict after all attempts.
    pub async fn delete_if_exists(&self, key: impl KeyOf<T>) -> Result<bool> {
        let done = self.entities.modify(&key.into_key(), |_| Ok(None)).await?;
        Ok(!done.written.is_empty())
    }

    /// Removes an entity that was read, in that version. No request more than the write's.
    ///
    /// # Errors
    /// It was changed meanwhile.
    pub async fn delete_stored(&self, old: &Stored<T>) -> Result<Committed> {
        self.entities.write(&[Change::delete(old.entity().clone())]).await
    }

    /// Adds entities of one partition, in one group transaction with their entries there.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert), for any of them; the group is over a limit. Nothing is written.
    pub async fn insert_group(&self, entities: &[T]) -> Result<Committed> {
        let changes = entities.iter().map(|e| e.to_entity().map(Change::insert));
        self.entities.write(&changes.collect::<Result<Vec<_>>>()?).await
    }
}

/// An entity with the properties of another over its own, if they are of one schema. It stays in the version that it is stored in.
pub(super) fn merged(schema: &Schema, old: &Entity, over: &Entity) -> Result<Entity> {
    schema.merged(old, over)
}
