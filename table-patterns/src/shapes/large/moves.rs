//! Moves: the row with its blobs.

use table_core::model::{EdmType, Entity, Key, ValueRef};
use table_core::store::{Error, Result};
use table_core::typed::{KeyOf, TableEntity};

use super::LargeTable;
use super::rewrite_row::references;
use super::values::NewBlobs;
use crate::journal::{Change, Moved};
use crate::rows::conflict::Conflicts;

impl<T: TableEntity> LargeTable<T> {
    /// Moves an entity with its large values to a key of this or another table, whatever is there; whether there was one.
    /// A change that another writer makes meanwhile is moved as well.
    ///
    /// The values are copied into blobs of the target before the row is written there; the row here goes after that, its
    /// blobs last. Within a partition of one table both rows are written at once. To another partition, an entity with entries in other
    /// partitions goes by one write of the [`journal`](crate::journal#moves): it keeps its unique values from the first request to the
    /// last, and a move that dies is finished or given up by workers, sweeps and who writes the entity; the blobs that it leaves are
    /// [collected](Self::collect). Any other move that dies leaves both, and is to be run again. Another table has indexes of its own, in
    /// which the values are unique by themselves. Requests: see the [module](super).
    ///
    /// # Errors
    /// A unique value is taken at the target; the stores'; a blob is missing or damaged; still in conflict after all attempts; what is
    /// at the target is stored in a later version of the schema; the place is the same.
    pub async fn move_to(&self, key: impl KeyOf<T>, target: &Self, to: impl KeyOf<T>) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        if self.is_same(target) && key == to {
            return Err(Error::invalid_request(format!("{key} would be moved to where it is")));
        }
        let mut conflicts = Conflicts::new(self.options().attempts);
        loop {
            match self.try_move(&key, target, &to).await {
                Ok(Try::Moved) => return Ok(true),
                Ok(Try::Nothing) => return Ok(false),
                // A blob is gone because the row has changed.
                Ok(Try::Changed) => {}
                Ok(Try::GivenUp(error)) => conflicts.again(error).await?,
                Err(error) => conflicts.wait(error).await?,
            }
        }
    }

    async fn try_move(&self, key: &Key, target: &Self, to: &Key) -> Result<Try> {
        let is_within = self.is_same(target) && key.partition() == to.partition();
        let journaled = self.writer().indexes_elsewhere().filter(|_| self.is_same(target) && !is_within);
        let check = |there: &Entity| T::SCHEMA.check_replaceable(there);
        let (row, there) = match journaled {
            Some(indexes) => match indexes.journal().read_to_move(key, to, &|_| Ok(()), &check).await? {
                Some(both) => both,
                None => return Ok(Try::Nothing),
            },
            None => {
                let Some(row) = self.row(key).await? else { return Ok(Try::Nothing) };
                let there = target.row(to).await?;
                there.as_ref().map_or(Ok(()), check)?;
                (row, there)
            }
        };
        let (mut entity, mut new) =
            (row.clone().with_system(None, None).with_key(to.clone()), NewBlobs::none());
        match self.copy_blobs(&row, target, &mut entity, &mut new).await {
            Ok(true) => {}
            unfinished => {
                target.values().withdraw(&new).await;
                return unfinished.map(|_| Try::Changed);
            }
        }
        if let Some(indexes) = journaled {
            match self.writer().move_row(indexes, &new, (&row, there.as_ref()), &entity).await? {
                Ok(Moved::Done(_)) => return Ok(Try::Moved),
                Ok(Moved::Nothing) => return Ok(Try::Nothing),
                Ok(Moved::NotJournaled) => {}
                Err(error) => return Ok(Try::GivenUp(error)),
            }
        }
        let put = match there {
            None => Change::insert(entity),
            Some(there) => Change::replace(there, entity),
        };
        if is_within {
            target.writer().commit(&new, &[Change::delete(row), put]).await?;
        } else {
            target.writer().commit(&new, &[put]).await?;
            self.delete_read(&row).await?;
        }
        Ok(Try::Moved)
    }

    /// Copies the blobs of a row for the entity that it is to become; whether none was gone because the row has changed.
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

/// What one attempt at a move came to.
enum Try {
    Moved,
    /// There is no such entity.
    Nothing,
    /// The row has changed meanwhile.
    Changed,
    /// Another process gave it up before its commit.
    GivenUp(Error),
}
