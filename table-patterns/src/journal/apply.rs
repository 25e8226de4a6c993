//! Steps 5 to 7: make the touched keys agree with the entities as they are now, then clear the evidence.

use std::collections::BTreeMap;

use table_core::model::{ETag, IfMatch, PartitionKey, TableName};
use table_core::store::{GroupTransaction, Operation, Result};

use super::Journal;
use super::lease::Lease;
use super::row::{JournalRow, WriteId};
use super::state::States;
use super::touched::Touched;
use crate::index::{Entry, Location};

/// Whether a write's remote entries are in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// They are.
    Applied,
    /// A worker or a sweep will bring them into step: the journal row is there.
    Pending,
}

/// Unique rows that the write reserved itself, with the version of each.
pub(super) type Reserved = BTreeMap<Location, ETag>;

impl Journal {
    /// Applies a journal row under a lease. Stops early, leaving the row, when the lease is about to
    /// end or an answer is in doubt: the evidence must outlive every request that may still take
    /// effect.
    pub(super) async fn apply(
        &self,
        row: &JournalRow,
        mut states: States,
        reserved: &Reserved,
        lease: Lease,
    ) -> Result<Entries> {
        let mut own = Some(reserved);
        loop {
            let used = states.versions();
            let done = self.apply_once(row, &mut states, own.take(), lease).await?;
            if !done || !lease.may_send() {
                return Ok(Entries::Pending);
            }
            states.read_all_again(self).await?;
            if states.versions() == used {
                return self.clear(row).await;
            }
        }
    }

    async fn apply_once(
        &self,
        row: &JournalRow,
        states: &mut States,
        reserved: Option<&Reserved>,
        lease: Lease,
    ) -> Result<bool> {
        let wanted = states.entries(self)?;
        let (unique, plain): (Vec<_>, Vec<_>) = row.touched.iter().partition(|t| t.unique);
        for (partition, operations) in operations(&plain, &wanted)? {
            if !lease.may_send() || !definite(self.put_all(&partition, operations).await.map(drop))? {
                return Ok(false);
            }
        }
        for touched in unique {
            let at = touched.location()?;
            if !lease.may_send()
                || !definite(self.apply_unique(&at, row.id, states, &wanted, reserved).await)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn apply_unique(
        &self,
        at: &Location,
        write: WriteId,
        states: &mut States,
        wanted: &BTreeMap<Location, Entry>,
        reserved: Option<&Reserved>,
    ) -> Result<()> {
        if let (Some(entry), Some(version)) = (wanted.get(at), reserved.and_then(|r| r.get(at)))
            && self.settle_own(entry, write, version.clone()).await?
        {
            return Ok(());
        }
        self.settle(at, write, states).await
    }

    /// Writes the plain entries of one partition in groups; what is to go and is gone already is
    /// left out. How many groups it took.
    pub(crate) async fn put_all(
        &self,
        to: &(TableName, PartitionKey),
        mut operations: Vec<Operation>,
    ) -> Result<usize> {
        let mut sent = 0;
        while !operations.is_empty() {
            let group = self.first_group(&to.1, &operations)?;
            let taken = group.len();
            sent += 1;
            match self.store().transact(&to.0, group).await {
                Ok(_) => drop(operations.drain(..taken)),
                Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => {
                    drop(operations.remove(e.failed_index().unwrap_or_default()));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(sent)
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

    /// Step 7: the journal row first, then the ticket, which its owner deletes.
    async fn clear(&self, row: &JournalRow) -> Result<Entries> {
        let condition = row.etag.clone().map_or(IfMatch::Any, IfMatch::Exactly);
        let delete = Operation::Delete(row.key.clone(), condition);
        match self.store().write(self.table(), delete).await {
            Ok(_) => Ok(Entries::Applied),
            Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(Entries::Applied),
            Err(e) if e.is_precondition_failed() || e.is_ambiguous() => Ok(Entries::Pending),
            Err(e) => Err(e),
        }
    }
}

/// An answer in doubt stops the applier; the evidence stays.
fn definite(result: Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.is_ambiguous() || e.is_transient() => Ok(false),
        Err(e) => Err(e),
    }
}

type ByPartition = BTreeMap<(TableName, PartitionKey), Vec<Operation>>;

/// Upserts of what is wanted and deletes of what is not, by partition.
fn operations(touched: &[&Touched], wanted: &BTreeMap<Location, Entry>) -> Result<ByPartition> {
    let mut by_partition = ByPartition::new();
    for touched in touched {
        let at = touched.location()?;
        let operation = match wanted.get(&at) {
            Some(entry) => Operation::InsertOrReplace(entry.to_entity()),
            None => Operation::Delete(at.key.clone(), IfMatch::Any),
        };
        by_partition.entry((at.table, at.key.partition_key())).or_default().push(operation);
    }
    Ok(by_partition)
}
