//! Moves of an entity with its entries to another key.

use std::sync::Arc;

use table_core::model::{Entity, Key};
use table_core::store::{Error, Result};
use table_core::typed::{IndexedEntity, KeyOf};

use super::definition::Placement;
use super::indexed::IndexedEntities;
use super::typed::IndexedTable;
use crate::journal::{Change, Moved};
use crate::large::in_a_blob;
use crate::rows::conflict::{Conflicts, is_lost};

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
    pub(super) async fn move_if(
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
                Err(error) if is_lost(&error) => conflicts.wait(error).await?,
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

impl<T: IndexedEntity> IndexedTable<T> {
    /// Moves an entity with its entries to a key of this or another table, and replaces an entity at that key.
    /// Returns whether the entity existed. See [`IndexedEntities::move_to`].
    ///
    /// # Errors
    /// As for [`IndexedEntities::move_to`]; the entity at the target has a later version of the schema.
    pub async fn move_to(&self, key: impl KeyOf<T>, target: &Self, to: impl KeyOf<T>) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        let check = |old: &Entity| T::SCHEMA.check_replaceable(old);
        self.entities().move_if(&key, target.entities(), &to, check).await
    }
}
