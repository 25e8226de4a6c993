use serde::{Deserialize, Serialize};
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::ledger::PlanOf;
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
    pieces: usize,
    hash: i64,
}

impl Stored {
    pub(super) const fn new(plan: PlanOf) -> Self {
        Self { stored: plan.id.uuid(), pieces: plan.pieces, hash: plan.hash }
    }

    pub(super) const fn plan_of(self) -> PlanOf {
        PlanOf { id: TransactionId::from_uuid(self.stored), hash: self.hash, pieces: self.pieces }
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
            Self::Stored(stored) => stored.plan_of().id,
        }
    }

    pub(super) const fn plan_of(&self) -> PlanOf {
        match self {
            Self::Inline { plan, hash } => PlanOf { id: plan.id(), hash: *hash, pieces: 0 },
            Self::Stored(stored) => stored.plan_of(),
        }
    }
}
