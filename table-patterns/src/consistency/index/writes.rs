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
    /// Writes changes of one partition, with their entries. Requests: see
    /// [`journal`](crate::journal); one without remote entries. What a [`Change`] takes for the old state is the
    /// caller's word.
    ///
    /// # Errors
    /// See [`Journal::write`](crate::journal::Journal::write).
    pub async fn write(&self, changes: &[Change]) -> Result<Committed> {
        if !self.writes_entities {
            let reason =
                format!("the table '{}' was opened for upkeep: use `open` to write entities", self.table());
            return Err(Error::invalid_request(reason));
        }
        self.journal.write(changes, self.options.acknowledge).await
    }

    /// Adds an entity.
    ///
    /// # Errors
    /// It exists already, or a unique value is taken.
    pub async fn insert(&self, entity: Entity) -> Result<Committed> {
        self.write(&[Change::insert(entity)]).await
    }

    /// Replaces an entity that was [read](Self::get), in that version. The old value decides which entries go.
    ///
    /// # Errors
    /// It was changed meanwhile, or a unique value is taken.
    pub async fn replace(&self, old: &Stored<Entity>, new: Entity) -> Result<Committed> {
        self.write(&[Change::replace(old.entity().clone(), new)]).await
    }

    /// Removes an entity that was [read](Self::get), in that version.
    ///
    /// # Errors
    /// It was changed meanwhile.
    pub async fn delete(&self, old: &Stored<Entity>) -> Result<Committed> {
        self.write(&[Change::delete(old.entity().clone())]).await
    }

    /// Writes the entity whatever was there, by reading it first and trying again when others
    /// interfere. One request more than a replace.
    ///
    /// # Errors
    /// A unique value is taken; still in conflict after all attempts.
    pub async fn upsert(&self, entity: Entity) -> Result<Committed> {
        let key = entity.key().clone();
        self.modify(&key, |_| Ok(Some(entity.clone()))).await
    }

    /// Reads, changes and writes an entity, again when others interfere: from `None` if it does not
    /// exist, to `None` to delete it.
    ///
    /// # Errors
    /// What `change` returns; a unique value is taken; still in conflict after all attempts.
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

    /// The change of an entity to the present version of its type. Where its entries may be those of the older row, as its
    /// program or one that knows the definitions alone has kept them, all are written.
    pub(crate) fn upgrade(&self, old: Entity, new: Entity) -> Change {
        match self.set.indexes().iter().all(|index| index.is_as_stored(&old)) {
            true => Change::replace(old, new),
            false => Change::replace_with_all_entries(old, new),
        }
    }

    /// What a write has made, as it is stored: with what copy indexes have put into it, which takes a read.
    /// `None` where that is not known.
    pub(super) async fn as_stored(&self, new: Entity) -> Option<Entity> {
        if self.set.copied().is_empty() {
            return Some(new);
        }
        let now = self.read(new.key()).await.ok().flatten();
        now.filter(|now| now.etag() == new.etag())
    }

    /// Writes an entity as it is now with all its entries, again while others write it: a writer who
    /// changes something else leaves an entry alone that it takes to be there. Whether the entity exists.
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

/// Whether another writer of the same entity was quicker.
fn is_conflict(error: &Error) -> bool {
    !error.is_ambiguous()
        && (error.is_precondition_failed() || error.is_entity_not_found() || error.is_already_exists())
}

/// The pause before a conflicting write is tried again, jittered.
fn pause(attempt: u32) -> Duration {
    let ceiling = Duration::from_millis(2) * 2u32.saturating_pow(attempt.min(8));
    ceiling.mul_f64(fastrand::f64())
}
