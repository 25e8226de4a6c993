//! Writes of entities with their entries.

use std::sync::Arc;
use table_core::model::{Entity, Key};
use table_core::store::{Conflicts, Error, ErrorKind, Result};

use super::IndexedEntities;
use super::stored::Stored;
use crate::blobs::in_a_blob;
use crate::entry::{Maintainer as _, Placement};
use crate::journal::{Acknowledge, Change, Committed, Entries, Moved};

impl IndexedEntities {
    /// Writes changes of one partition, with their entries: the end of every write of this handle. A [`Change`]
    /// must name the true old state; this method does not check it.
    ///
    /// Requests: 1 without remote entries; see [`journal`](crate::journal#cost-in-requests) otherwise.
    ///
    /// # Errors
    /// See [`Journal::write`](crate::journal::Journal::write); the handle was opened for upkeep.
    pub async fn write(&self, changes: &[Change]) -> Result<Committed> {
        self.check_writable()?;
        self.journal.write(changes, self.options.acknowledge).await
    }

    /// Refuses writes of a handle that was opened for upkeep.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.writes_entities {
            return Ok(());
        }
        let reason = format!(
            "the table '{}' was opened for upkeep and refuses writes of entities: open it by `open` to write",
            self.table()
        );
        Err(Error::invalid_request(reason))
    }

    /// Waits for what follows the answers of writes. See [`Journal::flush`](crate::journal::Journal::flush).
    pub async fn flush(&self) {
        self.journal.flush().await;
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
    pub(crate) async fn as_stored(&self, new: Entity) -> Option<Entity> {
        if self.set.copied().is_empty() {
            return Some(new);
        }
        let now = self.read(new.key()).await.ok().flatten();
        now.filter(|now| now.etag() == new.etag())
    }

    /// Writes an entity unchanged, with all its entries, and tries again while other writers change it. A
    /// writer of another property would not write an entry that it assumes to exist. Returns whether the entity
    /// exists.
    pub(crate) async fn rewrite(&self, mut entity: Entity) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.options.attempts + 1);
        loop {
            let change = Change::rewrite(entity.clone());
            let lost = match self.journal.write(&[change], Acknowledge::Applied).await {
                Ok(done) if done.entries == Entries::Applied => return Ok(true),
                Err(error) if !error.is_conflict() => return Err(error),
                _ => {
                    let (table, key) = (self.table().to_string(), entity.key().to_string());
                    ErrorKind::PreconditionFailed { table, key }.into()
                }
            };
            conflicts.wait(lost).await?;
            let Some(now) = self.read(entity.key()).await? else { return Ok(false) };
            entity = now;
        }
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

impl IndexedEntities {
    /// Moves an entity with its entries to a key of this or another table, and replaces an entity at that key.
    /// Returns whether the entity existed. The move includes changes that another writer makes during the move.
    ///
    /// | from, to | atomic part | requests without contention |
    /// |---|---|---|
    /// | a partition, the same partition | everything: one write | a read of each, and the write |
    /// | a table, another partition of the table, with remote entries | the commit: the entity has the new key from then on. Workers, sweeps and writers of the entity finish or stop a move whose process died | 8; 2 more with a queue, 1 for each partition with entries, 3 for each unique value that the entity keeps |
    /// | the same without remote entries | each of the two writes | 4; 6 in a table whose indexes may have remote entries |
    /// | a table, another table | each of the two writes | a read of each, a write at the target, a delete at the source |
    ///
    /// A unique value belongs to the entity from the first request to the last: other writers of the value are
    /// refused. Between the commit and the removal at the source, both keys can be read. A writer that has read
    /// the entity during the move stops the move, with 1 request more, and the move starts again. See
    /// [`journal`](crate::journal#moves).
    ///
    /// A move of two writes first writes the target, then deletes the source. If the process dies in between,
    /// both exist; run the move again. Another table has its own indexes, in which values are unique
    /// separately.
    ///
    /// # Errors
    /// A unique value is taken at the target; the move conflicts after all attempts; both keys are equal; the
    /// entity has a value in a blob; with remote entries, the entity has more properties than fit with the two
    /// properties of the mark.
    pub async fn move_to(&self, key: &Key, target: &Self, to: &Key) -> Result<bool> {
        self.move_if(key, target, to, |_| Ok(())).await
    }

    /// As [`move_to`](Self::move_to); `check` may refuse the entity at the target.
    pub(crate) async fn move_if(
        &self,
        key: &Key,
        target: &Self,
        to: &Key,
        check: impl Fn(&Entity) -> Result<()> + Send + Sync,
    ) -> Result<bool> {
        let is_same = Arc::ptr_eq(&self.store, &target.store) && self.table() == target.table();
        if is_same && key == to {
            return Err(Error::invalid_request(format!(
                "a move of {key} needs another target: both keys are equal"
            )));
        }
        let mut conflicts = Conflicts::new(self.options.attempts);
        loop {
            if is_same && key.partition() != to.partition() && self.has_entries_elsewhere() {
                match self.journal.move_entity(key, to, &check).await? {
                    Moved::Done(_) => return Ok(true),
                    Moved::Nothing => return Ok(false),
                    Moved::NotJournaled => {}
                }
            }
            let Some(old) = self.read(key).await? else { return Ok(false) };
            check_no_blob(&old)?;
            let new = old.clone().with_system(None, None).with_key(to.clone());
            let moved = if is_same && key.partition() == to.partition() {
                let there = self.read(to).await?;
                there.as_ref().map_or(Ok(()), &check)?;
                let write = match there {
                    None => Change::insert(new),
                    Some(there) => Change::replace(there, new),
                };
                self.write(&[Change::delete(old), write]).await
            } else {
                let put = |there: Option<&Entity>| {
                    there.map_or(Ok(()), &check)?;
                    Ok(Some(new.clone()))
                };
                target.modify(to, put).await?;
                self.write(&[Change::delete(old)]).await
            };
            match moved {
                Err(error) if error.is_conflict() => conflicts.wait(error).await?,
                moved => return moved.map(|_| true),
            }
        }
    }

    /// Whether an index has remote entries. A move to another partition marks the entity in that case.
    pub(crate) fn has_entries_elsewhere(&self) -> bool {
        self.set.indexes().iter().any(|index| *index.placement() != Placement::SamePartition)
    }
}

/// Refuses a row whose entity has a part in a blob.
pub(crate) fn check_no_blob(row: &Entity) -> Result<()> {
    let Some(property) = in_a_blob(row) else { return Ok(()) };
    Err(Error::invalid_request(format!(
        "{} has the value of '{property}' in a blob, and a move of the row would lose it: move the entity with its `LargeTable`",
        row.key()
    )))
}
