//! Submitting a transaction: the message, the stored plan, and the commit.

use std::time::Duration;

use table_core::queue::{MESSAGE_BYTES, Receipt};
use table_core::store::{Error, Outcome, Result};

use super::applier::WorkFailure;
use super::coordinator::Coordinator;
use super::plan::{EventualTransaction, StoredPlan, TransactionId, fingerprint};
use super::record::{State, TransactionRecord};
use super::status::TransactionEventKind;
use super::transaction_table::{PlanRef, piece_count};
use crate::journal::{Acknowledge, Lease};
use crate::rows::accept_applied;

/// Whether a committed transaction is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransactionProgress {
    /// All steps are done.
    Applied,
    /// Steps are left; workers do them, because the message is in the queue.
    Pending,
}

/// A committed transaction: the answer of [`Coordinator::submit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The transaction's id.
    pub id: TransactionId,
    /// Whether the transaction is applied or pending.
    pub progress: TransactionProgress,
}

/// The outcome of inserting the record of a transaction.
pub(super) enum CommitOutcome {
    /// This process has inserted the record with its own claim and applies the transaction.
    Claimed(TransactionRecord, Lease),
    /// The transaction is committed, and workers apply it.
    LeftToWorkers(TransactionRecord),
    /// This submission will never be applied.
    Refused(Error),
}

impl Coordinator {
    /// Commits a transaction; with [`Acknowledge::Applied`], also applies it.
    ///
    /// The answer says whether the transaction is applied or pending. A step that fails is no error: the
    /// transaction is committed and pending. For the number of requests see the [module](super).
    ///
    /// # Errors
    /// - The plan is invalid, exceeds a limit, or would write rows that an index or another pattern maintains.
    /// - Another plan was submitted under this id, or the transaction was discarded or aborted. For a plan that
    ///   fits into a message, only [`Acknowledge::Applied`] reports this. With [`Acknowledge::Committed`] the
    ///   message of another plan becomes a poison message, and the message of a discarded transaction is ignored.
    /// - The store's or the queue's error.
    ///
    /// If the outcome is *not applied*, this call has done nothing and will do nothing. If the outcome is
    /// *ambiguous*, submit the same transaction again: its steps are done once.
    pub async fn submit(
        &self,
        transaction: &EventualTransaction,
        acknowledge: Acknowledge,
    ) -> Result<Submitted> {
        let text = transaction.to_text(&self.resources)?;
        let checked = self.check_tables(transaction).await;
        checked.map_err(|error| error.with_outcome(Outcome::NotApplied))?;
        let applies = acknowledge == Acknowledge::Applied;
        let progress = if text.len() <= MESSAGE_BYTES {
            self.submit_inline(transaction, &text, applies).await?
        } else {
            self.submit_stored(transaction, &text, applies).await?
        };
        Ok(Submitted {
            id: transaction.id(),
            progress,
        })
    }

    /// Sends a message that contains the plan. Sending the message is the commit.
    async fn submit_inline(
        &self,
        transaction: &EventualTransaction,
        text: &str,
        applies: bool,
    ) -> Result<TransactionProgress> {
        let plan = PlanRef {
            id: transaction.id(),
            hash: fingerprint(text),
            pieces: 0,
        };
        let delay = if applies {
            self.timing.lease()
        } else {
            Duration::ZERO
        };
        // The message has the whole plan, so from here on workers can do all of it without this process. The
        // delay keeps them away while this process applies the plan itself.
        let receipt = accept_applied(self.queue.send(text, delay).await.map(Some))?;
        self.emit(plan.id, TransactionEventKind::Committed);
        // Without a receipt this process cannot hide the message from workers: they apply the transaction.
        let Some(mut receipt) = receipt.filter(|_| applies) else {
            return Ok(TransactionProgress::Pending);
        };
        match self
            .insert_claimed(TransactionRecord::new(plan, transaction.steps().len()))
            .await
        {
            Ok(CommitOutcome::Refused(error)) => Err(self.withdraw(plan, &receipt, error).await),
            outcome => Ok(self
                .apply_committed(transaction, outcome, &mut receipt)
                .await),
        }
    }

