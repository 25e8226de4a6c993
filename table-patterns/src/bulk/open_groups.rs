//! Collects operations of one partition into group transactions.

use std::collections::{BTreeMap, HashMap, HashSet};

use table_core::model::{Key, PartitionKey, TableName};
use table_core::store::{GroupTransaction, Operation, Result, ServiceProfile};
use tokio::time::Instant;

/// A group of operations of one partition of a table. The group is open while it is in [`OpenGroups`], and closed when a method of it has
/// returned the group.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) table: TableName,
    pub(super) group: GroupTransaction,
    /// The keys of the operations.
    pub(super) keys: HashSet<Key>,
    bytes: usize,
    opened: Instant,
}

/// Groups that wait for more operations of their partitions.
///
/// Each partition has at most one open group. Groups are numbered in the order in which they were opened; the smallest
/// number is the oldest group. `operations` and `bytes` are the sums over all open groups.
#[derive(Debug, Default)]
pub(super) struct OpenGroups {
    by_number: BTreeMap<u64, Batch>,
    by_partition: HashMap<TableName, HashMap<Box<str>, u64>>,
    next_number: u64,
    operations: usize,
    bytes: usize,
}

impl OpenGroups {
    /// Closes the group of the operation's partition if it does not take the operation: the operation does not fit, or another
    /// operation has its key.
    pub(super) fn make_room(&mut self, table: &TableName, operation: &Operation) -> Option<Batch> {
        let number = self.find(table, operation.key().partition())?;
        let batch = self.by_number.get(&number)?;
        let takes = batch.group.fits(operation) && !batch.keys.contains(operation.key());
        if takes { None } else { self.close(number) }
    }

    /// Adds an operation to the group of its partition. The caller has called [`make_room`](Self::make_room)
    /// before: an error therefore means that no group takes the operation.
    pub(super) fn add(
        &mut self,
        table: &TableName,
        operation: Operation,
        profile: &ServiceProfile,
    ) -> Result<()> {
        let partition = operation.key().partition();
        let number = match self.find(table, partition) {
            Some(number) => number,
            None => self.open(table, partition, profile)?,
        };
        let (bytes, key) = (size(&operation), operation.key().clone());
        let Some(batch) = self.by_number.get_mut(&number) else {
            return Ok(());
        };
        if let Err(error) = batch.group.push(operation) {
            // A new group that refuses its first operation goes, so that no group is empty.
            if batch.group.is_empty() {
                self.close(number);
            }
            return Err(error);
        }
        batch.bytes += bytes;
        batch.keys.insert(key);
        (self.operations, self.bytes) = (self.operations + 1, self.bytes + bytes);
        Ok(())
    }

    /// Closes the oldest group.
    pub(super) fn close_oldest(&mut self) -> Option<Batch> {
        // Numbers grow, so the first is that of the oldest group.
        let number = *self.by_number.first_key_value()?.0;
        self.close(number)
    }

    /// The time at which the oldest group was opened.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.by_number
            .first_key_value()
            .map(|(_, batch)| batch.opened)
    }

    /// Whether more than this number of operations or bytes wait.
    pub(super) fn exceeds(&self, operations: usize, bytes: usize) -> bool {
        self.operations > operations || self.bytes > bytes
    }

    fn find(&self, table: &TableName, partition: &str) -> Option<u64> {
        self.by_partition.get(table)?.get(partition).copied()
    }

    fn open(
        &mut self,
        table: &TableName,
        partition: &str,
        profile: &ServiceProfile,
    ) -> Result<u64> {
        let group = GroupTransaction::new(PartitionKey::new(partition)?, profile);
        let number = self.next_number;
        self.next_number += 1;
        let batch = Batch {
            table: table.clone(),
            group,
            keys: HashSet::new(),
            bytes: 0,
            opened: Instant::now(),
        };
        self.by_number.insert(number, batch);
        self.by_partition
            .entry(table.clone())
            .or_default()
            .insert(partition.into(), number);
        Ok(number)
    }

    /// Removes a group; `None` if it is empty.
    fn close(&mut self, number: u64) -> Option<Batch> {
        let batch = self.by_number.remove(&number)?;
        if let Some(partitions) = self.by_partition.get_mut(&batch.table) {
            partitions.remove(batch.group.partition().as_str());
        }
        // Only operations of open groups are counted; the writer bounds the operations that are sent.
        (self.operations, self.bytes) = (
            self.operations - batch.group.len(),
            self.bytes - batch.bytes,
        );
        (!batch.group.is_empty()).then_some(batch)
    }
}

/// The approximate size of an operation in memory, in bytes.
fn size(operation: &Operation) -> usize {
    let key = operation.key();
    let properties = operation
        .entity()
        .map_or(0, |entity| entity.properties().as_packed().len());
    key.partition().len() + key.row().len() + properties + size_of::<Operation>()
}
