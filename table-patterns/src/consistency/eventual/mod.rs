//! Eventually consistent transactions: steps over tables, partitions, stores, blobs and handlers of your
//! own, done in their order, whatever crashes.
//!
//! # Problem
//! A group transaction covers one partition. Archiving an employee touches two tables, perhaps in two
//! stores, a photograph in a blob and a mail; each may be done when the program dies, or not. The
//! guide's answer: write down what is to be done, as a message in a queue, and let workers do it until
//! all of it is done.
//!
//! # Key layout
//! The transactions of a [`Coordinator`] have a table of their own:
//!
//! | row | PartitionKey | RowKey |
//! |---|---|---|
//! | head: state, next step, who works on it | `~~t_` + transaction id | `head` |
//! | a piece of a plan that is larger than a message | the same | `c_` + hash of the plan + `_` + number |
//!
//! # Protocol
//! 1. A plan of at most [`MESSAGE_BYTES`](table_core::queue::MESSAGE_BYTES) is sent as one message: that
//!    is the commit. For a larger one a message that points at it is sent first, then the pieces
//!    are stored; inserting the head row is the commit.
//! 2. Whoever applies it *claims* the head row, does a step, and records the next one in the head row under
//!    its ETag, which is also the renewal of the claim.
//! 3. After the last step the head row says *applied*; then the pieces go, then the message.
//!
//! A worker that finds a message to a plan without a head row inserts an *aborted* head row: the submitter
//! can then never commit. One that finds a claimed head row goes on with it after it has watched it
//! unchanged for a whole lease, on its own clock. An applier sends nothing that could take effect
//! after its lease, and after an answer in doubt it stops and keeps the claim, so that nobody goes on
//! before the request that was lost can no longer take effect.
//!
//! # Guarantees
//! What is committed is applied, in the order of the steps, each at least once; a step that was recorded as
//! done is not done again. While nobody else writes the same rows, the result is that of doing every step
//! once. A redelivered message of a transaction that is done changes nothing. A transaction that is
//! submitted again under its id is done once. One that answers *not applied* never is. Another plan under the
//! id of one that is known is refused, and changes nothing of that one.
//!
//! A transaction that waits for a storage that is out of order, or for another worker, never becomes poison:
//! its message is sent again. So is that of one whose next step names what its worker has not: another worker of the
//! queue takes it, so every worker should have all that plans name. Only what fails in a step itself counts, in the head:
//! then the transaction is [poisoned](TransactionStatus::Poisoned), which [`wait`](Coordinator::wait) answers. Workers
//! that die, and answers of the queue that are lost, count in the queue alone, and what it sets aside for them is put back.
//!
//! # Failure windows
//! There is no isolation: others see the state between two steps. Where a crash falls between a step and its
//! record, the step is done again, also over what another program wrote to that row meanwhile. A process
//! paused *inside* a request, or inside a handler that does not yield, for longer than a lease, can repeat
//! the effect of a step behind later ones. Heads of finished transactions are evidence for as long as
//! [`sweep`](Coordinator::sweep) keeps them: a message or a submission that comes later starts anew.
//!
//! # Cost in requests
//! Of a transaction of n steps that one worker does without a fault:
//!
//! | what | requests |
//! |---|---|
//! | commit, as a message | 1 |
//! | commit, as a stored plan | 3 (2 where the submitter applies it) + 1 per 704 KiB |
//! | apply | 1 to read the head, 1 to claim it, then 2 per step: the step and its record |
//! | a step that moves an entity | 4 with its record, 3 where it is gone |
//! | checks before the commit | 1 per table, if none was in the last 30 seconds; 1 per entity to be moved, replaced or removed, 2 more where there is none, and 1 to see that it is where it would be moved |
//! | a stored plan | + 1 to read it, + 1 per 704 KiB to remove it |
//! | message | the queue's receive and delete; a renewal per third of a lease |
//!
//! A submitter that applies its own transaction saves the read of the head and the receive.
//!
//! # Limits, and when not to use it
//! A plan is held in memory: at most [`PLAN_BYTES`]. Two requests a step are dear for bulk work. Within one
//! partition use a group transaction. A plan that writes into an indexed table, or moves or removes an entity by a key under
//! which its row is not alone (large values in blobs, wide and spread entities), or moves one that is not there, is refused when
//! it is submitted, as far as the tables' rows tell and the stores answer, and by workers: a [`Mover`] moves such entities whole
//! ([`EventualTransaction::move_by`]), a handler writes them. A plan is plain text in a message or a row: properties marked *encrypt*, and those that the named store encrypts
//! by a rule, are refused in it: move the entity, or use a handler. Of a store that only workers elsewhere have
//! ([`Resources::with_elsewhere`]) the submitter does not know the rules: mark the properties. Blobs and payloads of
//! handlers are in the plan as they are.

mod applier;
mod commit;
mod coordinator;
mod event;
mod head;
mod ledger;
mod mover;
mod plan;
mod poison;
mod resources;
mod run;
mod status;
mod step;
mod stopped;
mod submit;
mod sweep;
mod tables;
mod ticket;
mod wire;
mod worker;

pub use coordinator::Coordinator;
pub use event::{TransactionEvent, What};
pub use mover::{Mover, Moves};
pub use plan::{EventualTransaction, PLAN_BYTES, TransactionId};
pub use poison::PoisonedTransaction;
pub use resources::{Resources, StepHandler, StepId};
pub use status::TransactionStatus;
pub use step::{Place, Step};
pub use submit::{Progress, Submitted};
pub(crate) use sweep::sweep_heads;

#[cfg(test)]
mod tests;
