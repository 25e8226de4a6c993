//! Moves: the entity with its entries.

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
    /// Moves an entity with its entries to a key of this or another table, whatever is there; whether there was one. A change
    /// that another writer makes meanwhile is moved as well.
    ///
    /// | from, to | what is atomic | requests without contention |
    /// |---|---|---|
    /// | a partition, the same | all of it: one write | a read of each, and the write |
    /// | a table, another partition of it, with entries in other partitions | the commit, at which it is there and not here any more; a move that dies is finished or given up by workers and sweeps, and by who writes the entity | 8, 2 more with a queue, 1 for each partition with entries, 3 for each unique value that it keeps |
    /// | the same without such entries | each of the two writes | 4, 6 in a table whose indexes may have such |
    /// | a table, another one | each of the two writes | a read of each, a write there, a delete here |
    ///
    /// A unique value stays the entity's from the first request to the last: whoever wants it meanwhile is refused. Between the
    /// commit and the removal here, both can be read. A writer that has read the entity while it was moved gives the move up, one request
    /// more, and the move starts over. See [`journal`](crate::journal#moves).
    ///
    /// A move of two writes puts the entity there and then removes it here: one that dies in between leaves both, and is to be run
    /// again. Another table has indexes of its own, in which the values are unique by themselves.
    ///
    /// # Errors
    /// A unique value is taken at the target; still in conflict after all attempts; the place is the same; of an entity that is
    /// marked while it is moved also two properties more than a store takes; it has a value in a blob.
    pub async fn move_to(&self, key: &Key, target: &Self, to: &Key) -> Result<bool> {
        self.move_if(key, target, to, |_| Ok(())).await
    }

    /// The same, unless what is at the target is refused.
    pub(super) async fn move_if(
        &self,
        key: &Key,
        target: &Self,
        to: &Key,
        check: impl Fn(&Entity) -> Result<()> + Send + Sync,
    ) -> Result<bool> {
        let is_same = Arc::ptr_eq(&self.store, &target.store) && self.table() == target.table();
        if is_same && key == to {
            return Err(Error::invalid_request(format!("{key} would be moved to where it is")));
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

    /// Whether an index has entries in other partitions than the entities': then moves to another partition have marks.
    pub(crate) fn has_entries_elsewhere(&self) -> bool {
        self.set.indexes().iter().any(|index| *index.placement() != Placement::SamePartition)
    }
}

/// Refuses a row that is not all of its entity.
pub(crate) fn check_no_blob(row: &Entity) -> Result<()> {
    let Some(property) = in_a_blob(row) else { return Ok(()) };
    Err(Error::invalid_request(format!(
        "{} has the value of '{property}' in a blob, which would be lost: move it by its `LargeTable`, with the blob",
        row.key()
    )))
}

impl<T: IndexedEntity> IndexedTable<T> {
    /// Moves an entity with its entries to a key of this or another table, whatever is there; whether there was one. See
    /// [`IndexedEntities::move_to`].
    ///
    /// # Errors
    /// As there; what is at the target is stored in a later version of the schema.
    pub async fn move_to(&self, key: impl KeyOf<T>, target: &Self, to: impl KeyOf<T>) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        let check = |old: &Entity| T::SCHEMA.check_replaceable(old);
        self.entities().move_if(&key, target.entities(), &to, check).await
    }
}
