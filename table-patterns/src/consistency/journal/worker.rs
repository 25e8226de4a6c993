//! Workers: they take tickets from a queue.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use table_core::queue::{Message, Receipt, WorkQueue};
use table_core::store::Result;
use tokio::time::timeout;

use super::Journal;
use super::recover::Progress;
use super::row::WriteId;
use super::ticket::Ticket;
use crate::consistency::work::{Pace, Places, is_of_the_storage, work_through};
use crate::rows::took_effect::took_effect;

/// A worker: takes tickets from a queue and finishes what they point at.
///
/// # Poison
/// A ticket whose write is only not finished yet, because another applier has it or because the storage is
/// out of order, is sent again as a new message: waiting never makes it poison, however long an outage
/// lasts. So is one of a table or store that this worker has no journal for, with a warning, for another worker of
/// the queue to take; every worker should have the journals of all that the queue serves, or such tickets go from
/// hand to hand, once per lease each. What is wrong with the ticket or its write counts, and so does a worker that dies over it: received
/// as often as the queue allows, it is set aside. The write stays committed, with its journal row, and a
/// [`sweep`](Journal::sweep) still finds it.
#[derive(Debug)]
pub struct Recovery<'a> {
    queue: &'a dyn WorkQueue,
    journals: Vec<&'a Journal>,
    finished: Option<&'a AtomicUsize>,
}

/// A ticket that the queue has set aside.
#[derive(Clone, Debug)]
pub struct PoisonedTicket {
    /// The write; `None` where the message is no ticket.
    pub write: Option<WriteId>,
    /// The message: delete it from the queue to let the ticket go.
    pub message: Message,
}

impl<'a> Recovery<'a> {
    /// A worker for the tickets of these journals.
    pub const fn new(queue: &'a dyn WorkQueue, journals: Vec<&'a Journal>) -> Self {
        Self { queue, journals, finished: None }
    }

    /// Takes up to `max` tickets and works on them; how many there were. Any number of workers may run
    /// at once. A ticket that cannot be handled comes back until the queue sets it aside as poison.
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
    /// often, up to once a minute: what is under way goes on.
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
        work_through(self.queue, &places, pace, stop, handle).await
    }

    /// Up to `max` tickets that could not be handled as often as the queue allows. The queue's requests.
    ///
    /// # Errors
    /// The queue's.
    pub async fn poison(&self, max: usize) -> Result<Vec<PoisonedTicket>> {
        let poisoned = self.queue.poison(max).await?.into_iter().map(|message| {
            let write = Ticket::parse(&message.body).ok().map(|ticket| ticket.write_id());
            PoisonedTicket { write, message }
        });
        Ok(poisoned.collect())
    }

    /// Lets workers try again. The queue's requests.
    ///
    /// # Errors
    /// Precondition failed: someone else has put it back or deleted it.
    pub async fn requeue(&self, poisoned: &PoisonedTicket) -> Result<()> {
        self.queue.requeue(&poisoned.message).await.map(drop)
    }

    /// Counts the tickets that it finishes.
    pub(crate) const fn counting(mut self, finished: &'a AtomicUsize) -> Self {
        self.finished = Some(finished);
        self
    }

    fn lease(&self) -> Duration {
        self.journals.iter().map(|j| j.timing.lease()).max().unwrap_or_default()
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
        let Some(journal) = self.journals.iter().find(|j| j.has_written(&ticket)) else {
            let (store, table) = (&ticket.store, &ticket.table);
            tracing::warn!(store, table, id = %message.id, "a ticket waits for a worker that has its table");
            return self.put_back(ticket, 0, &receipt, self.lease()).await;
        };
        let recovered = journal.recover_in(&message.body, message.dequeue_count, places);
        let delay = match self.holding(&mut receipt, recovered).await {
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
            Err(error) => return Err(error),
        };
        self.put_back(ticket, message.dequeue_count, &receipt, delay).await
    }

    /// As a new message, which counts from zero. A crash in between leaves two: the second finds nothing to
    /// do.
    async fn put_back(
        &self,
        ticket: Ticket,
        dequeues: u32,
        receipt: &Receipt,
        delay: Duration,
    ) -> Result<()> {
        let again = Ticket { seen: ticket.seen.saturating_add(dequeues), ..ticket };
        took_effect(self.queue.send(&again.to_text()?, delay).await.map(drop))?;
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
