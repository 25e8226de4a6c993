use std::time::Duration;

use table_core::store::Result;
use tokio::time::sleep;

use super::coordinator::Coordinator;
use super::head::{Head, State};
use super::plan::TransactionId;

/// How far a transaction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Nothing is known: nobody has begun with it, or it was never submitted, or it was finished so long
    /// ago that it was swept.
    Unknown,
    /// It is committed, and under way.
    Pending {
        /// The next step, from 0.
        step: usize,
        /// How many there are.
        steps: usize,
        /// Why that step failed the last time, if it did.
        error: Option<String>,
    },
    /// This step failed as often as it is tried, and nobody tries it again before the transaction is
    /// [put back](Coordinator::requeue) or [discarded](Coordinator::discard). The steps before it are done.
    Poisoned {
        /// The step, from 0.
        step: usize,
        /// How many there are.
        steps: usize,
        /// Why it failed the last time.
        error: String,
    },
    /// All steps are done.
    Applied,
    /// It was given up before its commit: nothing was or will be done.
    Aborted,
    /// It was discarded as poison, before this step.
    Discarded {
        /// The step that was not done, from 0.
        step: usize,
    },
}

impl TransactionStatus {
    pub(super) fn of(head: &Head) -> Self {
        match head.state {
            State::Running => Self::Pending { step: head.next, steps: head.steps, error: head.error.clone() },
            State::Poisoned => {
                let error = head.error.clone().unwrap_or_default();
                Self::Poisoned { step: head.next, steps: head.steps, error }
            }
            State::Applied => Self::Applied,
            State::Aborted => Self::Aborted,
            State::Discarded => Self::Discarded { step: head.next },
        }
    }

    /// Whether nothing will change any more.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Applied | Self::Aborted | Self::Discarded { .. })
    }

    /// Whether no worker will change it.
    pub const fn is_at_rest(&self) -> bool {
        self.is_final() || matches!(self, Self::Poisoned { .. })
    }
}

impl Coordinator {
    /// How far a transaction is. One request.
    ///
    /// # Errors
    /// The storage's.
    pub async fn status(&self, id: TransactionId) -> Result<TransactionStatus> {
        let head = self.ledger.read(id).await?;
        Ok(head.as_ref().map_or(TransactionStatus::Unknown, TransactionStatus::of))
    }

    /// Waits until a transaction is finished or poisoned, asking once per `every`: without end, where nobody works on
    /// it; set a time-out around it.
    ///
    /// # Errors
    /// The storage's.
    pub async fn wait(&self, id: TransactionId, every: Duration) -> Result<TransactionStatus> {
        loop {
            let status = self.status(id).await?;
            if status.is_at_rest() {
                return Ok(status);
            }
            sleep(every).await;
        }
    }
}
