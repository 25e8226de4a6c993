//! Writes of entities with their entries.

use std::time::Duration;

use table_core::model::{Entity, Key};
use table_core::store::{Error, ErrorKind, Result};
use tokio::time::sleep;

use super::entry::Maintainer as _;
use super::indexed::IndexedEntities;
use super::stored::Stored;
use crate::journal::{Acknowledge, Change, Committed, Entries};
use crate::rows::conflict::Conflicts;

impl IndexedEntities {
    /// Writes changes of one partition, with their entries: the end of every write of this handle. A [`Change`]
    /// must name the true old state; this method does not check it.
    ///
    /// Requests: 1 without remote entries; see [`journal`](crate::journal#cost-in-requests) otherwise.
    ///
    /// # Errors
    /// See [`Journal::write`](crate::journal::Journal::write); the handle was opened for upkeep.
    pub async fn write(&self, changes: &[Change]) -> Result<Committed> {
        if !self.writes_entities {
            let reason = format!(
                "the table '{}' was opened for upkeep and refuses writes of entities: open it by `open` to write",
                self.table()
            );
            return Err(Error::invalid_request(reason));
        }
        self.journal.write(changes, self.options.acknowledge).await
    }

    /// Inserts an entity.
    ///
    /// # Errors
    /// The entity exists already, or a unique value is taken.
    pub async fn insert(&self, entity: Entity) -> Result<Committed> {
        self.write(&[Change::insert(entity)]).await
    }

    /// Replaces an entity that was [read](Self::get), in that version. The old value decides which entries to
    /// remove.
    ///
    /// # Errors
    /// Another writer changed the entity since the read, or a unique value is taken.
    pub async fn replace(&self, old: &Stored<Entity>, new: Entity) -> Result<Committed> {
        self.write(&[Change::replace(old.entity().clone(), new)]).await
    }

    /// Deletes an entity that was [read](Self::get), in that version.
    ///
    /// # Errors
    /// Another writer changed the entity since the read.
    pub async fn delete(&self, old: &Stored<Entity>) -> Result<Committed> {
        self.write(&[Change::delete(old.entity().clone())]).await
    }

    /// Inserts or replaces an entity: reads the old value first, and tries again after a conflict. 1 request
    /// more than a replace.
    ///
    /// # Errors
    /// A unique value is taken; the write conflicts after all attempts.
    pub async fn upsert(&self, entity: Entity) -> Result<Committed> {
        let key = entity.key().clone();
        self.modify(&key, |_| Ok(Some(entity.clone()))).await
    }

    /// Reads, changes and writes an entity, and tries again after a conflict. `change` gets `None` if the
    /// entity does not exist, and returns `None` to delete it.
    ///
    /// # Errors
    /// An error of `change`; a unique value is taken; the write conflicts after all attempts.
    pub async fn modify(
        &self,
        key: &Key,
        mut change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Committed> {
        let mut conflicts = Conflicts::new(self.options.attempts);
        loop {
            let old = self.read(key).await?;
            let new = change(old.as_ref())?;
            let Some(change) = changed(old, new) else { return Ok(Committed::nothing()) };
            match self.write(&[change]).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// The change of an entity to the current schema version. Older programs, and programs that know only the
    /// definitions, may have written entries of the older row: if any could differ, the change writes all
    /// entries.
    pub(crate) fn upgrade(&self, old: Entity, new: Entity) -> Change {
        match self.set.indexes().iter().all(|index| index.is_as_stored(&old)) {
            true => Change::replace(old, new),
            false => Change::replace_with_all_entries(old, new),
        }
    }

    /// The entity after a write, as stored: with the properties of copy indexes, which need a read. `None` if
    /// that is unknown.
    pub(super) async fn as_stored(&self, new: Entity) -> Option<Entity> {
        if self.set.copied().is_empty() {
            return Some(new);
        }
        let now = self.read(new.key()).await.ok().flatten();
        now.filter(|now| now.etag() == new.etag())
    }

    /// Writes an entity unchanged, with all its entries, and tries again while other writers change it. A
    /// writer of another property would not write an entry that it assumes to exist. Returns whether the entity
    /// exists.
    pub(super) async fn rewrite(&self, mut entity: Entity) -> Result<bool> {
        for attempt in 0..=self.options.attempts {
            let change = Change::rewrite(entity.clone());
            match self.journal.write(&[change], Acknowledge::Applied).await {
                Ok(done) if done.entries == Entries::Applied => return Ok(true),
                Err(e) if !is_conflict(&e) => return Err(e),
                _ => sleep(pause(attempt)).await,
            }
            let Some(now) = self.read(entity.key()).await? else { return Ok(false) };
            entity = now;
        }
        let (table, key) = (self.table().to_string(), entity.key().to_string());
        Err(ErrorKind::PreconditionFailed { table, key }.into())
    }
}

fn changed(old: Option<Entity>, new: Option<Entity>) -> Option<Change> {
    match (old, new) {
        (None, None) => None,
        (None, Some(new)) => Some(Change::insert(new)),
        (Some(old), None) => Some(Change::delete(old)),
        (Some(old), Some(new)) => Some(Change::replace(old, new)),
    }
}

/// Whether another writer changed the entity first.
fn is_conflict(error: &Error) -> bool {
    !error.is_ambiguous()
        && (error.is_precondition_failed() || error.is_entity_not_found() || error.is_already_exists())
}

/// The pause before a conflicting write is tried again: random, up to a limit that grows with each attempt.
fn pause(attempt: u32) -> Duration {
    let ceiling = Duration::from_millis(2) * 2u32.saturating_pow(attempt.min(8));
    ceiling.mul_f64(fastrand::f64())
}
