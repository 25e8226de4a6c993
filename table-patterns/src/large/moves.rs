//! Moves: the row with its blobs.

use table_core::model::{EdmType, Entity, Key, ValueRef};
use table_core::store::{Error, Result};
use table_core::typed::{KeyOf, TableEntity};

use super::LargeTable;
use super::rewrite_row::references;
use super::values::NewBlobs;
use crate::conflict::{Conflicts, is_lost};
use crate::journal::Change;

impl<T: TableEntity> LargeTable<T> {
    /// Moves an entity with its large values to a key of this or another table, whatever is there; whether there was one.
    /// A change that another writer makes meanwhile is moved as well.
    ///
    /// The values are copied into blobs of the target before the row is written there; the row here goes after that, its
    /// blobs last. A move that dies in between leaves both, and is to be run again. Within a partition of one table both rows
    /// are written at once. Requests: see the [module](super).
    ///
    /// # Errors
    /// It has a value of an index that is unique with entries in other partitions: the two would be two owners for a while.
    /// The stores'; a blob is missing or damaged; precondition failed, after the last attempt; what is at the target is stored
    /// in a later version of the schema; the place is the same.
    pub async fn move_to(&self, key: impl KeyOf<T>, target: &Self, to: impl KeyOf<T>) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        if self.is_same(target) && key == to {
            return Err(Error::invalid_request(format!("{key} would be moved to where it is")));
        }
        let mut conflicts = Conflicts::new(self.options().attempts);
        loop {
            let Some(row) = self.row(&key).await? else { return Ok(false) };
            self.writer().check_movable(&row)?;
            target.writer().check_movable(&row)?;
            let moved = match self.copy_to(&row, target, &to).await {
                Ok(Moved::There) => return Ok(true),
                Ok(Moved::Copied) => self.delete_read(&row).await,
                // A blob is gone because the row has changed.
                Ok(Moved::Changed) => continue,
                Err(error) => Err(error),
            };
            match moved {
                Err(error) if is_lost(&error) => conflicts.wait(error).await?,
                moved => return moved.map(|()| true),
            }
        }
    }

    /// Writes a copy of a row, with copies of its blobs; within a partition of one table it is removed here by the same write.
    async fn copy_to(&self, row: &Entity, target: &Self, to: &Key) -> Result<Moved> {
        let there = target.row(to).await?;
        there.as_ref().map_or(Ok(()), |there| T::SCHEMA.check_replaceable(there))?;
        let (mut entity, mut new) =
            (row.clone().with_system(None, None).with_key(to.clone()), NewBlobs::none());
        match self.copy_blobs(row, target, &mut entity, &mut new).await {
            Ok(true) => {}
            unfinished => {
                target.values().withdraw(&new).await;
                return unfinished.map(|_| Moved::Changed);
            }
        }
        let put = match there {
            None => Change::insert(entity),
            Some(there) => Change::replace(there, entity),
        };
        if self.is_same(target) && row.key().partition() == to.partition() {
            target.writer().commit(&new, &[Change::delete(row.clone()), put]).await?;
            return Ok(Moved::There);
        }
        target.writer().commit(&new, &[put]).await?;
        Ok(Moved::Copied)
    }

    async fn copy_blobs(
        &self,
        row: &Entity,
        target: &Self,
        entity: &mut Entity,
        new: &mut NewBlobs,
    ) -> Result<bool> {
        for (property, reference) in references(row) {
            let Some(content) = self.content(row, property.name(), &reference).await? else {
                return Ok(false);
            };
            let context = target.values().context(entity.key(), property.name());
            new.push(context.clone());
            let reference = target.values().put(&context, content).await?;
            // A reference is of the other type than its property.
            let declared = if matches!(property.value(), ValueRef::Binary(_)) {
                EdmType::String
            } else {
                EdmType::Binary
            };
            let value = reference.to_value(declared);
            entity.properties_mut().put(property.name(), value.as_ref(), property.is_encrypted());
        }
        Ok(true)
    }

    fn is_same(&self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(self.store(), other.store()) && self.name() == other.name()
    }
}

/// How far a move came.
enum Moved {
    /// Nowhere: the row has changed meanwhile.
    Changed,
    /// The entity is at both places.
    Copied,
    /// It is at its new place alone.
    There,
}
