use serde::{Deserialize, Serialize};
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::plan::{EventualTransaction, TransactionId, fingerprint};

/// What a message says: a plan, or where one is.
pub(super) enum Ticket {
    Inline { plan: EventualTransaction, hash: i64 },
    Stored(Stored),
}

/// A message that points at a stored plan.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    stored: Uuid,
    pub(super) pieces: usize,
    pub(super) hash: i64,
}

impl Stored {
    pub(super) const fn new(id: TransactionId, pieces: usize, hash: i64) -> Self {
        Self { stored: id.uuid(), pieces, hash }
    }

    pub(super) const fn id(self) -> TransactionId {
        TransactionId::from_uuid(self.stored)
    }

    pub(super) fn to_text(self) -> Result<String> {
        serde_json::to_string(&self)
            .map_err(|e| Error::invalid_request(format!("cannot write a transaction's message: {e}")))
    }
}

impl Ticket {
    pub(super) fn parse(text: &str) -> Result<Self> {
        if let Ok(stored) = serde_json::from_str(text) {
            return Ok(Self::Stored(stored));
        }
        Ok(Self::Inline { plan: EventualTransaction::parse(text)?, hash: fingerprint(text) })
    }

    pub(super) const fn id(&self) -> TransactionId {
        match self {
            Self::Inline { plan, .. } => plan.id(),
            Self::Stored(stored) => stored.id(),
        }
    }

    pub(super) const fn hash(&self) -> i64 {
        match self {
            Self::Inline { hash, .. } | Self::Stored(Stored { hash, .. }) => *hash,
        }
    }
}
