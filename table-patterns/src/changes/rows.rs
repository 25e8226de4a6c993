//! The rows of a feed.

use std::ops::RangeInclusive;

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
/// The largest number of a change: the counter has the number after it.
pub(super) const MAX_NUMBER: i64 = i64::MAX - 1;

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

/// The number of the next change, by the counter. Nothing but a feed writes its rows, but any client of the table can: the numbers in
/// them are checked wherever they are read.
pub(super) fn next_number(counter: &Entity) -> Result<i64> {
    // Below 1, changes would sort before the changes that consumers ask for.
    number(counter, NEXT, 1..=i64::MAX, "a number of at least 1")
}

/// The number of the change after this one.
///
/// # Errors
/// There is none: the counter is damaged, because no feed has that number of changes.
pub(super) fn following(partition: &PartitionKey, number: i64) -> Result<i64> {
    if number <= MAX_NUMBER {
        return Ok(number + 1);
    }
    let counter = Entity::from(counter_key(partition)?);
    Err(damaged(
        &counter,
        NEXT,
        "a number that leaves room for the next change",
    ))
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
        let number = digits
            .parse()
            .ok()
            .filter(|number| (1..=MAX_NUMBER).contains(number));
        let number = number.ok_or_else(|| damaged(row, "RowKey", "the number of a change"))?;
        let is_stored = |kind: &ChangeKind| row.get(KIND) == Some(ValueRef::String(kind.name()));
        let kind = ChangeKind::ALL.into_iter().find(is_stored);
        let kind = kind
            .ok_or_else(|| damaged(row, KIND, "'inserted', 'updated', 'written' or 'deleted'"))?;
        let Some(ValueRef::String(entity_row)) = row.get(ROW) else {
            return Err(damaged(row, ROW, "Edm.String"));
        };
        let key = Key::new(row.key().partition(), entity_row)?;
        Ok(Self {
            number,
            kind,
            key,
            at: row.timestamp(),
        })
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
    let row: String = hash
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Key::new(counter_row(), row)
}

/// The row of a cursor; `done` is the number of the last change that the consumer has handled.
pub(super) fn cursor(consumer: &str, partition: &PartitionKey, done: i64) -> Result<Entity> {
    let row = Entity::from(cursor_key(consumer, partition)?);
    Ok(row
        .with(CONSUMER, consumer)
        .with(PARTITION, partition.as_str())
        .with(DONE, done))
}

/// The number of the last change that the consumer of a cursor has handled.
pub(super) fn handled_number(cursor: &Entity) -> Result<i64> {
    number(cursor, DONE, 0..=MAX_NUMBER, "the number of a change, or 0")
}

fn number(
    row: &Entity,
    name: &'static str,
    range: RangeInclusive<i64>,
    expected: &str,
) -> Result<i64> {
    match row.get(name) {
        Some(ValueRef::Int64(number)) if range.contains(&number) => Ok(number),
        _ => Err(damaged(row, name, expected)),
    }
}

/// The error of a change that the feed has not written: its number is that of a later change.
pub(super) fn foreign_change(partition: &PartitionKey, number: i64) -> Error {
    let row = change_row(number);
    Error::corrupt(format!(
        "the change '{row}' in the partition '{partition}' has a number that its feed has not given yet: another program has written the row. \
         Delete the row"
    ))
}

/// The error of a cursor after the last change of its feed.
pub(super) fn foreign_cursor(
    consumer: &str,
    partition: &PartitionKey,
    done: i64,
    next: i64,
) -> Error {
    Error::corrupt(format!(
        "the cursor of the consumer '{consumer}' in the partition '{partition}' is at the change {done}, and the next change of the feed gets the \
         number {next}: delete the cursor, and the consumer gets all changes again"
    ))
}

fn damaged(row: &Entity, name: &str, expected: &str) -> Error {
    Error::decode("change feed", row.key(), name, expected, "another value")
}

/// The damage of a row with the key of a feed; `None` for a sound row, and for all other rows.
pub(crate) fn damage(row: &Entity) -> Option<Error> {
    let of_feed = counter_row();
    if row.key().partition() == of_feed {
        return handled_number(row).err();
    }
    let number = row.key().row().strip_prefix(&of_feed)?;
    match number {
        "" => next_number(row).err(),
        _ if number.starts_with('~') => Change::read(row).err(),
        _ => None,
    }
}
