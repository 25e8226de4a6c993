use std::sync::Arc;

use super::write::{bound_replace, is_lost};
use super::{Conflicts, KeyOf, Table};
use crate::model::IfMatch;
use crate::store::{Error, Operation, Result};
use crate::typed::TableEntity;

/// Moves.
impl<T: TableEntity> Table<T> {
    /// Moves an entity to a key of this or another table, whatever is there, with the properties that `T` does not know; whether
    /// there was one. A change that another writer makes meanwhile is moved as well.
    ///
    /// It is written there and then removed here, in the version that was written: a move that dies in between leaves both,
    /// and is to be run again. Three requests; one more for a type that has a `type` or a `version`, which may be
    /// stored in a later one; again for each writer that comes in between.
    ///
    /// # Errors
    /// The stores'; precondition failed, after the last attempt; what is at the target is stored in a later version of the schema;
    /// the place is the same.
    pub async fn move_to(&self, key: impl KeyOf<T>, target: &Self, to: impl KeyOf<T>) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        if Arc::ptr_eq(self.store(), target.store()) && self.name() == target.name() && key == to {
            return Err(Error::invalid_request(format!("{key} would be moved to where it is")));
        }
        self.to_write(&key, "a move").await?;
        target.to_write(&to, "a move").await?;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        loop {
            let Some(row) = self.store().get(self.name(), &key, None).await? else { return Ok(false) };
            let version = row.etag().cloned().map_or(IfMatch::Any, IfMatch::Exactly);
            let moved = row.with_system(None, None).with_key(to.clone());
            let put = if T::SCHEMA.may_be_newer() {
                bound_replace(moved, target.shared().replaceable_in(T::SCHEMA, &to).await?)
            } else {
                Operation::InsertOrReplace(moved)
            };
            let moved = match target.write(put).await {
                Ok(_) => self.write(Operation::Delete(key.clone(), version)).await,
                Err(error) => Err(error),
            };
            match moved {
                Err(error) => conflicts.wait_if(is_lost(&error), error).await?,
                Ok(_) => return Ok(true),
            }
        }
    }
}
