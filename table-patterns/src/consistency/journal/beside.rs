//! Entries in the entity's own partition: rows of the group that commits the write.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, Operation, Result};

use super::Journal;
use super::plan::{Plan, violation};
use super::send::{Draft, Sent, contended, inner};
use super::state::States;
use crate::index::{Entry, Location};

/// Rows read at once.
const IN_PARALLEL: usize = 16;

impl Journal {
    /// Looks at the rows of entries of which the plan does not know whose they are: while an index is built, another
    /// entity may have the row. One request for each.
    pub(super) async fn look_beside(&self, plan: &Plan, draft: &mut Draft) -> Result<()> {
        let reads = plan.unsure.iter().map(|n| self.as_it_is(plan, &draft.rows[*n])).collect::<Vec<_>>();
        let seen: Vec<_> = stream::iter(reads).buffered(IN_PARALLEL).try_collect().await?;
        // From behind: what is left out moves no other.
        for (n, operation) in plan.unsure.iter().zip(seen).rev() {
            put_back(draft, *n, operation);
        }
        Ok(())
    }

    /// Changes the operation on an entry so that it can be sent again, or says how the write ends.
    pub(super) async fn correct_entry(
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
            // What is not there need not be removed.
            Operation::Delete(..) if error.is_entity_not_found() => None,
            operation => self.as_it_is(plan, operation).await.map_err(Sent::Failed)?,
        };
        put_back(draft, n, seen);
        Ok(())
    }

    /// The operation that does the same to the row that is there now; none where there is nothing to remove, or
    /// nothing of the write's entities, or where the row of a value that two have had is the other one's.
    ///
    /// # Errors
    /// Another entity has the entry that is to be written.
    async fn as_it_is(&self, plan: &Plan, operation: &Operation) -> Result<Option<Operation>> {
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
                Some(entry) if self.was_shared(plan, entry) => Ok(None),
                Some(entry) => Err(violation(entry, &owner)),
                None => Err(contended(plan)),
            };
        }
        Ok(Some(Operation::Replace(wanted.clone(), version(&row))))
    }

    /// Whether an entity keeps a value of a unique index that is not complete: two may have had it before, and the other
    /// one has the row.
    fn was_shared(&self, plan: &Plan, entry: &Entry) -> bool {
        let kept = |operation: &Operation| matches!(operation, Operation::InsertOrReplace(_));
        let planned = plan.operations.iter().find(|operation| *operation.key() == entry.location.key);
        entry.unique && planned.is_some_and(kept) && !self.maintainer.is_complete(&entry.index)
    }

    /// Whether an entity has an entry at a key of the table. What it has not is left of a state that it was in before, and
    /// anybody may write over that in the version that was read: who wants to have it again meets it too.
    async fn has_entry(&self, owner: &Key, key: &Key) -> Result<bool> {
        let at = Location { table: self.table.clone(), key: key.clone() };
        let mut states = States::new(vec![owner.clone()]);
        states.read_again(self, owner).await?;
        Ok(states.entry_at(self, owner, &at)?.is_some())
    }
}

fn put_back(draft: &mut Draft, n: usize, operation: Option<Operation>) {
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