    /// Sends a message that points at the plan, stores the plan, and inserts the record. The insert of the
    /// record is the commit.
    ///
    /// The message comes first: if the submitter dies before the commit, a worker receives the message, aborts
    /// the transaction and removes the pieces.
    async fn submit_stored(
        &self,
        transaction: &EventualTransaction,
        text: &str,
        applies: bool,
    ) -> Result<TransactionProgress> {
        let plan = PlanRef {
            id: transaction.id(),
            hash: fingerprint(text),
            pieces: piece_count(text.len()),
        };
        let not_applied = |error: Error| error.with_outcome(Outcome::NotApplied);
        let message = StoredPlan::new(plan).to_text()?;
        let lease = Lease::start(self.timing);
        // The lease started before the message was sent, and the queue hides the message for as long from a
        // later moment on.
        let mut receipt = self
            .queue
            .send(&message, self.timing.lease())
            .await
            .map_err(not_applied)?;
        // After an error the message stays: a worker aborts the transaction and removes the pieces.
        self.store_plan(plan, text, &mut receipt, lease)
            .await
            .map_err(not_applied)?;
        let record = TransactionRecord::new(plan, transaction.steps().len());
        let outcome = self.commit_stored_plan(record, applies).await?;
        if let CommitOutcome::Refused(error) = outcome {
            return Err(self.withdraw(plan, &receipt, error).await);
        }
        self.emit(plan.id, TransactionEventKind::Committed);
        if applies {
            return Ok(self
                .apply_committed(transaction, Ok(outcome), &mut receipt)
                .await);
        }
        if let Err(error) = self.queue.renew(&receipt, Duration::ZERO).await {
            tracing::debug!(%error, "workers receive the message of a committed transaction only after a lease");
        }
        Ok(TransactionProgress::Pending)
    }

    /// Stores the pieces of a plan, each within a lease of the message.
    ///
    /// After the lease a worker may abort the transaction and remove the pieces. A piece that arrived later
    /// would stay forever.
    async fn store_plan(
        &self,
        plan: PlanRef,
        text: &str,
        receipt: &mut Receipt,
        mut lease: Lease,
    ) -> Result<()> {
        for n in 0..plan.pieces {
            // A loop, because the process may also pause during the renewal.
            while !lease.may_send() {
                lease = Lease::start(self.timing);
                *receipt = self.queue.renew(receipt, self.timing.lease()).await?;
            }
            let put = self.transactions.put_piece(plan, n, text);
            self.timing.until(lease.cut_off(), put).await?;
        }
        Ok(())
    }

    /// Removes the pieces and the message of a refused submission. If a request fails, workers do that.
    async fn withdraw(&self, plan: PlanRef, receipt: &Receipt, refused: Error) -> Error {
        // The pieces before the message: without the message nothing leads to them.
        match self.transactions.remove_pieces(plan).await {
            Ok(()) => self.delete_message(receipt).await,
            Err(error) => {
                tracing::debug!(%error, id = %plan.id, "workers remove the pieces of a refused plan");
            }
        }
        refused.with_outcome(Outcome::NotApplied)
    }

    /// Applies a committed transaction. No error changes that it is committed.
    async fn apply_committed(
        &self,
        transaction: &EventualTransaction,
        outcome: Result<CommitOutcome>,
        receipt: &mut Receipt,
    ) -> TransactionProgress {
        let progress = match outcome {
            Ok(CommitOutcome::Claimed(record, lease)) => {
                let run = self.apply(transaction, record, lease);
                self.run_while_hidden(receipt, run).await
            }
            // The transaction was applied before; this submission has stored its pieces a second time.
            Ok(CommitOutcome::LeftToWorkers(record)) if record.state == State::Applied => {
                let removed = self.transactions.remove_pieces(record.plan_ref()).await;
                removed
                    .map(|()| TransactionProgress::Applied)
                    .map_err(WorkFailure::from)
            }
            Ok(CommitOutcome::LeftToWorkers(_)) => Ok(TransactionProgress::Pending),
            Ok(CommitOutcome::Refused(error)) | Err(error) => Err(error.into()),
        };
        match progress {
            Ok(TransactionProgress::Applied) => {
                self.delete_message(receipt).await;
                return TransactionProgress::Applied;
            }
            Ok(TransactionProgress::Pending) => {}
            Err(WorkFailure { error, .. }) => {
                tracing::warn!(%error, id = %transaction.id(), "a transaction is left to workers");
            }
        }
        TransactionProgress::Pending
    }

