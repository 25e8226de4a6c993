//! What a worker does with a message.

use std::time::Duration;

use futures_util::future::join_all;
use table_core::queue::{Message, Receipt};
use table_core::store::Result;
use tokio::time::sleep;
use uuid::Uuid;

use super::commit::other_plan;
use super::coordinator::Coordinator;
use super::event::What;
use super::head::{Head, State};
use super::ledger::PlanOf;
use super::plan::EventualTransaction;
use super::stopped::Stopped;
use super::submit::Progress;
use super::ticket::Ticket;
use crate::journal::Lease;
use crate::took_effect::took_effect;
use crate::work::{Pace, Places, work_through};

/// What becomes of a message.
enum After {
    Delete,
    /// It comes back, and counts towards poison.
    Later(Duration),
    /// It is sent again as a new message, which counts from zero.
    Again(Duration),
}

impl Coordinator {
    /// Takes up to `max` messages and works on them together; how many there were. What fails is traced and
    /// told to the listener; its message comes back later, until the queue sets it aside as poison. What
    /// only waits, for a storage that is out of order or for another worker, never becomes poison.
    ///
    /// # Errors
    /// The queue's.
    pub async fn run_once(&self, max: usize) -> Result<usize> {
        let messages = self.queue.receive(max, self.timing.lease()).await?;
        let count = messages.len();
        join_all(messages.into_iter().map(|message| self.handle(message))).await;
        Ok(count)
    }

    /// Works until `stop` is ready, on `parallel` transactions at a time; what was begun is finished first.
    /// Asks the queue once per `idle` while there is nothing to do, and while the queue is away or denies access ever
    /// less often, up to once a minute: what is under way goes on.
    ///
    /// # Errors
    /// The queue's, where waiting does not mend it (it does not exist): what was begun is
    /// finished first.
    pub async fn run(&self, parallel: usize, idle: Duration, stop: impl Future<Output = ()>) -> Result<()> {
        let (places, pace) = (Places::new(parallel), Pace { idle, visibility: self.timing.lease() });
        work_through(&*self.queue, &places, pace, stop, |message| self.handle(message)).await
    }

    async fn handle(&self, message: Message) {
        let Some(mut receipt) = message.receipt.clone() else { return };
        let worked = self.holding(&mut receipt, self.work_on(&message)).await;
        let after = worked.unwrap_or_else(|Stopped { error, counts }| {
            tracing::warn!(%error, message = %message.id, "a transaction was not finished");
            let delay =
                if error.is_ambiguous() { self.timing.lease() } else { self.delay(message.dequeue_count) };
            if counts { After::Later(delay) } else { After::Again(delay) }
        });
        let put_back = match after {
            After::Delete => return self.drop_message(&receipt).await,
            After::Later(delay) => self.queue.renew(&receipt, delay).await.map(drop),
            After::Again(delay) => self.send_again(&message, &receipt, delay).await,
        };
        if let Err(error) = put_back {
            tracing::debug!(%error, "a transaction's message comes back when its lease ends");
        }
    }

    /// A crash in between leaves two messages: claims keep those apart who receive them.
    async fn send_again(&self, message: &Message, receipt: &Receipt, delay: Duration) -> Result<()> {
        took_effect(self.queue.send(&message.body, delay).await.map(drop))?;
        self.queue.delete(receipt).await
    }

    async fn work_on(&self, message: &Message) -> Result<After, Stopped> {
        let ticket = Ticket::parse(&message.body)?;
        let Some(head) = self.ledger.read(ticket.id()).await? else {
            return self.first(&ticket, message.dequeue_count).await;
        };
        self.go_on(&ticket, head, message.dequeue_count).await
    }

    /// Nothing is known of the transaction: the message is the commit, or there was none.
    async fn first(&self, ticket: &Ticket, dequeues: u32) -> Result<After, Stopped> {
        let of = ticket.plan_of();
        let lease = Lease::start(self.timing);
        let inserted = match ticket {
            Ticket::Inline { plan, .. } => {
                let head = Head { claim: Some(Uuid::new_v4()), ..Head::new(of, plan.steps().len()) };
                self.ledger.insert(head).await?
            }
            Ticket::Stored(_) => {
                self.ledger.insert(Head { state: State::Aborted, ..Head::new(of, 0) }).await?
            }
        };
        match (inserted, ticket) {
            (Some(head), Ticket::Inline { plan, .. }) => Ok(self.after(self.apply(plan, head, lease).await?)),
            (Some(_), Ticket::Stored(_)) => {
                self.tell(of.id, What::Aborted);
                self.clear_uncommitted(of, dequeues).await
            }
            // Another worker was quicker, or the submitter after all.
            (None, _) => Ok(After::Later(Duration::ZERO)),
        }
    }

    async fn go_on(&self, ticket: &Ticket, head: Head, dequeues: u32) -> Result<After, Stopped> {
        let plan = ticket.plan_of();
        match (head.state, ticket) {
            (State::Running, _) if head.plan == plan.hash => self.take_over(ticket, head).await,
            // The head row of another plan is there: this one was not committed, and its submitter is told.
            (_, Ticket::Stored(_)) if head.state == State::Aborted || head.plan != plan.hash => {
                self.clear_uncommitted(plan, dequeues).await
            }
            (_, _) if head.plan != plan.hash => Err(other_plan(plan.id).into()),
            _ => {
                self.tell(plan.id, What::Repeated);
                self.ledger.remove_pieces(plan).await?;
                Ok(After::Delete)
            }
        }
    }

    /// Removes the pieces of a plan without a commit, and again a lease later: one may have been on its way.
    async fn clear_uncommitted(&self, plan: PlanOf, dequeues: u32) -> Result<After, Stopped> {
        self.ledger.remove_pieces(plan).await?;
        Ok(if dequeues > 1 { After::Delete } else { After::Later(self.timing.lease()) })
    }

    /// Watches a claimed head for a whole lease; unchanged, the claim is void and made anew.
    async fn take_over(&self, ticket: &Ticket, mut head: Head) -> Result<After, Stopped> {
        if head.claim.is_some() {
            sleep(self.timing.lease()).await;
        }
        let lease = Lease::start(self.timing);
        head.claim = Some(Uuid::new_v4());
        let Some(head) = self.ledger.replace(head).await? else {
            return Ok(After::Again(self.timing.lease()));
        };
        let progress = match ticket {
            Ticket::Inline { plan, .. } => self.apply(plan, head, lease).await?,
            Ticket::Stored(_) => {
                let plan = EventualTransaction::parse(&self.ledger.plan(&head).await?)?;
                self.apply(&plan, head, lease).await?
            }
        };
        Ok(self.after(progress))
    }

    const fn after(&self, progress: Progress) -> After {
        match progress {
            Progress::Applied => After::Delete,
            Progress::Pending => After::Again(self.timing.lease()),
        }
    }
}
