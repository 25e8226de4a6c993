//! Transactions that keep failing.

use table_core::queue::Message;
use table_core::store::{Error, ErrorKind, Result};
use uuid::Uuid;

use super::coordinator::Coordinator;
use super::head::{Head, State};
use super::plan::TransactionId;
use super::status::TransactionStatus;
use super::ticket::Ticket;

/// A transaction whose message the queue has set aside.
#[derive(Clone, Debug)]
pub struct PoisonedTransaction {
    /// Which it is; `None` where the message is not of a transaction.
    pub id: Option<TransactionId>,
    /// How far it got, and why it failed.
    pub status: TransactionStatus,
    /// The message.
    pub message: Message,
}

impl Coordinator {
    /// Up to `max` transactions that were tried too often. Their steps up to
    /// [`status`](PoisonedTransaction::status) are done. The queue's requests, and one per transaction.
    ///
    /// # Errors
    /// The queue's and the storage's.
    pub async fn poison(&self, max: usize) -> Result<Vec<PoisonedTransaction>> {
        let mut all = Vec::new();
        for message in self.queue.poison(max).await? {
            let id = Ticket::parse(&message.body).ok().map(|ticket| ticket.id());
            let status = match id {
                Some(id) => self.status(id).await?,
                None => TransactionStatus::Unknown,
            };
            all.push(PoisonedTransaction { id, status, message });
        }
        Ok(all)
    }

    /// Lets workers try again, from the step that failed. The queue's requests.
    ///
    /// # Errors
    /// Precondition failed: someone else has put it back or discarded it.
    pub async fn requeue(&self, poisoned: &PoisonedTransaction) -> Result<()> {
        self.queue.requeue(&poisoned.message).await.map(drop)
    }

    /// Gives the rest of a transaction up for good: what is done stays done. Two requests, one more per piece
    /// of a stored plan, and the queue's.
    ///
    /// # Errors
    /// Precondition failed: it is being worked on after all, or was put back; the storage's.
    pub async fn discard(&self, poisoned: &PoisonedTransaction) -> Result<()> {
        if let Ok(ticket) = Ticket::parse(&poisoned.message.body) {
            self.discard_head(&ticket).await?;
        }
        match &poisoned.message.receipt {
            Some(receipt) => self.queue.delete(receipt).await,
            None => Ok(()),
        }
    }

    async fn discard_head(&self, ticket: &Ticket) -> Result<()> {
        let plan = ticket.plan_of();
        let head = match (self.ledger.read(plan.id).await?, ticket) {
            (None, Ticket::Inline { plan: steps, .. }) => {
                let head = Head::new(plan, steps.steps().len());
                self.ledger.insert(Head { state: State::Discarded, ..head }).await?
            }
            (None, Ticket::Stored(_)) => {
                self.ledger.insert(Head { state: State::Aborted, ..Head::new(plan, 0) }).await?
            }
            (Some(head), _) if head.state == State::Running && head.plan == plan.hash => {
                let discarded = Head { state: State::Discarded, claim: Some(Uuid::new_v4()), ..head };
                self.ledger.replace(discarded).await?
            }
            // Finished, or the head of another plan, whose pieces are not this one's.
            (head, _) => head,
        };
        head.ok_or_else(|| self.busy(plan.id))?;
        self.ledger.remove_pieces(plan).await
    }

    fn busy(&self, id: TransactionId) -> Error {
        let (table, key) = (self.ledger.table.to_string(), format!("the transaction {id}"));
        ErrorKind::PreconditionFailed { table, key }.into()
    }
}
