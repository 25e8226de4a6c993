//! From the caller to the commit.

use std::time::Duration;

use table_core::queue::{MESSAGE_BYTES, Receipt};
use table_core::store::{Error, Outcome, Result};

use super::commit::Begun;
use super::coordinator::Coordinator;
use super::event::What;
use super::head::{Head, State};
use super::ledger::{PlanOf, pieces};
use super::plan::{EventualTransaction, TransactionId, fingerprint};
use super::stopped::Stopped;
use super::ticket::Stored;
use crate::journal::{Acknowledge, Lease, Rule, before};
use crate::rows::took_effect::took_effect;

/// Whether a committed transaction is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All steps are done.
    Applied,
    /// A worker will do what is left: the message is there.
    Pending,
}

/// A committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Its identity.
    pub id: TransactionId,
    /// How far it is.
    pub progress: Progress,
}

impl Coordinator {
    /// Commits a transaction; with [`Acknowledge::Applied`], also applies it. Requests: see the
    /// [module](super). The answer says whether it is applied or will be.
    ///
    /// # Errors
    /// The plan cannot be done, would leave a table wrong, or is over a limit; another plan was submitted under its id, or it was
    /// discarded or given up before (of a plan that fits a message, this is found out here only with
    /// [`Acknowledge::Applied`]: else the message of another plan ends as poison, and that of a
    /// transaction that was discarded does nothing); the storage's or queue's. Where the outcome is *not
    /// applied*, nothing was or will be done by this call. Where it is ambiguous, submit the same
    /// transaction again: it is done once. A step that fails is no error: the transaction is committed,
    /// and pending.
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
        Ok(Submitted { id: transaction.id(), progress })
    }

    /// A message with the plan: the commit.
    async fn submit_inline(
        &self,
        transaction: &EventualTransaction,
        text: &str,
        applies: bool,
    ) -> Result<Progress> {
        let plan = PlanOf { id: transaction.id(), hash: fingerprint(text), pieces: 0 };
        let delay = if applies { self.timing.lease() } else { Duration::ZERO };
        let receipt = took_effect(self.queue.send(text, delay).await.map(Some))?;
        self.tell(plan.id, What::Committed);
        // Without a receipt, the message is left to workers as well.
        let Some(mut receipt) = receipt.filter(|_| applies) else { return Ok(Progress::Pending) };
        match self.begin(Head::new(plan, transaction.steps().len())).await {
            Ok(Begun::Refused(error)) => Err(self.withdraw(plan, &receipt, error).await),
            begun => Ok(self.follow(transaction, begun, &mut receipt).await),
        }
    }

    /// A message that points at the plan, the plan, the head row: the commit.
    async fn submit_stored(
        &self,
        transaction: &EventualTransaction,
        text: &str,
        applies: bool,
    ) -> Result<Progress> {
        let plan = PlanOf { id: transaction.id(), hash: fingerprint(text), pieces: pieces(text.len()) };
        let not_applied = |error: Error| error.with_outcome(Outcome::NotApplied);
        let ticket = Stored::new(plan).to_text()?;
        let lease = Lease::start(self.timing);
        let mut receipt = self.queue.send(&ticket, self.timing.lease()).await.map_err(not_applied)?;
        // What fails from here on leaves the message: a worker gives the plan up and removes it.
        self.store_plan(plan, text, &mut receipt, lease).await.map_err(not_applied)?;
        let begun = self.commit(Head::new(plan, transaction.steps().len()), applies).await?;
        if let Begun::Refused(error) = begun {
            return Err(self.withdraw(plan, &receipt, error).await);
        }
        self.tell(plan.id, What::Committed);
        if applies {
            return Ok(self.follow(transaction, Ok(begun), &mut receipt).await);
        }
        if let Err(error) = self.queue.renew(&receipt, Duration::ZERO).await {
            tracing::debug!(%error, "a committed transaction waits for its message's delay");
        }
        Ok(Progress::Pending)
    }

    async fn store_plan(
        &self,
        plan: PlanOf,
        text: &str,
        receipt: &mut Receipt,
        mut lease: Lease,
    ) -> Result<()> {
        // When its lease is over, workers may have the message: nobody would remove a piece that comes after.
        for n in 0..plan.pieces {
            while !lease.may_send() {
                lease = Lease::start(self.timing);
                *receipt = self.queue.renew(receipt, self.timing.lease()).await?;
            }
            let put = self.ledger.put_piece(plan, n, text);
            if self.rules.keep(Rule::PieceCutOff) {
                before(lease.cut_off(), put).await.unwrap_or_else(|| Err(self.timing.cut_off()))?;
            } else {
                put.await?;
            }
        }
        Ok(())
    }

    /// Removes what a refused submission left; a worker does it, where a request fails here.
    async fn withdraw(&self, plan: PlanOf, receipt: &Receipt, refused: Error) -> Error {
        match self.ledger.remove_pieces(plan).await {
            Ok(()) => self.drop_message(receipt).await,
            Err(error) => tracing::debug!(%error, id = %plan.id, "a refused plan is left to workers"),
        }
        refused.with_outcome(Outcome::NotApplied)
    }

    /// Applies a committed transaction. Whatever fails now, it is committed.
    async fn follow(
        &self,
        transaction: &EventualTransaction,
        begun: Result<Begun>,
        receipt: &mut Receipt,
    ) -> Progress {
        let progress = match begun {
            Ok(Begun::Mine(head, lease)) => {
                let run = self.apply(transaction, head, lease);
                self.holding(receipt, run).await
            }
            // Its pieces were stored once more.
            Ok(Begun::Others(head)) if head.state == State::Applied => {
                let removed = self.ledger.remove_pieces(head.plan_of()).await;
                removed.map(|()| Progress::Applied).map_err(Stopped::from)
            }
            Ok(Begun::Others(_)) => Ok(Progress::Pending),
            Ok(Begun::Refused(error)) | Err(error) => Err(error.into()),
        };
        match progress {
            Ok(Progress::Applied) => {
                self.drop_message(receipt).await;
                return Progress::Applied;
            }
            Ok(Progress::Pending) => {}
            Err(Stopped { error, .. }) => {
                tracing::warn!(%error, id = %transaction.id(), "a transaction is left to workers");
            }
        }
        Progress::Pending
    }
}
