//! Workers: they take tickets from a queue.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use table_core::queue::{Message, Receipt, WorkQueue};
use table_core::store::Result;
use tokio::time::{sleep, timeout};

use super::Journal;
use super::lease::Timing;
use super::recover::Progress;
use super::row::WriteId;
use super::ticket::Ticket;
use crate::consistency::work::{Pace, Places, is_of_the_storage, work_through};
use crate::rows::took_effect::took_effect;

/// How often the work of a ticket fails before the ticket is poisoned, unless set.
const ATTEMPTS: u32 = 5;
/// Messages that the queue has set aside and that are looked at together.
pub(crate) const SET_ASIDE: usize = 32;

/// A worker: takes tickets from a queue and finishes what they point at.
///
/// # Poison
/// A ticket is poisoned by failures of its work alone. The worker that fails counts the failure in the ticket, which it sends
/// again as a new message. After [`with_attempts`](Self::with_attempts) failures, 5 unless set, no worker works on the ticket: it
/// comes back until the queue sets it aside, and [`poison`](Self::poison) lists it. The write stays committed, with its journal
/// row, and a [`sweep`](Journal::sweep) still finds it.
///
/// Waiting is no failure. A ticket whose write another applier has, or whose storage is out of order, is sent again as a new
/// message, however long an outage lasts. So is a ticket of a table or store that this worker has no journal for, with a
/// warning, for another worker of the queue. Every worker should have the journals of all that the queue serves: otherwise such
/// tickets go from hand to hand, once per lease each.
///
/// The queue also counts how often it delivered a message, and sets a message aside after its own limit. That count grows where
/// workers die or answers of the queue are lost. A ticket that was set aside for that reason is put back: by [`run`](Self::run)
/// once per lease, and by each call of [`poison`](Self::poison). A message that is no ticket has no other count than the queue's.
#[derive(Debug)]
pub struct Recovery<'a> {
    queue: &'a dyn WorkQueue,
    journals: Vec<&'a Journal>,
    /// How often the work of a ticket fails before the ticket is poisoned.
    attempts: u32,
    finished: Option<&'a AtomicUsize>,
}

/// A ticket that the queue has set aside because its work failed too often.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoisonedTicket {
    /// The write; `None` where the message is no ticket.
    pub write: Option<WriteId>,
    /// How often the work failed.
    pub failures: u32,
    /// The beginning of the last failure's error, if the message had room for it.
    pub error: Option<String>,
    /// The message: delete it from the queue to let the ticket go.
    pub message: Message,
}

impl<'a> Recovery<'a> {
    /// A worker for the tickets of these journals.
    pub const fn new(queue: &'a dyn WorkQueue, journals: Vec<&'a Journal>) -> Self {
        Self { queue, journals, attempts: ATTEMPTS, finished: None }
    }

