//! The rows with the positions of consumers.

use sha2::{Digest, Sha256};
use table_core::model::{ETag, Entity, FEED_COUNTER, Key, PartitionKey};
use table_core::store::{Error, Result};
use uuid::Uuid;

use crate::entry::shared::feed::{self, MAX_NUMBER, feed_id, number, with_feed};

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

/// How far a consumer has handled the changes of a partition.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    /// The number of the last change that the consumer has handled.
    pub(super) done: i64,
    /// The feed whose changes these are: see [`Counter`](crate::entry::shared::feed::Counter).
    pub(super) feed: Uuid,
    /// The version of the row; `None`: there is no row yet.
    pub(super) version: Option<ETag>,
}

impl Cursor {
    pub(super) fn read(row: &Entity) -> Result<Self> {
        Ok(Self {
            done: number(row, DONE, 0..=MAX_NUMBER, "the number of a change, or 0")?,
            feed: feed_id(row)?,
            version: row.etag().cloned(),
        })
    }

    /// The row of the cursor.
    pub(super) fn row(&self, consumer: &str, partition: &PartitionKey) -> Result<Entity> {
        let row = Entity::from(cursor_key(consumer, partition)?)
            .with(CONSUMER, consumer)
            .with(PARTITION, partition.as_str())
            .with(DONE, self.done);
        Ok(with_feed(row, self.feed))
    }
}

/// The error of a cursor after the last change of its feed.
pub(super) fn foreign_cursor(
    consumer: &str,
    partition: &PartitionKey,
    done: i64,
    next: i64,
) -> Error {
    let key = cursor_key(consumer, partition);
    let key = key.map_or_else(|_| String::new(), |key| key.to_string());
    Error::corrupt(format!(
        "the cursor {key} of the consumer '{consumer}' in the partition '{partition}' is at the change {done}, and the next change of the feed \
         gets the number {next}: another program has written the row. Delete it, and the consumer gets all changes again"
    ))
}

/// The error of a consumer whose feed was dropped and has begun again since it began.
pub(super) fn begun_again(partition: &PartitionKey) -> Error {
    Error::wrong_state(format!(
        "the feed of the partition '{partition}' was dropped, and has begun again: run the consumer again, and it gets the changes of the new \
         feed from the first on"
    ))
}

/// The damage of a row of a feed; `None` for a sound row, and for all other rows.
pub(crate) fn damage(row: &Entity) -> Option<Error> {
    if row.key().partition() == CURSORS {
        return Cursor::read(row).err();
    }
    feed::damage(row)
}
