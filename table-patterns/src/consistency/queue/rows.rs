//! The rows of a queue: keys, properties and receipts.

use std::time::Duration;

use table_core::model::{ETag, Entity, Key, PartitionKey, Ticks, ValueRef};
use table_core::queue::{Message, MessageId, Receipt};
use table_core::store::{Error, ErrorKind, Result};

use crate::clock::after;

/// The resolution of [`Ticks`].
pub(super) const TICK: Duration = Duration::from_nanos(100);

/// The start of the RowKey of a message.
pub(super) const MESSAGE: &str = "m_";
/// The start of the RowKey of a poison message.
pub(super) const POISON: &str = "p_";

const BODY: &str = "Body";
const COUNT: &str = "DequeueCount";
const INSERTED: &str = "Inserted";

/// A message as a row of its queue.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) etag: Option<ETag>,
    pub(super) id: MessageId,
    pub(super) body: String,
    pub(super) count: u32,
    pub(super) inserted: Ticks,
}

/// Whether a row is a poison message of a queue.
pub(crate) fn is_poison(row: &Entity) -> bool {
    row.key().row().starts_with(POISON) && Row::read(row).is_ok()
}

/// The RowKey of a message with this state and time.
pub(super) fn row_key(state: &str, at: Ticks, id: &MessageId) -> String {
    // 19 digits hold the last tick of the year 9999, so the order of RowKeys is the order of time.
    format!("{state}{:019}_{id}", at.get())
}

/// The lower bound of the RowKeys with this state from the time `at`.
pub(super) fn row_key_from(state: &str, at: Ticks) -> String {
    format!("{state}{:019}", at.get())
}

impl Row {
    pub(super) fn read(entity: &Entity) -> Result<Self> {
        let damaged = |property: &str, expected: &str| {
            Error::decode(
                "queue message",
                entity.key(),
                property,
                expected,
                "a missing or invalid value",
            )
        };
        let Some(ValueRef::String(body)) = entity.get(BODY) else {
            return Err(damaged(BODY, "Edm.String"));
        };
        let Some(ValueRef::Int32(count)) = entity.get(COUNT) else {
            return Err(damaged(COUNT, "Edm.Int32"));
        };
        let Some(ValueRef::DateTime(inserted)) = entity.get(INSERTED) else {
            return Err(damaged(INSERTED, "Edm.DateTime"));
        };
        // All after the second underscore is the id, which may have underscores.
        let id = entity
            .key()
            .row()
            .splitn(3, '_')
            .nth(2)
            .ok_or_else(|| damaged("RowKey", "state_ticks_id"))?;
        Ok(Self {
            key: entity.key().clone(),
            etag: entity.etag().cloned(),
            id: MessageId::new(id),
            body: body.to_owned(),
            count: u32::try_from(count).map_err(|_| damaged(COUNT, "a count"))?,
            inserted,
        })
    }

    pub(super) fn to_entity(&self) -> Entity {
        Entity::from(self.key.clone())
            .with(BODY, self.body.as_str())
            .with(COUNT, i32::try_from(self.count).unwrap_or(i32::MAX))
            .with(INSERTED, self.inserted)
    }

    /// The same message under another key. If the new key equals the old one, the new time is one tick later: a group
    /// transaction cannot delete and insert the same key.
    pub(super) fn moved(&self, partition: &PartitionKey, state: &str, at: Ticks) -> Result<Self> {
        let mut key = Key::new(partition, row_key(state, at, &self.id))?;
        if key == self.key {
            key = Key::new(partition, row_key(state, after(at, TICK), &self.id))?;
        }
        Ok(Self {
            key,
            etag: None,
            ..self.clone()
        })
    }

    pub(super) fn to_message(&self) -> Message {
        Message::new(
            self.id.clone(),
            self.body.clone(),
            self.count,
            self.inserted,
        )
    }
}

/// The receipt of one version of a row: its RowKey and its ETag.
pub(super) fn make_receipt(id: MessageId, key: &Key, etag: &ETag) -> Receipt {
    // The separator: no RowKey has a line break, because keys must not have control characters.
    Receipt::new(id, format!("{}\n{etag}", key.row()))
}

/// The key and the ETag in a receipt that [`make_receipt`] has made.
pub(super) fn parse_receipt(partition: &PartitionKey, receipt: &Receipt) -> Result<(Key, ETag)> {
    let parts = receipt.token().split_once('\n');
    let (row, etag) = parts
        .ok_or_else(|| Error::invalid_argument("the receipt was not issued by a `TableQueue`"))?;
    Ok((Key::new(partition, row)?, ETag::from(etag)))
}

/// Reports a missing row as *precondition failed*: in both cases the receipt is no longer valid.
pub(super) fn as_invalid_receipt(error: Error) -> Error {
    let ErrorKind::EntityNotFound { table, key } = error.root().kind() else {
        return error;
    };
    let kind = ErrorKind::PreconditionFailed {
        table: table.clone(),
        key: key.clone(),
    };
    Error::new(kind).with_outcome(error.outcome())
}
