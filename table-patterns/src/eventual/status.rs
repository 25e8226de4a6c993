//! The status of a transaction, and the events that a process reports of transactions.

use std::time::Duration;

use table_core::store::{Error, Result};
use tokio::time::sleep;

use super::coordinator::Coordinator;
use super::plan::TransactionId;
use super::record::{State, TransactionRecord};

/// An event of a transaction in this process: see [`Coordinator::on_event`].
#[derive(Clone, Debug)]
pub struct TransactionEvent {
    /// The transaction.
    pub id: TransactionId,
    /// The event.
    pub kind: TransactionEventKind,
}

/// The kinds of [`TransactionEvent`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TransactionEventKind {
    /// The transaction is committed: workers will apply it.
    Committed,
    /// This process has claimed the transaction and starts with this step.
    Claimed {
        /// The next step, counted from 0.
        step: usize,
    },
    /// A step is done and recorded.
    Done {
        /// The step, counted from 0.
        step: usize,
        /// The number of steps of the transaction.
        steps: usize,
    },
    /// A step failed; this process or another one tries it again.
    Failed {
        /// The step, counted from 0.
        step: usize,
        /// The reason.
        error: Error,
    },
    /// A step has failed too often: the transaction waits for [`requeue`](Coordinator::requeue) or
    /// [`discard`](Coordinator::discard).
    Poisoned {
        /// The step, counted from 0.
        step: usize,
    },
    /// All steps are done.
    Applied,
    /// The submitter stored a plan and died before the commit; this worker has aborted the transaction.
    Aborted,
    /// A message of a finished transaction was received again; the worker did nothing.
    Repeated,
}

/// The status of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum TransactionStatus {
    /// The transaction has no record. No worker has started it, or it was never submitted, or
    /// [`sweep`](Coordinator::sweep) has removed its record.
    Unknown,
    /// The transaction is committed and not finished.
    Pending {
        /// The first step that is not recorded as done, counted from 0.
        step: usize,
        /// The number of steps of the transaction.
        steps: usize,
        /// The last error of this step, or of one that is done at the same time.
        error: Option<String>,
    },
    /// A step has failed too often. The steps before it are done. No worker tries the step again before the
    /// transaction is [requeued](Coordinator::requeue) or [discarded](Coordinator::discard).
    Poisoned {
        /// The step that failed, counted from 0.
        step: usize,
        /// The number of steps of the transaction.
        steps: usize,
        /// The last error of this step.
        error: String,
    },
    /// All steps are done.
    Applied,
    /// The transaction was aborted before its commit: no step was or will be done.
    Aborted,
    /// The transaction was discarded before this step.
    Discarded {
        /// The first step that was not done, counted from 0.
        step: usize,
    },
}

impl TransactionStatus {
    pub(super) fn of(record: &TransactionRecord) -> Self {
        let (step, steps) = (record.next, record.steps);
        match record.state {
            State::Running => Self::Pending {
                step,
                steps,
                error: record.error.clone(),
            },
            State::Poisoned => Self::Poisoned {
                step,
                steps,
                error: record.error.clone().unwrap_or_default(),
            },
            State::Applied => Self::Applied,
            State::Aborted => Self::Aborted,
            State::Discarded => Self::Discarded { step },
        }
    }

    /// Whether the status is final: applied, aborted or discarded.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Applied | Self::Aborted | Self::Discarded { .. })
    }

    /// Whether no worker will change the status: final or poisoned.
    pub const fn is_at_rest(&self) -> bool {
        self.is_final() || matches!(self, Self::Poisoned { .. })
    }
}

impl Coordinator {
    /// The status of a transaction. One request.
    ///
    /// # Errors
    /// The store's.
    pub async fn status(&self, id: TransactionId) -> Result<TransactionStatus> {
        let record = self.transactions.read(id).await?;
        Ok(record
            .as_ref()
            .map_or(TransactionStatus::Unknown, TransactionStatus::of))
    }

    /// Waits until a transaction is finished or poisoned. Asks for its status once per `every`.
    ///
    /// Waits forever if no worker runs: wrap the call in a time-out.
    ///
    /// # Errors
    /// The store's.
    pub async fn wait(&self, id: TransactionId, every: Duration) -> Result<TransactionStatus> {
        loop {
            // By asking, because the transaction may be applied by any process: no event of this one tells
            // its end.
            let status = self.status(id).await?;
            if status.is_at_rest() {
                return Ok(status);
            }
            sleep(every).await;
        }
    }
}
