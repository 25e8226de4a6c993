use table_core::store::Error;

use super::plan::TransactionId;

/// Something that happened to a transaction in this process.
#[derive(Clone, Debug)]
pub struct TransactionEvent {
    /// Which transaction.
    pub id: TransactionId,
    /// What happened.
    pub what: What,
}

/// What happened to a transaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum What {
    /// It was submitted: it will be applied.
    Committed,
    /// This process began to apply it, or went on from this step.
    Claimed {
        /// The next step, from 0.
        step: usize,
    },
    /// A step was done and recorded.
    Done {
        /// The step, from 0.
        step: usize,
        /// How many there are.
        steps: usize,
    },
    /// A step failed; it is tried again, here or elsewhere.
    Failed {
        /// The step, from 0.
        step: usize,
        /// Why.
        error: Error,
    },
    /// A step failed as often as it is tried: somebody is to put the transaction back or discard it.
    Poisoned {
        /// The step, from 0.
        step: usize,
    },
    /// All steps are done.
    Applied,
    /// A plan whose submitter died before its commit was given up.
    Aborted,
    /// A message of a transaction that is finished came again; nothing was done.
    Repeated,
}
