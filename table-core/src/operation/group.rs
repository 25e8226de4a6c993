use std::hash::{BuildHasher, RandomState};

use super::Operation;
use super::size::{Tally, least_payload};
use crate::error::{Error, Result};
use crate::model::{Key, PartitionKey};
use crate::profile::ServiceProfile;

/// An entity group transaction: operations on one partition that all happen or none does.
///
/// Checked while it is built: every key is in the partition, no entity comes twice, and the
/// number of operations and a lower bound of the request's bytes stay within the profile. The
/// backend checks the exact bytes before it sends anything.
///
/// Cost: one request.
///
/// ```
/// use table_core::model::{Entity, PartitionKey};
/// use table_core::store::{GroupTransaction, Operation, ServiceProfile};
/// let mut group = GroupTransaction::new(PartitionKey::new("Sales")?, &ServiceProfile::LOCAL);
/// group.push(Operation::Insert(Entity::new("Sales", "empid_000001")?))?;
/// let refused = group.push(Operation::Insert(Entity::new("Marketing", "empid_000002")?));
/// assert!(refused.unwrap_err().to_string().contains("Marketing"));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GroupTransaction {
    partition: PartitionKey,
    operations: Vec<Operation>,
    /// Hashes of the keys, so that most are known to be new without a look at the others.
    hashes: Vec<u64>,
    tallies: Vec<Tally>,
    hasher: RandomState,
    /// Whether operations may have changed since they were pushed.
    touched: bool,
    bytes: usize,
    max_operations: usize,
    max_bytes: usize,
}

impl GroupTransaction {
    /// An empty transaction on one partition, bounded by a store's profile.
    pub fn new(partition: PartitionKey, profile: &ServiceProfile) -> Self {
        Self {
            partition,
            operations: Vec::new(),
            hashes: Vec::new(),
            tallies: Vec::new(),
            hasher: RandomState::new(),
            touched: false,
            bytes: 0,
            max_operations: profile.group_operations,
            max_bytes: profile.group_bytes,
        }
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// Another partition, an entity that is already in the group, or a limit; the group is then
    /// as it was.
    pub fn push(&mut self, operation: Operation) -> Result<()> {
        let key = operation.key();
        if key.partition() != self.partition.as_str() {
            return Err(Error::invalid_group(format!(
                "{key} is not in the partition '{}': a group transaction writes one partition",
                self.partition
            )));
        }
        let hash = self.hasher.hash_one(key);
        if self.hashes.contains(&hash) && self.writes(key) {
            return Err(Error::invalid_group(format!(
                "{key} occurs twice: an entity can be written once in a group"
            )));
        }
        if self.operations.len() == self.max_operations {
            return Err(Error::limit(
                "operations in a group transaction",
                self.max_operations,
                self.max_operations + 1,
            ));
        }
        let tally = Tally::of_operation(&operation);
        let bytes = self.bytes + tally.payload;
        if bytes > self.max_bytes {
            return Err(Error::limit("bytes in a group transaction", self.max_bytes, bytes));
        }
        self.bytes = bytes;
        self.hashes.push(hash);
        self.tallies.push(tally);
        self.operations.push(operation);
        Ok(())
    }

    fn writes(&self, key: &Key) -> bool {
        self.operations.iter().any(|operation| operation.key() == key)
    }

    /// Whether another operation of this kind would fit the count and the bytes.
    pub fn fits(&self, operation: &Operation) -> bool {
        self.operations.len() < self.max_operations && self.bytes + least_payload(operation) <= self.max_bytes
    }

    /// The partition.
    pub const fn partition(&self) -> &PartitionKey {
        &self.partition
    }

    /// What was counted of an operation when it was pushed and its key checked, if it is still that one.
    pub(crate) fn tally_as_pushed(&self, index: usize) -> Option<Tally> {
        self.tallies.get(index).filter(|_| !self.touched).copied()
    }

    /// The operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations, to change what they carry (an adapter adds a property, encrypts one). Keys
    /// must stay; backends check.
    pub fn operations_mut(&mut self) -> &mut [Operation] {
        self.touched = true;
        &mut self.operations
    }

    /// The operations.
    pub fn into_operations(self) -> Vec<Operation> {
        self.operations
    }

    /// How many operations there are.
    pub const fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}
