use serde::{Deserialize, Serialize};
use table_core::model::Key;
use table_core::queue::MESSAGE_BYTES;
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::row::WriteId;
use super::touched::Touched;

/// A message that points at one write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    pub(super) write: Uuid,
    /// The store, table and partition of the entities.
    pub(super) store: String,
    pub(super) table: String,
    pub(super) partition: String,
    /// The entities' row keys: the owners of what is reserved.
    pub(super) rows: Vec<String>,
    /// The key of the entity that the write moves, and marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<(String, String)>,
    /// The unique keys to release if the write is given up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) reserved: Vec<Touched>,
    /// How often it was received in messages before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) seen: u32,
    /// How often its work has failed, as the workers that failed have counted. Workers that died are not counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) failures: u32,
    /// The beginning of the last failure's error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Characters of an error that a ticket keeps.
const ERROR_CHARS: usize = 500;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Ticket {
    pub(super) const fn write_id(&self) -> WriteId {
        WriteId::from_uuid(self.write)
    }

    pub(super) fn source(&self) -> Result<Option<Key>> {
        self.source.as_ref().map(|(partition, row)| Key::new(partition, row)).transpose()
    }

    /// The message. A text that would not fit is sent without its error. If that does not fit either, the message names the
    /// write alone, which is all that a committed one needs; the reservations of one that was not are left to whoever wants
    /// the keys, and to the sweep.
    pub(super) fn to_text(&self) -> Result<String> {
        let text = self.encoded()?;
        if text.len() <= MESSAGE_BYTES {
            return Ok(text);
        }
        let without_error = Self { error: None, ..self.clone() };
        let text = without_error.encoded()?;
        if text.len() <= MESSAGE_BYTES {
            return Ok(text);
        }
        Self { rows: Vec::new(), reserved: Vec::new(), ..without_error }.encoded()
    }

    /// The ticket after one more failure.
    pub(super) fn after_failure(self, error: &Error) -> Self {
        let text: String = error.to_string().chars().take(ERROR_CHARS).collect();
        Self { failures: self.failures.saturating_add(1), error: Some(text), ..self }
    }

    fn encoded(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::invalid_request(format!("cannot write a ticket: {e}")))
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| Error::invalid_request(format!("this is no ticket: {e}")))
    }
}
