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
    /// Up to `max` transactions of which a step failed too often, and messages that are of no transaction, of another plan
    /// under a known id, or of a head that cannot be read. The steps of a transaction up to [`status`](PoisonedTransaction::status) are done. The
    /// queue's requests, and one per message.
    ///
    /// The queue sets a message aside by how often it was received, whatever came of that: where workers died, or its
    /// answers were lost. Such a message is put back and not told of.
    ///
    /// # Errors
    /// The queue's and the storage's.
    pub async fn poison(&self, max: usize) -> Result<Vec<PoisonedTransaction>> {
        let mut all = Vec::new();
        for message in self.queue.poison(max).await? {
            let ticket = Ticket::parse(&message.body).ok();
            let head = match &ticket {
                Some(ticket) => self.ledger.read(ticket.id()).await?,
                None => None,
            };
            if ticket.as_ref().is_some_and(|ticket| is_workable(ticket, head.as_ref())) {
                self.put_back(&message).await?;
                continue;
            }
            let status = head.as_ref().map_or(TransactionStatus::Unknown, TransactionStatus::of);
            all.push(PoisonedTransaction { id: ticket.map(|ticket| ticket.id()), status, message });
        }
        Ok(all)
    }

    /// Puts a message back, unless someone else has.
    async fn put_back(&self, message: &Message) -> Result<()> {
        tracing::warn!(id = %message.id, "a message comes back that was set aside and is not poisoned");
        match self.queue.requeue(message).await {
            Err(e) if e.is_precondition_failed() && !e.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Lets workers try again, from the step that failed. Two requests, and the queue's.
    ///
    /// # Errors
    /// Precondition failed: someone else has put it back or discarded it.
    pub async fn requeue(&self, poisoned: &PoisonedTransaction) -> Result<()> {
        if let Ok(ticket) = Ticket::parse(&poisoned.message.body)
            && let Some(head) = self.ledger.read(ticket.id()).await?
            && head.state == State::Poisoned
            && head.plan == ticket.plan_of().hash
        {
            let again = Head { state: State::Running, failures: 0, claim: None, ..head };
            self.ledger.replace(again).await?.ok_or_else(|| self.busy(ticket.id()))?;
        }
        // Were this request lost, a worker finds that what was set aside is not poisoned.
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
            (Some(head), _) if head.is_open() && head.plan == plan.hash => {
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

/// Whether a worker has something to do with a message.
fn is_workable(ticket: &Ticket, head: Option<&Head>) -> bool {
    let Some(head) = head else { return true };
    match (head.plan == ticket.plan_of().hash, ticket) {
        (true, _) => head.state != State::Poisoned,
        (false, ticket) => matches!(ticket, Ticket::Stored(_)),
    }
}
