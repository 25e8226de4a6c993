//! Eventually consistent transactions: lists of steps over tables, partitions, stores, blobs and your own
//! handlers. Workers do all steps in order, and independent steps at the same time, also after crashes.
//!
//! # Problem
//! An entity group transaction covers one partition. Archiving an employee touches two tables, perhaps in two
//! stores, a photograph in a blob, and a mail. If the program dies, some of these steps are done and others
//! are not. The guide's answer: write the list of steps down as a message in a queue, and let workers do the
//! steps until all are done.
//!
//! # Terms
//! A *plan* is the list of steps. A *stage* is one step, or the steps that were declared
//! [`together`](EventualTransaction::together). The *record* of a transaction is the row with its state and next step. A
//! *claim* in the record is the right of one process to do the steps; it is valid for a *lease*. A *piece* is
//! a row with a part of a plan that is larger than a message.
//!
//! # Key layout
//! The transactions of a [`Coordinator`] have a table of their own:
//!
//! | row | PartitionKey | RowKey |
//! |---|---|---|
//! | record: state, next step, claim | `~~t_` + transaction id | `head` |
//! | piece | `~~t_` + transaction id | `c_` + hash of the plan + `_` + number |
//!
//! # Protocol
//! 1. Commit. A plan of at most [`MESSAGE_BYTES`](table_core::queue::MESSAGE_BYTES) is sent as one message:
//!    sending it is the commit. For a larger plan, the submitter sends a message that points at the plan, then
//!    stores the pieces, then inserts the record: that insert is the commit.
//! 2. Apply. A worker claims the record, does the steps of a stage at the same time, and records the next stage under the
//!    record's ETag. Each replacement of the record renews the claim.
//! 3. Finish. After the last step the record says *applied*. The worker then deletes the pieces, then the
//!    message.
//!
//! A worker that receives a message that points at a plan, and finds no record, inserts an *aborted* record:
//! afterwards the submitter cannot commit. A worker that finds a claimed record watches it for a whole lease on
//! its own clock. If the record has not changed, the claim has expired, and the worker replaces it by its own.
//! A process sends no request that could take effect after its lease. After an ambiguous outcome it stops and
//! leaves the claim in the record, so that no other worker continues while the lost request may take effect.
//!
//! # Guarantees
//! - All steps of a committed transaction are done, stage after stage, each at least once. A recorded step is not
//!   repeated. If no other program writes the same rows, the result is that of doing every step once.
//! - A repeated message of a finished transaction has no effect. A transaction that is submitted twice under
//!   one id is done once. Another plan under a known id is refused and does not change the first transaction.
//! - A submission that answers *not applied* is never done.
//! - A transaction that waits for an unavailable store, or for another worker, is never poisoned. The same holds
//!   if a worker does not have a resource that the next step names: another worker does the step. Every worker
//!   should therefore have all resources.
//! - Failures of a step are counted in the record. After [`with_attempts`](Coordinator::with_attempts) failures
//!   the transaction is [poisoned](TransactionStatus::Poisoned), and [`wait`](Coordinator::wait) returns. Workers
//!   that die and lost answers of the queue do not count: messages that the queue sets aside for them are put
//!   back.
//!
//! # Failure windows
//! - There is no isolation: readers see the state between two steps.
//! - If a worker dies between a step and its record, the step is repeated, and with it all steps of its stage. The repetition
//!   overwrites changes that another program has made to that row in between.
//! - A process that is paused *inside* a request, or inside a handler that does not yield, for longer than a
//!   lease, can repeat the effect of a step after later steps.
//! - The record of a finished transaction is the evidence that it is done. After [`sweep`](Coordinator::sweep)
//!   has removed the record, a late message or submission does all steps again.
//!
//! # Cost in requests
//! For a transaction of n steps that one worker does without a failure:
//!
//! | part | requests |
//! |---|---|
//! | commit, plan in the message | 1 |
//! | commit, stored plan | 3 (2 if the submitter applies it) + 1 per 704 KiB |
//! | apply | 1 to read the record, 1 to claim it, then 1 per step and 1 per stage for the record |
//! | a step that moves an entity | 4 with its record, 3 if the entity was moved before |
//! | checks before the commit | 1 per table, unless the manifest was read in the last 30 seconds; 1 per entity that a step moves, replaces or deletes, 2 more if the entity is missing, and 1 more to look for it at the target of a move |
//! | stored plan | + 1 to read it, + 1 per 704 KiB to remove it |
//! | message | the queue's receive and delete; 1 renewal per third of a lease |
//!
//! A submitter that applies its own transaction saves the read of the record and the receive. A stage takes 2 round trips,
//! whatever its number of steps, up to the [concurrency](Coordinator::with_concurrency); 4 if it moves an entity.
//!
//! # Limits, and when not to use it
//! - A plan is held in memory, at most [`PLAN_BYTES`]. Bulk work is expensive at 2 requests per step. Within one
//!   partition, use an entity group transaction.
//! - Steps write plain rows. [`submit`](Coordinator::submit) refuses a step that writes rows that an index
//!   follows, or that moves or deletes one row of an entity with large values in blobs, of a wide entity or of a
//!   spread entity. Workers make the same check. Move such entities by a [`Mover`]
//!   ([`EventualTransaction::move_by`]), and write them in a handler.
//! - A move of an entity that does not exist is refused.
//! - A plan is plaintext in a message or a row. Properties that are marked *encrypt*, or that a rule of the store
//!   encrypts, are refused: move the entity, or use a handler. The submitter does not know the rules of a store
//!   that only other workers have ([`Resources::with_external`]): mark the properties. The bytes of blobs and of
//!   payloads are stored in the plan unencrypted.

mod applier;
#[cfg(feature = "blobs")]
mod blob_step;
mod coordinator;
mod mover;
mod plan;
mod plan_format;
mod poison;
mod record;
mod resources;
mod status;
mod step;
mod submit;
mod table_checks;
mod transaction_table;
mod worker;

pub use coordinator::Coordinator;
pub use mover::{Mover, Moves};
pub use plan::{EventualTransaction, PLAN_BYTES, TransactionId};
pub use poison::PoisonedTransaction;
pub(crate) use record::{damage, is_poisoned};
pub use resources::{Resources, StepHandler, StepId};
pub use status::{TransactionEvent, TransactionEventKind, TransactionStatus};
pub use step::{Place, Step};
pub use submit::{Submitted, TransactionProgress};
pub(crate) use transaction_table::sweep_records;

/// The steps that write blobs, in a build without the feature `blobs`: a submitter refuses them before the commit, and a worker leaves those of
/// other submitters to workers that have the feature.
#[cfg(not(feature = "blobs"))]
mod blob_step {
    use table_core::store::{Error, Result};

    use super::resources::Resources;

    pub(super) async fn put_blob(
        resources: &Resources,
        blobs: &str,
        _path: &str,
        _bytes: &[u8],
    ) -> Result<()> {
        resources.blobs(blobs)
    }

    pub(super) async fn delete_blob(resources: &Resources, blobs: &str, _path: &str) -> Result<()> {
        resources.blobs(blobs)
    }

    pub(super) fn check_path(path: &str) -> Result<()> {
        Err(Error::misuse(format!(
            "a step writes the blob {path:?}, and this program is built without the feature `blobs` of table-patterns"
        )))
    }
}

#[cfg(test)]
mod tests;
