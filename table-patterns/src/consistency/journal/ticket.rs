//! Tickets: the queue messages that point workers to writes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use table_core::model::{Entity, Key, TableName};
use table_core::queue::{MESSAGE_BYTES, Receipt, WorkQueue};
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::plan::Plan;
use super::row::AffectedKey;
use crate::entity_rows::WriteId;

/// The tickets of a journal.
#[derive(Clone, Debug)]
pub(super) struct Tickets {
    /// Without a queue there are no tickets: a sweep finds unfinished writes.
    pub(super) queue: Option<Arc<dyn WorkQueue>>,
    /// The name of the store, for queues that serve several stores.
    pub(super) store_name: String,
}

impl Tickets {
    /// Sends the ticket of a write that has remote entries or moves an entity, invisible for a lease. 1 request of the queue.
    pub(super) async fn send(
        &self,
        table: &TableName,
        plan: &Plan,
        lease: Duration,
    ) -> Result<Option<Receipt>> {
        let Some(queue) = self.queue.as_ref().filter(|_| plan.has_journal()) else {
            return Ok(None);
        };
        let source = plan.source.as_ref().map(Entity::key);
        let passed = plan.passed.iter().map(|(entry, _)| entry);
        let ticket = Ticket {
            write: plan.id.uuid(),
            store: self.store_name.clone(),
            table: table.to_string(),
            partition: plan.partition.to_string(),
            rows: plan.owners.iter().map(|k| k.row().to_owned()).collect(),
            source: source.map(|k| (k.partition().to_owned(), k.row().to_owned())),
            reserved: plan
                .gained
                .iter()
                .chain(passed)
                .map(|e| AffectedKey::of(e, true))
                .collect(),
            seen: 0,
            failures: 0,
            error: None,
        };
        // If the queue fails, nothing is applied: there is no reservation yet.
        queue.send(&ticket.to_text()?, lease).await.map(Some)
    }

    /// Deletes the ticket. If that fails, a worker finds that the write is finished.
    pub(super) async fn delete(&self, ticket: Option<&Receipt>) {
        if let (Some(queue), Some(ticket)) = (&self.queue, ticket)
            && let Err(error) = queue.delete(ticket).await
        {
            tracing::debug!(%error, "the ticket of a finished write was not deleted: a worker deletes it");
        }
    }
}

/// A queue message that points at one write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    pub(super) write: Uuid,
    /// The store, table and partition of the entities.
    pub(super) store: String,
    pub(super) table: String,
    pub(super) partition: String,
    /// The RowKeys of the entities: the owners of the reservations.
    pub(super) rows: Vec<String>,
    /// The source of a move, which the write marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<(String, String)>,
    /// The unique keys to release if the write is given up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) reserved: Vec<AffectedKey>,
    /// The number of receives of earlier messages with this ticket.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) seen: u32,
    /// The number of failures of the work, counted by the workers that failed. Workers that died do not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) failures: u32,
    /// The beginning of the last error.
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
        self.source
            .as_ref()
            .map(|(partition, row)| Key::new(partition, row))
            .transpose()
    }

    /// The text of the message. If the text exceeds a message, the error is left out. If it still exceeds a message,
    /// the ticket only names the write, which is enough for a committed write. The reservations of an uncommitted one
    /// then wait for a writer that wants the keys, or for the sweep.
    pub(super) fn to_text(&self) -> Result<String> {
        let text = self.encoded()?;
        if text.len() <= MESSAGE_BYTES {
            return Ok(text);
        }
        let without_error = Self {
            error: None,
            ..self.clone()
        };
        let text = without_error.encoded()?;
        if text.len() <= MESSAGE_BYTES {
            return Ok(text);
        }
        Self {
            rows: Vec::new(),
            reserved: Vec::new(),
            ..without_error
        }
        .encoded()
    }

    /// The ticket after one more failure.
    pub(super) fn after_failure(self, error: &Error) -> Self {
        let text: String = error.to_string().chars().take(ERROR_CHARS).collect();
        Self {
            failures: self.failures.saturating_add(1),
            error: Some(text),
            ..self
        }
    }

    fn encoded(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|e| Error::invalid_argument(format!("a ticket cannot be encoded: {e}")))
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            Error::invalid_argument(format!("the message is not a ticket of the journal: {e}"))
        })
    }
}
