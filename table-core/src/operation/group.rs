use xxhash_rust::xxh3::xxh3_64;

use super::Operation;
use super::check::{Tally, min_payload};
use crate::error::{Error, LimitKind, Result};
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
    /// Hashes of the RowKeys. A key with a new hash is not compared with the other keys. Equal hashes cost a comparison with the
    /// few operations of a group, so the hash needs no secret seed.
    hashes: Vec<u64>,
    /// Whether operations may have changed after `push`. The hashes and sizes are then outdated.
    may_have_changed: bool,
    /// An upper bound of the operations' [payload](min_payload), from their lengths. Only a group near the limit is counted.
    payload_bound: usize,
    /// The number of operations whose payload was counted, and their payload in bytes.
    counted: (usize, usize),
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
            may_have_changed: false,
            payload_bound: 0,
            counted: (0, 0),
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
            return Err(Error::misuse(format!(
                "{key} is not in the partition '{}': a group transaction writes one partition",
                self.partition
            )));
        }
        let hash = xxh3_64(key.row().as_bytes());
        // The service refuses a group that writes an entity twice
        // (<https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>).
        if self.hashes.contains(&hash) && self.contains(key) {
            return Err(Error::misuse(format!(
                "{key} occurs twice: a group transaction can write an entity once"
            )));
        }
        if self.operations.len() == self.max_operations {
            return Err(Error::limit_of_kind(
                LimitKind::GroupOperations,
                "operations in a group transaction",
                self.max_operations,
                self.max_operations + 1,
            ));
        }
        let payload_bound = self
            .payload_bound
            .saturating_add(Tally::upper_bound_of(&operation).payload);
        // Near the limit the bound is too rough. The operations up to here are counted once, and their sum is kept.
        if payload_bound > self.max_bytes {
            self.counted = (self.operations.len(), self.payload());
            let bytes = self.counted.1 + min_payload(&operation);
            if bytes > self.max_bytes {
                return Err(Error::limit_of_kind(
                    LimitKind::RequestSize,
                    "bytes in a group transaction",
                    self.max_bytes,
                    bytes,
                ));
            }
        }
        self.payload_bound = payload_bound;
        self.hashes.push(hash);
        self.operations.push(operation);
        Ok(())
    }

    /// Returns the payload of all operations in bytes.
    fn payload(&self) -> usize {
        let (counted, bytes) = self.counted;
        bytes
            + self.operations[counted..]
                .iter()
                .map(min_payload)
                .sum::<usize>()
    }

    /// Checks that the payload has at most `max` bytes; otherwise returns its bytes as the error.
    pub(crate) fn payload_within(&self, max: usize) -> std::result::Result<(), usize> {
        if self.payload_bound <= max {
            return Ok(());
        }
        let bytes = self.payload();
        if bytes <= max { Ok(()) } else { Err(bytes) }
    }

    fn contains(&self, key: &Key) -> bool {
        self.operations
            .iter()
            .any(|operation| operation.key() == key)
    }

    /// Whether the group stays within the limits of operations and bytes if this operation is added.
    pub fn fits(&self, operation: &Operation) -> bool {
        let fits = || {
            let payload_bound = self
                .payload_bound
                .saturating_add(Tally::upper_bound_of(operation).payload);
            payload_bound <= self.max_bytes
                || self.payload() + min_payload(operation) <= self.max_bytes
        };
        self.operations.len() < self.max_operations && fits()
    }

    /// Returns the partition.
    pub const fn partition(&self) -> &PartitionKey {
        &self.partition
    }

    /// Whether the operations are unchanged since `push` has checked them.
    pub(crate) const fn is_unchanged(&self) -> bool {
        !self.may_have_changed
    }

    /// Returns the operations in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns the operations for modification. For example, an adapter adds or encrypts properties. Keys must not
    /// change; backends check them.
    pub fn operations_mut(&mut self) -> &mut [Operation] {
        self.may_have_changed = true;
        // The caller may change any operation, so nothing that was counted holds; `usize::MAX` makes the next check
        // count again.
        (self.payload_bound, self.counted) = (usize::MAX, (0, 0));
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