    /// Sets how often the work of a ticket may fail before the ticket is poisoned: 5 times unless set, at least once. All workers
    /// of a queue should have the same number.
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self { attempts: attempts.max(1), ..self }
    }

    /// Takes up to `max` tickets and works on them; how many there were. Any number of workers may run
    /// at once. A ticket whose work failed comes back after a lease. Call [`poison`](Self::poison) now and then, which puts back
    /// what the queue set aside because workers died.
    ///
    /// # Errors
    /// The queue's. Errors of tickets are traced: the others go on.
    pub async fn run_once(&self, max: usize) -> Result<usize> {
        let messages = self.queue.receive(max, self.visibility()).await?;
        // Together: each may wait a lease, and the visibility covers one wait.
        join_all(messages.iter().map(|message| self.handle(message, None))).await;
        Ok(messages.len())
    }

    /// Works until `stop` is ready, on `parallel` tickets at a time; what was begun is finished first. Tickets of writes
    /// whose appliers may have died wait for a lease, up to 1,000 of them beside the others. Asks the
    /// queue once per `idle` while there is nothing to do, and while the queue is away or denies access ever less
    /// often, up to once a minute: what is under way goes on. Once per lease it looks for tickets that the queue has set aside
    /// although their work did not fail too often, and puts them back: one request of the queue, and one for each such ticket.
    ///
    /// # Errors
    /// The queue's, where waiting does not mend it (it does not exist): what was begun is
    /// finished first. Errors of tickets are traced.
    pub async fn run(&self, parallel: usize, idle: Duration, stop: impl Future<Output = ()>) -> Result<()> {
        let (places, pace) = (Places::new(parallel), Pace { idle, visibility: self.visibility() });
        let handle = |message: Message| {
            let places = &places;
            async move { self.handle(&message, Some(places)).await }
        };
        let work = work_through(self.queue, &places, pace, stop, handle);
        match select(pin!(work), pin!(self.rescue())).await {
            Either::Left((worked, _)) => worked,
            Either::Right((never, _)) => match never {},
        }
    }

    /// Puts back, once per lease and without end, what the queue set aside although it is not poisoned.
    async fn rescue(&self) -> Infallible {
        let mut poisoned = 0;
        loop {
            sleep(self.lease()).await;
            // Beyond those that are poisoned: the queue lists them first where they are older.
            match self.poison(SET_ASIDE.saturating_add(poisoned)).await {
                Ok(found) => poisoned = found.len(),
                Err(error) => tracing::debug!(%error, "tickets that were set aside were not looked at"),
            }
        }
    }

    /// Up to `max` tickets whose work failed too often, and messages that are no tickets. Those that the queue set aside for
    /// another reason, because workers died or its answers were lost, are put back and not listed. The queue's requests, and one
    /// for each ticket that is put back.
    ///
    /// # Errors
    /// The queue's.
    pub async fn poison(&self, max: usize) -> Result<Vec<PoisonedTicket>> {
        let mut all = Vec::new();
        for message in self.queue.poison(max).await? {
            let ticket = Ticket::parse(&message.body).ok();
            if ticket.as_ref().is_some_and(|ticket| !self.is_poisoned(ticket)) {
                self.put_aside_back(&message).await?;
                continue;
            }
            let write = ticket.as_ref().map(Ticket::write_id);
            let (failures, error) = ticket.map_or((0, None), |ticket| (ticket.failures, ticket.error));
            all.push(PoisonedTicket { write, failures, error, message });
        }
        Ok(all)
    }

    /// Lets workers try again: the ticket's failures are counted from zero. Two requests of the queue.
    ///
    /// # Errors
    /// Precondition failed: someone else has put it back or deleted it; a ticket that comes twice does no harm.
    pub async fn requeue(&self, poisoned: &PoisonedTicket) -> Result<()> {
        let message = &poisoned.message;
        let (Ok(ticket), Some(receipt)) = (Ticket::parse(&message.body), &message.receipt) else {
            return self.queue.requeue(message).await.map(drop);
        };
        let again = Ticket { failures: 0, error: None, ..ticket };
        self.send_again(&again, receipt, Duration::ZERO).await
    }

    /// Puts a message back that was set aside, unless someone else has.
    async fn put_aside_back(&self, message: &Message) -> Result<()> {
        tracing::warn!(id = %message.id, "a ticket comes back that was set aside and is not poisoned");
        match self.queue.requeue(message).await {
            Err(e) if e.is_precondition_failed() && !e.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }

    const fn is_poisoned(&self, ticket: &Ticket) -> bool {
        ticket.failures >= self.attempts
    }

    /// Counts the tickets that it finishes.
    pub(crate) const fn counting(mut self, finished: &'a AtomicUsize) -> Self {
        self.finished = Some(finished);
        self
    }

    fn lease(&self) -> Duration {
        let longest = self.journals.iter().map(|j| j.timing.lease()).max();
        longest.unwrap_or_else(|| Timing::default().lease())
    }

    /// A wait of a lease, an application within another, and time to spare.
    fn visibility(&self) -> Duration {
        self.lease() * 3
    }

    async fn handle(&self, message: &Message, places: Option<&Places>) {
        if let Err(error) = self.work_on(message, places).await {
            tracing::warn!(%error, id = %message.id, "a ticket was not handled");
        }
    }

    async fn work_on(&self, message: &Message, places: Option<&Places>) -> Result<()> {
        let ticket = Ticket::parse(&message.body)?;
        let Some(mut receipt) = message.receipt.clone() else { return Ok(()) };
        if self.is_poisoned(&ticket) {
            // The queue sets it aside when it has come so often.
            return self.queue.renew(&receipt, Duration::ZERO).await.map(drop);
        }
        let Some(journal) = self.journals.iter().find(|j| j.has_written(&ticket)) else {
            let (store, table) = (&ticket.store, &ticket.table);
            tracing::warn!(store, table, id = %message.id, "a ticket waits for a worker that has its table");
            return self.send_again(&ticket, &receipt, self.lease()).await;
        };
        let recovered = journal.recover_in(&message.body, message.dequeue_count, places);
        let recovered = self.holding(&mut receipt, recovered).await;
        let ticket = Ticket { seen: ticket.seen.saturating_add(message.dequeue_count), ..ticket };
        let delay = match recovered {
            Ok(Progress::Done) => {
                if let Some(finished) = self.finished {
                    finished.fetch_add(1, Ordering::Relaxed);
                }
                return self.queue.delete(&receipt).await;
            }
            Ok(Progress::Later(delay)) => delay,
            Err(error) if is_of_the_storage(&error) => {
                tracing::warn!(%error, id = %message.id, "a ticket waits for the storage");
                journal.timing.lease()
            }
            Err(error) => {
                let ticket = ticket.after_failure(&error);
                let delay = if self.is_poisoned(&ticket) { Duration::ZERO } else { journal.timing.lease() };
                tracing::warn!(%error, id = %message.id, failures = ticket.failures, "the work of a ticket failed");
                return self.send_again(&ticket, &receipt, delay).await;
            }
        };
        self.send_again(&ticket, &receipt, delay).await
    }

    /// As a new message, which the queue counts from zero. A crash in between leaves two: the second finds nothing to
    /// do.
    async fn send_again(&self, ticket: &Ticket, receipt: &Receipt, delay: Duration) -> Result<()> {
        took_effect(self.queue.send(&ticket.to_text()?, delay).await.map(drop))?;
        self.queue.delete(receipt).await
    }

    /// Works while the ticket stays hidden from others. Two requests of the queue, if the journal row names a
    /// longer lease than this worker's own.
    async fn holding<T>(&self, receipt: &mut Receipt, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            match timeout(self.visibility() - self.lease() / 2, work.as_mut()).await {
                Ok(done) => return done,
                // A void receipt: someone else has the ticket too, and claims keep them apart.
                Err(_) => match self.queue.renew(receipt, self.visibility()).await {
                    Ok(renewed) => *receipt = renewed,
                    Err(error) => tracing::debug!(%error, "a ticket was not kept hidden"),
                },
            }
        }
    }
}
