//! Moves: the row with its blobs.

use table_core::model::{EdmType, Entity, Key, ValueRef};
use table_core::store::{Error, Operation, Result};
use table_core::typed::{KeyOf, TableEntity};
use uuid::Uuid;

use super::commit::is_lost;
use super::prepare::{Prepared, Started};
use super::rewrite_row::references;
use super::{BlobContext, LargeTable};
use crate::conflict::{Conflicts, version_of};

impl<T: TableEntity> LargeTable<T> {
    /// Moves an entity with its large values to a key of this or another table, whatever is there; whether there was one.
    /// A change that another writer makes meanwhile is moved as well.
    ///
    /// The values are copied into blobs of the target before the row is written there; the row here goes after that, its
    /// blobs last. A move that dies in between leaves both, and is to be run again. Requests: see the [module](super).
    ///
    /// # Errors
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
            let moved = match self.copy_to(&row, target, &to).await {
                Ok(true) => self.delete_read(&row).await,
                // A blob is gone because the row has changed.
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            match moved {
                Err(error) if is_lost(&error) => conflicts.wait(error).await?,
                moved => return moved.map(|()| true),
            }
        }
    }

    /// Writes a copy of a row, with copies of its blobs; `false` if the row has changed meanwhile.
    async fn copy_to(&self, row: &Entity, target: &Self, to: &Key) -> Result<bool> {
        let there = target.row(to).await?;
        there.as_ref().map_or(Ok(()), |there| T::SCHEMA.check_replaceable(there))?;
        let entity = row.clone().with_system(None, None).with_key(to.clone());
        let mut new = Prepared { entity, blobs: Vec::new(), started: Started::now() };
        match self.copy_blobs(row, target, &mut new).await {
            Ok(true) => {}
            unfinished => {
                target.remove(&new.blobs).await;
                return unfinished;
            }
        }
        let Some(there) = there else {
            return target.commit(&new, Operation::Insert(new.entity.clone())).await.map(|_| true);
        };
        let replace = Operation::Replace(new.entity.clone(), version_of(&there)?);
        target.commit(&new, replace).await?;
        target.remove(&target.blobs_of(&there)).await;
        Ok(true)
    }

    async fn copy_blobs(&self, row: &Entity, target: &Self, new: &mut Prepared) -> Result<bool> {
        for (property, reference) in references(row) {
            let Some(content) = self.content(row, property.name(), &reference).await? else {
                return Ok(false);
            };
            let context = BlobContext::new(target.name(), new.entity.key(), property.name(), Uuid::new_v4());
            new.blobs.push(context.clone());
            let reference = target.put(&context, content).await?;
            // A reference is of the other type than its property.
            let declared = if matches!(property.value(), ValueRef::Binary(_)) {
                EdmType::String
            } else {
                EdmType::Binary
            };
            let value = reference.to_value(declared);
            new.entity.properties_mut().put(property.name(), value.as_ref(), property.is_encrypted());
        }
        Ok(true)
    }

    fn is_same(&self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(self.store(), other.store()) && self.name() == other.name()
    }
}
