//! From the caller to the commit.

use std::time::Duration;

use table_core::queue::{MESSAGE_BYTES, Receipt};
use table_core::store::{Error, ErrorKind, Outcome, Result};
use uuid::Uuid;

use super::coordinator::Coordinator;
use super::event::What;
use super::head::{Head, State};
use super::ledger::pieces;
use super::plan::{EventualTransaction, TransactionId, fingerprint};
use super::ticket::Stored;
use crate::journal::{Acknowledge, Lease, before};

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

/// A head row that this process may have inserted for itself.
enum Begun {
    Mine(Head, Lease),
    Others(Head),
}

impl Coordinator {
    /// Commits a transaction; with [`Acknowledge::Applied`], also applies it. Requests: see the
    /// [module](super). The answer says whether it is applied or will be.
    ///
    /// # Errors
    /// The plan cannot be done, or is over a limit; the storage's or queue's. Where the outcome is *not
    /// applied*, nothing was or will be done. Where it is ambiguous, submit the same transaction again: it
    /// is done once. A step that fails is no error: the transaction is committed, and pending.
    pub async fn submit(
        &self,
        transaction: &EventualTransaction,
        acknowledge: Acknowledge,
    ) -> Result<Submitted> {
        let text = transaction.to_text(&self.resources)?;
        let hash = fingerprint(&text);
        let applies = acknowledge == Acknowledge::Applied;
        let id = transaction.id();
        let progress = if text.len() <= MESSAGE_BYTES {
            let delay = if applies { self.timing.lease() } else { Duration::ZERO };
            let mut receipt = self.queue.send(&text, delay).await?;
            self.tell(id, What::Committed);
            if !applies {
                return Ok(Submitted { id, progress: Progress::Pending });
            }
            let begun = self.begin(Head::new(id, transaction.steps().len(), 0, hash)).await;
            self.follow(transaction, begun, &mut receipt).await
        } else {
            self.submit_stored(transaction, &text, hash, applies).await?
        };
        Ok(Submitted { id, progress })
    }

    /// A message that points at the plan, the plan, the head row: the commit.
    async fn submit_stored(
        &self,
        transaction: &EventualTransaction,
        text: &str,
        hash: i64,
        applies: bool,
    ) -> Result<Progress> {
        let (id, pieces) = (transaction.id(), pieces(text.len()));
        let not_applied = |error: Error| error.with_outcome(Outcome::NotApplied);
        let ticket = Stored::new(id, pieces, hash).to_text()?;
        let lease = Lease::start(self.timing);
        let mut receipt = self.queue.send(&ticket, self.timing.lease()).await.map_err(not_applied)?;
        // What fails from here on leaves the message: a worker gives the plan up and removes it.
        self.store_plan(id, text, pieces, &mut receipt, lease).await.map_err(not_applied)?;
        let head = Head::new(id, transaction.steps().len(), pieces, hash);
        let begun = self.commit(head, applies).await?;
        self.tell(id, What::Committed);
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
        id: TransactionId,
        text: &str,
        pieces: usize,
        receipt: &mut Receipt,
        mut lease: Lease,
    ) -> Result<()> {
        // When its lease is over, workers may have the message: nobody would remove a piece that comes after.
        for n in 0..pieces {
            while !lease.may_send() {
                lease = Lease::start(self.timing);
                *receipt = self.queue.renew(receipt, self.timing.lease()).await?;
            }
            let put = before(lease.cut_off(), self.ledger.put_piece(id, n, text)).await;
            put.unwrap_or_else(|| Err(self.timing.cut_off()))?;
        }
        Ok(())
    }

    /// Inserts the head row of a stored plan, unless it was given up.
    async fn commit(&self, head: Head, applies: bool) -> Result<Begun> {
        let id = head.id;
        let begun = if applies { self.begin(head).await } else { self.enter(head).await };
        let committed = match begun {
            Err(error) if error.is_ambiguous() => Begun::Others(self.find_out(id, error).await?),
            begun => begun.map_err(|error| error.with_outcome(Outcome::NotApplied))?,
        };
        match &committed {
            Begun::Others(head) if head.state == State::Aborted => Err(given_up(id)),
            _ => Ok(committed),
        }
    }

    /// The answer to the commit was lost: the head row is there, or an aborted one is put in its place.
    async fn find_out(&self, id: TransactionId, error: Error) -> Result<Head> {
        let aborted = Head { state: State::Aborted, ..Head::new(id, 0, 0, 0) };
        match self.ledger.insert(aborted).await {
            Ok(Some(_)) => Err(error.with_outcome(Outcome::NotApplied)),
            Ok(None) => self.ledger.read(id).await.ok().flatten().ok_or(error),
            Err(_) => Err(error),
        }
    }

    async fn enter(&self, head: Head) -> Result<Begun> {
        let (id, hash) = (head.id, head.plan);
        match self.ledger.insert(head).await? {
            Some(head) => Ok(Begun::Others(head)),
            None => Ok(Begun::Others(self.existing(id, hash).await?)),
        }
    }

    /// Inserts the head row claimed for this process.
    async fn begin(&self, head: Head) -> Result<Begun> {
        let lease = Lease::start(self.timing);
        let (id, hash) = (head.id, head.plan);
        match self.ledger.insert(Head { claim: Some(Uuid::new_v4()), ..head }).await? {
            Some(head) => Ok(Begun::Mine(head, lease)),
            None => Ok(Begun::Others(self.existing(id, hash).await?)),
        }
    }

    /// The head row that is there: of a submission of the same plan.
    async fn existing(&self, id: TransactionId, hash: i64) -> Result<Head> {
        let head = self.ledger.read(id).await?.ok_or_else(|| given_up(id))?;
        if head.state != State::Aborted && head.plan != hash {
            return Err(other_plan(id));
        }
        Ok(head)
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
            Ok(Begun::Others(head)) if head.state == State::Applied => Ok(Progress::Applied),
            Ok(Begun::Others(_)) => Ok(Progress::Pending),
            Err(error) => Err(error),
        };
        match progress {
            Ok(Progress::Applied) => {
                self.drop_message(receipt).await;
                return Progress::Applied;
            }
            Ok(Progress::Pending) => {}
            Err(error) => tracing::warn!(%error, id = %transaction.id(), "a transaction is left to workers"),
        }
        Progress::Pending
    }
}

fn given_up(id: TransactionId) -> Error {
    let kind = ErrorKind::InvalidRequest(format!(
        "the transaction {id} was given up before its commit: it took longer than a lease; submit it under a new id"
    ));
    Error::new(kind)
}

pub(super) fn other_plan(id: TransactionId) -> Error {
    Error::invalid_request(format!("another plan was submitted under the id {id}: this one is not done"))
}
