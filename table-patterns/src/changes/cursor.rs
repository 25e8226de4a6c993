//! The rows with the positions of consumers.

use sha2::{Digest, Sha256};
use table_core::model::{Entity, FEED_COUNTER, Key, PartitionKey};
use table_core::store::{Error, Result};

use crate::entry::shared::feed::{self, MAX_NUMBER, number};

// The names of properties: see the key layout of the module.
const CONSUMER: &str = "Consumer";
const PARTITION: &str = "Partition";
const DONE: &str = "Done";
/// The PartitionKey of all cursors.
pub(super) const CURSORS: &str = FEED_COUNTER;

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
    Key::new(CURSORS, row)
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

/// The damage of a row of a feed; `None` for a sound row, and for all other rows.
pub(crate) fn damage(row: &Entity) -> Option<Error> {
    if row.key().partition() == CURSORS {
        return handled_number(row).err();
    }
    feed::damage(row)
}
