//! What a worker does with a message.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use table_core::queue::Message;
use table_core::store::Result;
use tokio::time::sleep;
use uuid::Uuid;

use super::coordinator::Coordinator;
use super::event::What;
use super::head::{Head, State};
use super::plan::EventualTransaction;
use super::submit::{Progress, other_plan};
use super::ticket::{Stored, Ticket};
use crate::journal::Lease;

/// What becomes of a message.
enum After {
    Delete,
    Later(Duration),
}

impl Coordinator {
    /// Takes up to `max` messages and works on them together; how many there were. What fails is traced and
    /// told to the listener; its message comes back later, until the queue sets it aside as poison.
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
    /// Asks the queue once per `idle` while there is nothing to do.
    ///
    /// # Errors
    /// The queue's: what was begun is dropped then, and left to others.
    pub async fn run(&self, parallel: usize, idle: Duration, stop: impl Future<Output = ()>) -> Result<()> {
        let mut stop = pin!(stop);
        let mut under_way = FuturesUnordered::new();
        loop {
            let free = parallel.saturating_sub(under_way.len());
            for message in self.queue.receive(free, self.timing.lease()).await? {
                under_way.push(self.handle(message));
            }
            let pause = pin!(sleep(idle));
            let next = async {
                if under_way.is_empty() {
                    pause.await;
                } else {
                    select(under_way.next(), pause).await;
                }
            };
            if let Either::Left(_) = select(stop.as_mut(), pin!(next)).await {
                under_way.collect::<()>().await;
                return Ok(());
            }
        }
    }

    async fn handle(&self, message: Message) {
        let Some(mut receipt) = message.receipt.clone() else { return };
        let worked = self.holding(&mut receipt, self.work_on(&message)).await;
        let after = worked.unwrap_or_else(|error| {
            tracing::warn!(%error, message = %message.id, "a transaction was not finished");
            let delay =
                if error.is_ambiguous() { self.timing.lease() } else { self.delay(message.dequeue_count) };
            After::Later(delay)
        });
        match after {
            After::Delete => self.drop_message(&receipt).await,
            After::Later(delay) => {
                if let Err(error) = self.queue.renew(&receipt, delay).await {
                    tracing::debug!(%error, "a transaction's message comes back when its lease ends");
                }
            }
        }
    }

    async fn work_on(&self, message: &Message) -> Result<After> {
        let ticket = Ticket::parse(&message.body)?;
        let Some(head) = self.ledger.read(ticket.id()).await? else {
            return self.first(&ticket, message.dequeue_count).await;
        };
        self.go_on(&ticket, head, message.dequeue_count).await
    }

    /// Nothing is known of the transaction: the message is the commit, or there was none.
    async fn first(&self, ticket: &Ticket, dequeues: u32) -> Result<After> {
        let (id, hash) = (ticket.id(), ticket.hash());
        let lease = Lease::start(self.timing);
        let inserted = match ticket {
            Ticket::Inline { plan, .. } => {
                let head = Head { claim: Some(Uuid::new_v4()), ..Head::new(id, plan.steps().len(), 0, hash) };
                self.ledger.insert(head).await?
            }
            Ticket::Stored(stored) => {
                let head = Head { state: State::Aborted, ..Head::new(id, 0, stored.pieces, hash) };
                self.ledger.insert(head).await?
            }
        };
        match (inserted, ticket) {
            (Some(head), Ticket::Inline { plan, .. }) => after(self.apply(plan, head, lease).await?, self),
            (Some(_), Ticket::Stored(stored)) => {
                self.tell(id, What::Aborted);
                self.clear_aborted(*stored, dequeues).await
            }
            // Another worker was quicker, or the submitter after all.
            (None, _) => Ok(After::Later(Duration::ZERO)),
        }
    }

    async fn go_on(&self, ticket: &Ticket, head: Head, dequeues: u32) -> Result<After> {
        match (head.state, ticket) {
            (State::Aborted, Ticket::Stored(stored)) => self.clear_aborted(*stored, dequeues).await,
            (State::Running, _) if head.plan == ticket.hash() => self.take_over(ticket, head).await,
            (_, _) if head.plan != ticket.hash() => Err(other_plan(head.id)),
            _ => {
                self.tell(head.id, What::Repeated);
                self.ledger.remove_pieces(head.id, head.pieces).await?;
                Ok(After::Delete)
            }
        }
    }

    /// Removes the pieces of a plan that was given up, and again a lease later: one may have been on its way.
    async fn clear_aborted(&self, stored: Stored, dequeues: u32) -> Result<After> {
        self.ledger.remove_pieces(stored.id(), stored.pieces).await?;
        Ok(if dequeues > 1 { After::Delete } else { After::Later(self.timing.lease()) })
    }

    /// Watches a claimed head for a whole lease; unchanged, the claim is void and made anew.
    async fn take_over(&self, ticket: &Ticket, mut head: Head) -> Result<After> {
        if head.claim.is_some() {
            sleep(self.timing.lease()).await;
        }
        let lease = Lease::start(self.timing);
        head.claim = Some(Uuid::new_v4());
        let Some(head) = self.ledger.replace(head).await? else {
            return Ok(After::Later(self.timing.lease()));
        };
        let progress = match ticket {
            Ticket::Inline { plan, .. } => self.apply(plan, head, lease).await?,
            Ticket::Stored(_) => {
                let plan = EventualTransaction::parse(&self.ledger.plan(&head).await?)?;
                self.apply(&plan, head, lease).await?
            }
        };
        after(progress, self)
    }
}

fn after(progress: Progress, of: &Coordinator) -> Result<After> {
    Ok(match progress {
        Progress::Applied => After::Delete,
        Progress::Pending => After::Later(of.timing.lease()),
    })
}
