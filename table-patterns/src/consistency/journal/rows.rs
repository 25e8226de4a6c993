//! Plain entries elsewhere: rows of one partition, written in groups.

use std::collections::BTreeMap;

use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::store::{Error, ErrorKind, GroupTransaction, Operation, Result};

use super::Journal;
use super::rules::Rule;
use super::state::States;
use super::touched::Touched;
use super::unique::is_unique_row;
use crate::index::{Entry, Location};
use crate::rows::took_effect::took_effect;

/// Whose a row is that stands where an entry is to go.
enum Own {
    /// The entity's own, or nobody's any more: this writes the entry.
    Write(Operation),
    /// Another entity's.
    Other(Key),
}

impl Journal {
    /// Writes the plain entries of one partition in groups, asking before each; what is to go and is gone
    /// already is left out. Whether all were sent: the others are left in `operations`.
    ///
    /// # Errors
    /// Another entity has an entry of the same key: nothing of its group was written.
    pub(crate) async fn put_while(
        &self,
        to: &(TableName, PartitionKey),
        operations: &mut Vec<Operation>,
        may_send: impl FnMut() -> bool + Send,
    ) -> Result<bool> {
        self.put_rows(to, operations, &States::default(), may_send).await
    }

    /// The same for entities of one write: the row of one that is gone may become another's.
    pub(super) async fn put_rows(
        &self,
        to: &(TableName, PartitionKey),
        operations: &mut Vec<Operation>,
        states: &States,
        mut may_send: impl FnMut() -> bool + Send,
    ) -> Result<bool> {
        while !operations.is_empty() {
            let group = self.first_group(&to.1, operations)?;
            let taken = group.len();
            if !may_send() {
                return Ok(false);
            }
            match took_effect(self.store().transact(&to.0, group).await) {
                Ok(_) => drop(operations.drain(..taken)),
                Err(e) => self.correct_row(&to.0, operations, states, e).await?,
            }
        }
        Ok(true)
    }

    /// As many of the operations as one group takes.
    fn first_group(&self, partition: &PartitionKey, operations: &[Operation]) -> Result<GroupTransaction> {
        let mut group = GroupTransaction::new(partition.clone(), self.store().profile());
        for operation in operations {
            if !group.is_empty() && !group.fits(operation) {
                break;
            }
            group.push(operation.clone())?;
        }
        Ok(group)
    }

    /// Changes the operation that failed so that it can be sent again, or hands the error on.
    async fn correct_row(
        &self,
        table: &TableName,
        operations: &mut Vec<Operation>,
        states: &States,
        error: Error,
    ) -> Result<()> {
        let Some(failed) = error.failed_index().filter(|_| !error.is_ambiguous()) else { return Err(error) };
        match &operations[failed] {
            Operation::Delete(..) if error.is_entity_not_found() => drop(operations.remove(failed)),
            Operation::Insert(row) if error.is_already_exists() => {
                match self.own_row(table, row, states).await? {
                    Own::Write(own) => operations[failed] = own,
                    Own::Other(owner) => return Err(collision(row, &owner)),
                }
            }
            // Written by another applier since it was looked at.
            Operation::Replace(row, _) if error.is_precondition_failed() || error.is_entity_not_found() => {
                operations[failed] = Operation::Insert(row.clone());
            }
            _ => return Err(error),
        }
        Ok(())
    }

    /// Looks at the row that keeps an entry from being inserted. One request.
    async fn own_row(&self, table: &TableName, wanted: &Entity, states: &States) -> Result<Own> {
        let Some(row) = self.store.get(table, wanted.key(), None).await? else {
            return Ok(Own::Write(Operation::Insert(wanted.clone())));
        };
        // A row without an owner is an entity.
        let owner = Entry::owner_of(&row).unwrap_or_else(|_| row.key().clone());
        let is_gone = states.contains(&owner) && states.get(&owner).is_none();
        if owner != Entry::owner_of(wanted)? && !is_gone {
            return Ok(Own::Other(owner));
        }
        let condition = row.etag().map_or(IfMatch::Any, IfMatch::from);
        Ok(Own::Write(Operation::Replace(wanted.clone(), condition)))
    }

    /// Leaves the deletions of what belongs to entities of the write: where keys collide, or long after it, another
    /// may have the key. Those of the entities that have become unique rows are answered instead: rule U decides.
    /// One request per deletion.
    pub(super) async fn without_others(
        &self,
        table: &TableName,
        operations: &mut Vec<Operation>,
        states: &States,
    ) -> Result<Vec<Location>> {
        let (mut kept, mut reserved) = (Vec::with_capacity(operations.len()), Vec::new());
        for operation in operations.drain(..) {
            let Operation::Delete(key, _) = &operation else {
                kept.push(operation);
                continue;
            };
            let row = self.store.get(table, key, None).await?;
            let own = |row: &Entity| Entry::owner_of(row).is_ok_and(|owner| states.contains(&owner));
            let Some(row) = row.filter(own) else { continue };
            if is_unique_row(&row) && self.keeps(Rule::ByDefinition) {
                reserved.push(Location { table: table.clone(), key: key.clone() });
            } else if let Some(etag) = row.etag() {
                kept.push(Operation::Delete(key.clone(), IfMatch::from(etag)));
            }
        }
        *operations = kept;
        Ok(reserved)
    }
}

fn collision(wanted: &Entity, owner: &Key) -> Error {
    let index = Entry::index_of(wanted).unwrap_or_default().to_owned();
    ErrorKind::KeyCollision { index, entry: wanted.key().to_string(), owner: owner.to_string() }.into()
}

type ByPartition = BTreeMap<(TableName, PartitionKey), Vec<Operation>>;

/// What makes the touched keys agree with what is wanted, by partition: inserts of what the write adds, so
/// that another entity's row is noticed, and of everything where such rows may be. So it is where the index kept no
/// plain rows when the write touched them.
pub(super) fn operations(
    touched: Vec<(Location, &Touched)>,
    wanted: &BTreeMap<Location, Entry>,
    may_collide: bool,
) -> ByPartition {
    let mut by_partition = ByPartition::new();
    for (at, touched) in touched {
        let unsure = may_collide || touched.added || touched.unique || touched.shared.is_some();
        let operation = match wanted.get(&at) {
            Some(entry) if unsure => Operation::Insert(entry.to_entity()),
            Some(entry) => Operation::InsertOrReplace(entry.to_entity()),
            None => Operation::Delete(at.key.clone(), IfMatch::Any),
        };
        by_partition.entry((at.table, at.key.partition_key())).or_default().push(operation);
    }
    by_partition
}
