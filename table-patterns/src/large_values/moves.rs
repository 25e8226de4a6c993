//! Moves of entities with their blobs to another key or table.

use table_core::model::{ETag, Entity, Key};
use table_core::store::{Conflicts, Error, MovedCopy, Result, TableStoreExt as _, Written};

use super::{EntityWriter, NewBlobs, put_new_reference};
use crate::blobs::references_of;
use crate::index::IndexedEntities;
use crate::journal::{Change, MoveAttempt, Moved};
use crate::rows::own_key_error;

impl EntityWriter {
    /// Moves an entity with its large values to a key of this or another table, and replaces an entity with that key.
    pub(crate) async fn move_to(&self, key: &Key, target: &Self, to: &Key) -> Result<()> {
        let is_same = (self.store()).is_same_table(self.table(), &**target.store(), target.table());
        if is_same && key == to {
            return Err(own_key_error(key));
        }
        if is_same && self.values().options.root != target.values().options.root {
            let (table, root) = (self.table(), &self.values().options.root);
            let other = &target.values().options.root;
            return Err(Error::misuse(format!(
                "the blobs of '{table}' are below '{root}' and '{other}': move the entity by one database"
            )));
        }
        let (mut conflicts, mut copy) = (Conflicts::new(self.values().attempts), None);
        loop {
            let waited = match self.try_move(key, target, to, &mut copy).await {
                Ok(LargeMoveAttempt::Moved) => return Ok(()),
                Ok(LargeMoveAttempt::Nothing) => Err(Error::entity_not_found(self.table(), key)),
                // A blob is missing because the row has changed: read the row again.
                Ok(LargeMoveAttempt::Changed) => Ok(()),
                // Also after an error that is not a conflict: the move was given up, and is tried again.
                Ok(LargeMoveAttempt::GivenUp(error)) => conflicts.wait_if(true, error).await,
                Err(error) => conflicts.wait(error).await,
            };
            if let Err(error) = waited {
                return Err(target.without_copy(to, copy, error).await);
            }
        }
    }

    /// Removes the copy of a move that has failed, with its blobs and entries. Returns the error of the move.
    async fn without_copy(&self, to: &Key, copy: Option<MovedCopy>, error: Error) -> Error {
        let Some(copy) = copy else { return error };
        copy.remove_after(error, |version| self.delete_version(to, version))
            .await
    }

    /// Deletes a row in this version, with its blobs and entries.
    async fn delete_version(&self, key: &Key, version: ETag) -> Result<Written> {
        let row = self.values().row(key).await?;
        let row = row.ok_or_else(|| Error::entity_not_found(self.table(), key))?;
        if row.etag() != Some(&version) {
            return Err(Error::precondition_failed(self.table(), key));
        }
        self.write(Change::delete(row)).await
    }

    /// One attempt at a move: reads both rows, copies the blobs, writes the target, and deletes the source.
    async fn try_move(
        &self,
        key: &Key,
        target: &Self,
        to: &Key,
        copy: &mut Option<MovedCopy>,
    ) -> Result<LargeMoveAttempt> {
        let is_within = self.is_same(target) && key.partition() == to.partition();
        // Entries in other partitions need a journaled write. A move within the partition is one group
        // transaction, and a move to another table is two writes.
        let journaled = self
            .indexes_with_remote_entries()
            .filter(|_| self.is_same(target) && !is_within);
        let Some((row, there)) = self.read_both(journaled, key, target, to).await? else {
            return Ok(LargeMoveAttempt::Nothing);
        };
        let (mut entity, mut new) = (
            row.clone().with_system(None, None).with_key(to.clone()),
            NewBlobs::none(),
        );
        match self.copy_blobs(&row, target, &mut entity, &mut new).await {
            Ok(true) => {}
            // No row refers to the new blobs yet.
            unfinished => {
                target.values().withdraw(&new).await;
                return unfinished.map(|_| LargeMoveAttempt::Changed);
            }
        }
        if let Some(indexes) = journaled {
            match self
                .move_row(indexes, &new, (&row, there.as_ref()), &entity)
                .await?
            {
                MoveAttempt::Ended(Moved::Done(_)) => return Ok(LargeMoveAttempt::Moved),
                MoveAttempt::Ended(Moved::Nothing) => return Ok(LargeMoveAttempt::Nothing),
                MoveAttempt::Ended(Moved::NotJournaled) => {}
                MoveAttempt::GivenUp(error) => return Ok(LargeMoveAttempt::GivenUp(error)),
            }
        }
        let replaced = there.as_ref().and_then(|there| there.etag().cloned());
        let put = match there {
            None => Change::insert(entity),
            Some(there) => Change::replace(there, entity),
        };
        if is_within {
            target.commit(&new, &[Change::delete(row), put]).await?;
            return Ok(LargeMoveAttempt::Moved);
        }
        let written = match target.commit(&new, &[put]).await {
            // A conflict at the target must not look like a missing source, which ends the move.
            Err(error) if error.is_conflict() => {
                return Err(Error::precondition_failed(target.table(), to));
            }
            written => written?,
        };
        *copy = Some(MovedCopy::over(
            replaced.as_ref(),
            written.etag,
            copy.as_ref(),
        ));
        self.write(Change::delete(row)).await?;
        Ok(LargeMoveAttempt::Moved)
    }

    /// Reads the source, and the row at the target; `None` if the source does not exist. `journaled` has the indexes whose journal writes
    /// the move.
    ///
    /// # Errors
    /// The entity at the target has a later schema version; errors of the stores.
    async fn read_both(
        &self,
        journaled: Option<&IndexedEntities>,
        key: &Key,
        target: &Self,
        to: &Key,
    ) -> Result<Option<(Entity, Option<Entity>)>> {
        let check = |there: &Entity| self.values().schema.check_replaceable(there);
        if let Some(indexes) = journaled {
            return indexes
                .journal()
                .mover()
                .read_to_move(key, to, &|_| Ok(()), &check)
                .await;
        }
        let Some(row) = self.values().row(key).await? else {
            return Ok(None);
        };
        let there = target.values().row(to).await?;
        there.as_ref().map_or(Ok(()), check)?;
        Ok(Some((row, there)))
    }

    /// Copies the blobs of a row for the target row. Returns `false` if a blob is missing because the row has changed.
    async fn copy_blobs(
        &self,
        row: &Entity,
        target: &Self,
        entity: &mut Entity,
        new: &mut NewBlobs,
    ) -> Result<bool> {
        for (property, reference) in references_of(self.values().schema, row) {
            let Some(content) = self
                .values()
                .content(row, property.name(), &reference)
                .await?
            else {
                return Ok(false);
            };
            let context = target.values().context(entity.key(), property.name());
            new.push(context.clone());
            let reference = target.values().put(&context, content).await?;
            put_new_reference(entity, &property, &reference);
        }
        Ok(true)
    }

    fn is_same(&self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(self.store(), other.store()) && self.table() == other.table()
    }
}

/// The result of one attempt at a move.
enum LargeMoveAttempt {
    Moved,
    /// The entity does not exist.
    Nothing,
    /// The row has changed since it was read.
    Changed,
    /// Another process has given up the write before its commit.
    GivenUp(Error),
}
