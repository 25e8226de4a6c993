//! Local entries: rows of the entity's partition, written in the group that commits the write.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, Operation, Result};

use super::Journal;
use super::plan::{Plan, violation};
use super::send::{Draft, Sent, contended, inner};
use super::state::States;
use crate::entry::{Entry, Location};

impl Journal {
    /// Reads the rows of local entries whose owner the plan does not know: while an index is built, another entity
    /// may have the row. 1 request for each.
    pub(super) async fn read_local_conflicts(&self, plan: &Plan, draft: &mut Draft) -> Result<()> {
        let reads = plan
            .unknown_owner
            .iter()
            .map(|n| self.rebase_operation(plan, &draft.rows[*n]))
            .collect::<Vec<_>>();
        let seen: Vec<_> = stream::iter(reads).buffered(self.concurrency).try_collect().await?;
        // From the last one to the first: a removed operation does not move the others.
        for (n, operation) in plan.unknown_owner.iter().zip(seen).rev() {
            replace_or_remove(draft, *n, operation);
        }
        Ok(())
    }

    /// Rebases the failed operation on a local entry, so that the group can be sent again, or returns how the write
    /// ends.
    pub(super) async fn rebase_local_entry(
        &self,
        plan: &Plan,
        draft: &mut Draft,
        n: usize,
        error: Error,
    ) -> Result<(), Sent> {
        let changed =
            error.is_already_exists() || error.is_precondition_failed() || error.is_entity_not_found();
        if !changed {
            return Err(Sent::Failed(inner(error)));
        }
        let seen = match &draft.rows[n] {
            // A missing row need not be deleted.
            Operation::Delete(..) if error.is_entity_not_found() => None,
            operation => self.rebase_operation(plan, operation).await.map_err(Sent::Failed)?,
        };
        replace_or_remove(draft, n, seen);
        Ok(())
    }

    /// The operation with the same effect on the row that is stored now. `None` if there is nothing to delete, if the
    /// row belongs to no entity of the write, or if another entity has the row of a value that both have had.
    ///
    /// # Errors
    /// Another entity has the entry key.
    async fn rebase_operation(&self, plan: &Plan, operation: &Operation) -> Result<Option<Operation>> {
        let row = self.store.get(&self.table, operation.key(), None).await?;
        let Some(wanted) = operation.entity() else {
            let own = row.filter(|row| Entry::owner_of(row).is_ok_and(|owner| plan.owners.contains(&owner)));
            return Ok(own.map(|row| Operation::Delete(row.key().clone(), version(&row))));
        };
        let Some(row) = row else { return Ok(Some(Operation::Insert(wanted.clone()))) };
        // A row without an owner is an entity.
        let owner = Entry::owner_of(&row).unwrap_or_else(|_| row.key().clone());
        if !plan.owners.contains(&owner) && (owner == *row.key() || self.has_entry(&owner, row.key()).await?)
        {
            return match plan.local.iter().find(|entry| entry.location.key == *wanted.key()) {
                Some(entry) if self.had_same_value(plan, entry) => Ok(None),
                Some(entry) => Err(violation(entry, &owner)),
                None => Err(contended(plan)),
            };
        }
        Ok(Some(Operation::Replace(wanted.clone(), version(&row))))
    }

    /// Whether an entity keeps a value of a unique index that is not complete. Two entities may have had the value
    /// before, and the other one has the row.
    fn had_same_value(&self, plan: &Plan, entry: &Entry) -> bool {
        let kept = |operation: &Operation| matches!(operation, Operation::InsertOrReplace(_));
        let planned = plan.operations.iter().find(|operation| *operation.key() == entry.location.key);
        entry.unique && planned.is_some_and(kept) && !self.maintainer.is_complete(&entry.index)
    }

    /// Whether an entity has an entry at a key of the table. A row that its owner no longer wants may be overwritten
    /// in the version that was read: an owner that wants it again meets the new row.
    async fn has_entry(&self, owner: &Key, key: &Key) -> Result<bool> {
        let at = Location { table: self.table.clone(), key: key.clone() };
        let mut states = States::new(vec![owner.clone()]);
        states.read_again(self, owner).await?;
        Ok(states.entry_at(self, owner, &at)?.is_some())
    }
}

fn replace_or_remove(draft: &mut Draft, n: usize, operation: Option<Operation>) {
    match operation {
        Some(operation) => draft.rows[n] = operation,
        None => drop(draft.rows.remove(n)),
    }
}

fn version(row: &Entity) -> IfMatch {
    row.etag().map_or(IfMatch::Any, IfMatch::from)
}

#[cfg(test)]
mod tests;
