use std::collections::{BTreeMap, HashMap};

use table_core::model::TableName;
use table_core::store::{GroupTransaction, Operation, Result, ServiceProfile};
use tokio::time::Instant;

/// A group that is ready to be sent.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) table: TableName,
    pub(super) group: GroupTransaction,
    bytes: usize,
    since: Instant,
}

/// Groups that wait for more operations of their partitions: by age, and by partition.
#[derive(Debug, Default)]
pub(super) struct OpenGroups {
    by_age: BTreeMap<u64, Batch>,
    by_partition: HashMap<TableName, HashMap<Box<str>, u64>>,
    next: u64,
    operations: usize,
    bytes: usize,
}

impl OpenGroups {
    /// Takes the group of an operation's partition if the operation does not fit it.
    pub(super) fn close_for(&mut self, table: &TableName, operation: &Operation) -> Option<Batch> {
        let age = self.find(table, operation.key().partition())?;
        if self.by_age.get(&age)?.group.fits(operation) { None } else { self.close(age) }
    }

    /// Adds an operation to the group of its partition, in which there is room.
    pub(super) fn add(
        &mut self,
        table: &TableName,
        operation: Operation,
        profile: &ServiceProfile,
    ) -> Result<()> {
        let partition = operation.key().partition();
        let age = match self.find(table, partition) {
            Some(age) => age,
            None => self.begin(table, partition, profile)?,
        };
        let bytes = size(&operation);
        let Some(batch) = self.by_age.get_mut(&age) else { return Ok(()) };
        if let Err(error) = batch.group.push(operation) {
            if batch.group.is_empty() {
                self.close(age);
            }
            return Err(error);
        }
        batch.bytes += bytes;
        (self.operations, self.bytes) = (self.operations + 1, self.bytes + bytes);
        Ok(())
    }

    /// Takes the group of a partition, to be sent.
    pub(super) fn close_partition(&mut self, table: &TableName, partition: &str) -> Option<Batch> {
        let age = self.find(table, partition)?;
        self.close(age)
    }

    /// Takes the oldest group.
    pub(super) fn close_oldest(&mut self) -> Option<Batch> {
        let age = *self.by_age.first_key_value()?.0;
        self.close(age)
    }

    /// Since when the oldest group waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.by_age.first_key_value().map(|(_, batch)| batch.since)
    }

    /// Whether more waits than that.
    pub(super) fn exceeds(&self, operations: usize, bytes: usize) -> bool {
        self.operations > operations || self.bytes > bytes
    }

    fn find(&self, table: &TableName, partition: &str) -> Option<u64> {
        self.by_partition.get(table)?.get(partition).copied()
    }

    fn begin(&mut self, table: &TableName, partition: &str, profile: &ServiceProfile) -> Result<u64> {
        let group = GroupTransaction::new(table_core::model::PartitionKey::new(partition)?, profile);
        let age = self.next;
        self.next += 1;
        self.by_age.insert(age, Batch { table: table.clone(), group, bytes: 0, since: Instant::now() });
        self.by_partition.entry(table.clone()).or_default().insert(partition.into(), age);
        Ok(age)
    }

    fn close(&mut self, age: u64) -> Option<Batch> {
        let batch = self.by_age.remove(&age)?;
        if let Some(partitions) = self.by_partition.get_mut(&batch.table) {
            partitions.remove(batch.group.partition().as_str());
        }
        (self.operations, self.bytes) = (self.operations - batch.group.len(), self.bytes - batch.bytes);
        (!batch.group.is_empty()).then_some(batch)
    }
}

/// What an operation takes in memory, roughly.
fn size(operation: &Operation) -> usize {
    let key = operation.key();
    let properties = operation.entity().map_or(0, |entity| entity.properties().as_packed().len());
    key.partition().len() + key.row().len() + properties + size_of::<Operation>()
}