    /// Inserts the record of a stored plan, unless the transaction was aborted.
    async fn commit_stored_plan(
        &self,
        record: TransactionRecord,
        applies: bool,
    ) -> Result<CommitOutcome> {
        let plan = record.plan_ref();
        let outcome = if applies {
            self.insert_claimed(record).await
        } else {
            self.insert_unclaimed(record).await
        };
        match outcome {
            Err(error) if error.is_ambiguous() => self.resolve_lost_commit(plan, error).await,
            outcome => outcome.map_err(|error| error.with_outcome(Outcome::NotApplied)),
        }
    }

    /// Resolves a commit whose answer was lost. Either its record is there, or an aborted record takes the
    /// place of the record, and the commit can never take effect.
    async fn resolve_lost_commit(&self, plan: PlanRef, error: Error) -> Result<CommitOutcome> {
        match self
            .transactions
            .insert(TransactionRecord::aborted(plan))
            .await
        {
            Ok(Some(_)) => Err(error.with_outcome(Outcome::NotApplied)),
            Ok(None) => match self.transactions.read(plan.id).await {
                Ok(Some(record)) => Ok(outcome_of_record(record, plan)),
                _ => Err(error),
            },
            Err(_) => Err(error),
        }
    }

    /// Inserts the record for workers to claim.
    async fn insert_unclaimed(&self, record: TransactionRecord) -> Result<CommitOutcome> {
        let plan = record.plan_ref();
        match self.transactions.insert(record).await? {
            Some(record) => Ok(CommitOutcome::LeftToWorkers(record)),
            None => self.read_existing(plan).await,
        }
    }

    /// Inserts the record with a claim of this process.
    async fn insert_claimed(&self, record: TransactionRecord) -> Result<CommitOutcome> {
        let lease = Lease::start(self.timing);
        let plan = record.plan_ref();
        match self.transactions.insert(record.claimed()).await? {
            Some(record) => Ok(CommitOutcome::Claimed(record, lease)),
            None => self.read_existing(plan).await,
        }
    }

    /// The outcome of a submission whose record another process has inserted first.
    async fn read_existing(&self, plan: PlanRef) -> Result<CommitOutcome> {
        let record = self
            .transactions
            .read(plan.id)
            .await?
            .ok_or_else(|| removed(plan.id))?;
        Ok(outcome_of_record(record, plan))
    }
}

/// The outcome for a submission that finds a record of its id.
fn outcome_of_record(record: TransactionRecord, plan: PlanRef) -> CommitOutcome {
    match record.state {
        State::Aborted => CommitOutcome::Refused(aborted(plan.id)),
        _ if record.plan_hash != plan.hash => CommitOutcome::Refused(other_plan(plan.id)),
        State::Discarded => CommitOutcome::Refused(discarded(&record)),
        State::Running | State::Poisoned | State::Applied => CommitOutcome::LeftToWorkers(record),
    }
}

fn discarded(record: &TransactionRecord) -> Error {
    let TransactionRecord {
        id, next, steps, ..
    } = record;
    Error::wrong_state(format!(
        "the transaction {id} was discarded before its step {} of {steps}: submit the remaining steps under a new id",
        next + 1
    ))
}

fn aborted(id: TransactionId) -> Error {
    Error::wrong_state(format!(
        "the transaction {id} was given up before its commit (storing its plan took longer than a lease, the answer of its commit was lost, or an \
         operator discarded it): submit it under a new id"
    ))
}

/// The insert of the record has found a record, and then the record was gone: only a sweep removes records, those of finished transactions.
fn removed(id: TransactionId) -> Error {
    Error::wrong_state(format!(
        "the record of the transaction {id} was removed during this submission, so an earlier submission may have been applied: check its effects \
         before you submit its steps under a new id, and keep records for longer than submissions are repeated"
    ))
}

pub(super) fn other_plan(id: TransactionId) -> Error {
    Error::wrong_state(format!(
        "another plan was submitted under the id {id}: the steps of this plan are not done; submit them under a new id"
    ))
}
