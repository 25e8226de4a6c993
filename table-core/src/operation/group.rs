use std::hash::{BuildHasher, RandomState};

use super::Operation;
use super::size::{Tally, least_payload};
use crate::error::{Error, Result};
use crate::model::{Key, PartitionKey};
use crate::profile::ServiceProfile;

/// An entity group transaction: operations on one partition that take effect together or not at all.
///
/// [`push`](Self::push) checks that every key is in the partition, that no entity occurs twice, and that the number of
/// operations and a lower bound of the request's bytes are within the limits of the profile. The backend checks
/// the exact number of bytes before it sends the request.
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
    /// Hashes of the keys. A key with a new hash is not compared with the other keys.
    hashes: Vec<u64>,
    tallies: Vec<Tally>,
    hasher: RandomState,
    /// Whether operations may have changed after `push`. The hashes and tallies are then outdated.
    may_have_changed: bool,
    bytes: usize,
    max_operations: usize,
    max_bytes: usize,
}

impl GroupTransaction {
    /// Creates an empty transaction on one partition, with the limits of a store's profile.
    pub fn new(partition: PartitionKey, profile: &ServiceProfile) -> Self {
        Self {
            partition,
            operations: Vec::new(),
            hashes: Vec::new(),
            tallies: Vec::new(),
            hasher: RandomState::new(),
            may_have_changed: false,
            bytes: 0,
            max_operations: profile.group_operations,
            max_bytes: profile.group_bytes,
        }
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// Fails if the key is in another partition, if the entity is already in the group, or if a limit is exceeded. The
    /// group is then unchanged.
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
                "{key} occurs twice: a group transaction can write an entity once"
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

    /// Whether the group stays within the limits of operations and bytes if this operation is added.
    pub fn fits(&self, operation: &Operation) -> bool {
        self.operations.len() < self.max_operations && self.bytes + least_payload(operation) <= self.max_bytes
    }

    /// Returns the partition.
    pub const fn partition(&self) -> &PartitionKey {
        &self.partition
    }

    /// Returns the sizes that `push` computed for an operation, unless the operation may have changed since. `push` has
    /// also checked its key.
    pub(crate) fn tally_as_pushed(&self, index: usize) -> Option<Tally> {
        self.tallies.get(index).filter(|_| !self.may_have_changed).copied()
    }

    /// Returns the operations in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns the operations for modification. For example, an adapter adds or encrypts properties. Keys must not
    /// change; backends check them.
    pub fn operations_mut(&mut self) -> &mut [Operation] {
        self.may_have_changed = true;
        &mut self.operations
    }

    /// Converts the transaction to its operations.
    pub fn into_operations(self) -> Vec<Operation> {
        self.operations
    }

    /// Returns the number of operations.
    pub const fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are no operations.
    pub const fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}
