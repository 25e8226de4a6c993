//! The rows of a feed.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use table_core::model::{Entity, Key, PartitionKey, SYSTEM_PREFIX, Ticks, ValueRef};
use table_core::store::{Error, Result};

// The names of properties: see the key layout of the module.
const NEXT: &str = "Next";
const KIND: &str = "Kind";
const ROW: &str = "Row";
const CONSUMER: &str = "Consumer";
const PARTITION: &str = "Partition";
const DONE: &str = "Done";
/// The start of the feed's keys, after [`SYSTEM_PREFIX`].
const CHANGES: &str = "changes";
/// The number of digits of a change's number in its RowKey.
const DIGITS: usize = 19;

/// What a change has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The entity was inserted.
    Inserted,
    /// The entity existed, and was replaced, merged or updated.
    Updated,
    /// The entity was inserted or changed, by an upsert: the writer does not know which.
    Written,
    /// The entity was deleted.
    Deleted,
}

impl ChangeKind {
    const ALL: [Self; 4] = [Self::Inserted, Self::Updated, Self::Written, Self::Deleted];

    const fn name(self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Updated => "updated",
            Self::Written => "written",
            Self::Deleted => "deleted",
        }
    }
}

/// A change of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The number of the change in its partition, from 1.
    pub number: i64,
    /// What the change has done.
    pub kind: ChangeKind,
    /// The key of the entity.
    pub key: Key,
    /// The time of the change by the store's clock, if the store returned it.
    pub at: Option<Ticks>,
}

/// The key of the counter of a partition.
pub(super) fn counter_key(partition: &PartitionKey) -> Result<Key> {
    Key::new(partition.as_str(), counter_row())
}

/// The RowKey of every counter, which is also the PartitionKey of all cursors.
pub(super) fn counter_row() -> String {
    format!("{SYSTEM_PREFIX}{CHANGES}")
}

/// The counter whose next change has this number.
pub(super) fn counter(partition: &PartitionKey, next: i64) -> Result<Entity> {
    Ok(Entity::from(counter_key(partition)?).with(NEXT, next))
}

/// The number of the next change, by the counter.
pub(super) fn next_number(counter: &Entity) -> Result<i64> {
    integer(counter, NEXT)
}

/// The RowKey of a change.
pub(super) fn change_row(number: i64) -> String {
    // Every `i64` fits into 19 digits, so the order of RowKeys is the order of numbers.
    format!("{SYSTEM_PREFIX}{CHANGES}~{number:0DIGITS$}")
}

/// The row of a change of the entity with this key.
pub(super) fn change(key: &Key, number: i64, kind: ChangeKind) -> Result<Entity> {
    let row = Entity::from(Key::new(key.partition(), change_row(number))?);
    Ok(row.with(KIND, kind.name()).with(ROW, key.row()))
}

impl Change {
    pub(super) fn read(row: &Entity) -> Result<Self> {
        let digits = row.key().row().rsplit('~').next().unwrap_or_default();
        let number = digits.parse();
        let number = number.map_err(|_| damaged(row, "RowKey", "a number"))?;
        let is_stored = |kind: &ChangeKind| row.get(KIND) == Some(ValueRef::String(kind.name()));
        let kind = ChangeKind::ALL.into_iter().find(is_stored);
        let kind = kind.ok_or_else(|| damaged(row, KIND, "'inserted', 'updated', 'written' or 'deleted'"))?;
        let Some(ValueRef::String(entity_row)) = row.get(ROW) else {
            return Err(damaged(row, ROW, "Edm.String"));
        };
        let key = Key::new(row.key().partition(), entity_row)?;
        Ok(Self { number, kind, key, at: row.timestamp() })
    }
}

/// The key of the cursor of a consumer in a partition: a hash, because both may be longer than a key.
pub(super) fn cursor_key(consumer: &str, partition: &PartitionKey) -> Result<Key> {
    let hash = Sha256::new()
        // With the length first, no other consumer and partition give the same bytes.
        .chain_update((consumer.len() as u64).to_be_bytes())
        .chain_update(consumer)
        .chain_update(partition.as_str())
        .finalize();
    let row: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Key::new(counter_row(), row)
}

/// The row of a cursor; `done` is the number of the last change that the consumer has handled.
pub(super) fn cursor(consumer: &str, partition: &PartitionKey, done: i64) -> Result<Entity> {
    let row = Entity::from(cursor_key(consumer, partition)?);
    Ok(row.with(CONSUMER, consumer).with(PARTITION, partition.as_str()).with(DONE, done))
}

/// The number of the last change that the consumer of a cursor has handled.
pub(super) fn handled_number(cursor: &Entity) -> Result<i64> {
    integer(cursor, DONE)
}

fn integer(row: &Entity, name: &'static str) -> Result<i64> {
    match row.get(name) {
        Some(ValueRef::Int64(number)) => Ok(number),
        _ => Err(damaged(row, name, "Edm.Int64")),
    }
}

fn damaged(row: &Entity, name: &str, expected: &str) -> Error {
    Error::decode("change feed", row.key(), name, expected, "another value")
}
