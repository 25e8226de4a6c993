//! What a worker does with a message.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
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
use super::stopped::{Recorded, Stopped};
use super::submit::Progress;
use super::ticket::Ticket;
use crate::consistency::work::{Pace, Places, work_through};
use crate::journal::Lease;
use crate::rows::took_effect::took_effect;

/// Messages that were set aside and are looked at together.
const AT_ONCE: usize = 32;

/// What becomes of a message.
enum After {
    Delete,
    /// It comes back, until the queue sets it aside.
    Later(Duration),
    /// It is sent again as a new message, which counts from zero.
    Again(Duration),
}

impl Coordinator {
    /// Takes up to `max` messages and works on them together; how many there were. What fails is traced and
    /// told to the listener, and is tried again later, until its step has failed as often as
    /// [`with_attempts`](Self::with_attempts) says. What only waits, for a storage that is out of order or for another
    /// worker, is never poisoned, and neither is what workers die over. Their messages may be set aside by the queue all the same: who does not call
    /// [`run`](Self::run), which puts them back, calls [`poison`](Self::poison) now and then.
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
    /// less often, up to once a minute: what is under way goes on. Once per lease it looks for messages that the queue
    /// has set aside although their transactions are not poisoned, and puts them back: the queue's request, and one for
    /// each of up to 32.
    ///
    /// # Errors
    /// The queue's, where waiting does not mend it (it does not exist): what was begun is
    /// finished first.
    pub async fn run(&self, parallel: usize, idle: Duration, stop: impl Future<Output = ()>) -> Result<()> {
        let (places, pace) = (Places::new(parallel), Pace { idle, visibility: self.timing.lease() });
        let work = work_through(&*self.queue, &places, pace, stop, |message| self.handle(message));
        match select(pin!(work), pin!(self.rescue())).await {
            Either::Left((worked, _)) => worked,
            Either::Right((never, _)) => match never {},
        }
    }

    /// Puts back what the queue has set aside for no reason, now and then, for ever.
    async fn rescue(&self) -> Infallible {
        loop {
            sleep(self.timing.lease()).await;
            if let Err(error) = self.poison(AT_ONCE).await {
                tracing::debug!(%error, "messages that were set aside were not looked at");
            }
        }
    }

    async fn handle(&self, message: Message) {
        let Some(mut receipt) = message.receipt.clone() else { return };
        let worked = self.holding(&mut receipt, self.work_on(&message)).await;
        let after = worked.unwrap_or_else(|stopped| self.after_failure(&stopped, &message));
        let put_back = match after {
            After::Delete => return self.drop_message(&receipt).await,
            After::Later(delay) => self.queue.renew(&receipt, delay).await.map(drop),
            After::Again(delay) => self.send_again(&message, &receipt, delay).await,
        };
        if let Err(error) = put_back {
            tracing::debug!(%error, "a transaction's message comes back when its lease ends");
        }
    }

    /// A failure that the head tells of is counted there, and its message from zero. What no head tells of is left to the
    /// queue to count: no transaction, another plan under an id that is known, a head that cannot be read.
    fn after_failure(&self, stopped: &Stopped, message: &Message) -> After {
        let Stopped { error, counts, recorded } = stopped;
        tracing::warn!(%error, message = %message.id, "a transaction was not finished");
        match recorded {
            Some(Recorded::Poisoned) => After::Later(Duration::ZERO),
            _ if error.is_ambiguous() => After::Again(self.timing.lease()),
            Some(Recorded::Failed(failures)) => After::Again(self.delay(*failures)),
            None if *counts => After::Later(self.delay(message.dequeue_count)),
            None => After::Again(self.delay(1)),
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
            // The queue sets it aside when it has come so often.
            (State::Poisoned, _) if head.plan == plan.hash => Ok(After::Later(Duration::ZERO)),
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
            Ticket::Stored(_) => match self.stored_plan(&head).await {
                Ok(plan) => self.apply(&plan, head, lease).await?,
                Err(error) => return Err(self.unread(head, lease, error).await),
            },
        };
        Ok(self.after(progress))
    }

    async fn stored_plan(&self, head: &Head) -> Result<EventualTransaction> {
        EventualTransaction::parse(&self.ledger.plan(head).await?)
    }

    const fn after(&self, progress: Progress) -> After {
        match progress {
            Progress::Applied => After::Delete,
            Progress::Pending => After::Again(self.timing.lease()),
        }
    }
}
