//! Moves: the entity with its entries.

use std::sync::Arc;

use table_core::model::{Entity, Key};
use table_core::store::{Error, Result};
use table_core::typed::{IndexedEntity, KeyOf};

use super::definition::{Placement, Uniqueness};
use super::indexed::IndexedEntities;
use super::typed::IndexedTable;
use crate::conflict::{Conflicts, is_lost};
use crate::journal::Change;

impl IndexedEntities {
    /// Moves an entity with its entries to a key of this or another table, whatever is there; whether there was one. A change
    /// that another writer makes meanwhile is moved as well.
    ///
    /// Within a partition of one table it is one write. Otherwise the entity is written there and then removed here: a move that
    /// dies in between leaves both, and is to be run again. Requests: a read, an upsert there and a delete here; see
    /// [`journal`](crate::journal).
    ///
    /// # Errors
    /// It has a value of an index that is unique with entries in other partitions: the two would be two owners for a while.
    /// A unique value is taken; still in conflict after all attempts; the place is the same.
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
            let Some(old) = self.read(key).await? else { return Ok(false) };
            self.check_unique_elsewhere(&old)?;
            target.check_unique_elsewhere(&old)?;
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

    /// Refuses an entity with a unique value whose entry is in another partition than the entity.
    fn check_unique_elsewhere(&self, entity: &Entity) -> Result<()> {
        for index in self.set.indexes() {
            let elsewhere = *index.placement() != Placement::SamePartition;
            if elsewhere
                && index.uniqueness() != Uniqueness::No
                && !index.entries(self.table(), entity)?.is_empty()
            {
                let (key, name) = (entity.key(), index.name());
                return Err(Error::invalid_request(format!(
                    "{key} has a value of the unique index '{name}', whose entries are in other partitions: moved, the value would \
                     have two owners for a while. Remove the entity and insert it anew, or clear the value first"
                )));
            }
        }
        Ok(())
    }
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
