//! Workers of the journal: they receive tickets from a queue and recover their writes.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use table_core::queue::{Message, WorkQueue};
use table_core::store::Result;
use tokio::time::sleep;

use super::Journal;
use super::lease::Timing;
use super::recover::RecoveryProgress;
use super::ticket::Ticket;
use crate::consistency::work::{
    Pace, WorkerSlots, is_infrastructure_error, poison_pause, put_back, run_while_hidden,
    send_again, with_housekeeping, work_through,
};
use crate::entity_rows::WriteId;

/// Failures of a ticket's work until the ticket is poisoned, unless set.
pub(crate) const MAX_TICKET_FAILURES: u32 = 5;
/// The number of messages set aside by the queue that one check reads.
pub(crate) const SET_ASIDE: usize = 32;

/// A worker: receives tickets from a queue and finishes or gives up their writes.
///
/// # Poison
/// Only failures of its work poison a ticket. A worker counts its failure in the ticket and sends the ticket again as a new message.
/// After [`with_attempts`](Self::with_attempts) failures, 5 unless set, no worker works on the ticket. The queue then sets the message
/// aside after some receives, with pauses between them that grow to a lease, and [`poison`](Self::poison) lists it. The write stays committed with its journal row, and a
/// [`sweep`](Journal::sweep) still finds it.
///
/// Waiting is not a failure. If another applier has the write, or the store is unavailable, the ticket is sent again as a new message,
/// however long that takes. A ticket of a table for which this worker has no journal is sent again too, with a warning, for another
/// worker of the queue. Every worker should have the journals of all tables that the queue serves: otherwise workers pass such tickets
/// on once per lease.
///
/// The queue also counts the receives of a message, and sets a message aside after its own limit. That count grows when workers die or
/// answers of the queue are lost. [`run`](Self::run) puts such tickets back once per lease, and so does each call of
/// [`poison`](Self::poison). A message that is not a ticket has only the queue's count.
#[derive(Debug)]
pub struct Recovery<'a> {
    queue: &'a dyn WorkQueue,
    journals: Vec<&'a Journal>,
    /// Failures of a ticket's work until the ticket is poisoned.
    attempts: u32,
    finished: Option<&'a AtomicUsize>,
}

/// A ticket that the queue has set aside because its work failed too often.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoisonedTicket {
    /// The write; `None` if the message is not a ticket.
    pub write: Option<WriteId>,
    /// The number of failures of the work.
    pub failures: u32,
    /// The beginning of the last error, if it fitted into the message.
    pub error: Option<String>,
    /// The message: delete it from the queue to discard the ticket.
    pub message: Message,
}

impl<'a> Recovery<'a> {
    /// A worker for the tickets of these journals.
    pub const fn new(queue: &'a dyn WorkQueue, journals: Vec<&'a Journal>) -> Self {
        Self {
            queue,
            journals,
            attempts: MAX_TICKET_FAILURES,
            finished: None,
        }
    }

    /// Sets after how many failures of its work a ticket is poisoned: 5 unless set, at least 1. All workers of a queue should use
    /// the same number.
    #[must_use]
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self {
            attempts: attempts.max(1),
            ..self
        }
    }

    /// Receives up to `max` tickets and works on them concurrently. Returns the number of tickets.
    ///
    /// Any number of workers may run at the same time. A ticket whose work failed is visible again after a lease. Call
    /// [`poison`](Self::poison) regularly: it puts back the tickets that the queue has set aside because workers died.
    ///
    /// # Errors
    /// The queue's. Errors of single tickets are traced.
    pub async fn run_once(&self, max: usize) -> Result<usize> {
        let messages = self.queue.receive(max, self.visibility()).await?;
        // Concurrently: each ticket may wait for a lease, and the visibility timeout covers one wait.
        join_all(messages.iter().map(|message| self.handle(message, None))).await;
        Ok(messages.len())
    }

    /// Works until `stop` is ready, on up to `concurrency` tickets at a time. Finishes the tickets under way before it returns.
    ///
    /// Up to 1,000 more tickets wait for the lease of an applier that may have died. While the queue is empty, the worker asks it once
    /// per `idle`. While the queue is unavailable or denies access, the pause grows up to one minute. Once per lease, the worker puts
    /// back the tickets that the queue has set aside and that are not poisoned: 1 request of the queue, and 1 for each such ticket.
    ///
    /// # Errors
    /// The queue's, if waiting does not repair the error: the queue does not exist. Errors of single tickets are traced.
    pub async fn run(
        &self,
        concurrency: usize,
        idle: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let (slots, pace) = (
            WorkerSlots::new(concurrency),
            Pace {
                idle,
                visibility: self.visibility(),
            },
        );
        let handle = |message: Message| {
            let slots = &slots;
            async move { self.handle(&message, Some(slots)).await }
        };
        let work = work_through(self.queue, &slots, pace, stop, handle);
        with_housekeeping(work, self.requeue_unpoisoned()).await
    }

    /// Once per lease, forever: puts tickets back that the queue has set aside and that are not poisoned.
    async fn requeue_unpoisoned(&self) -> Infallible {
        let mut poisoned = 0;
        loop {
            sleep(self.lease()).await;
            // Read beyond the poisoned ones: the queue lists older messages first.
            match self.poison(SET_ASIDE.saturating_add(poisoned)).await {
                Ok(found) => poisoned = found.len(),
                Err(error) => {
                    tracing::debug!(%error, "the tickets that the queue has set aside could not be checked");
                }
            }
        }
    }

    /// Lists up to `max` poisoned tickets, and messages that are not tickets.
    ///
    /// Tickets that the queue has set aside for another reason (workers died, answers of the queue were lost) are put back and not
    /// listed. Cost: the queue's requests, and 1 for each ticket that is put back.
    ///
    /// # Errors
    /// The queue's.
    pub async fn poison(&self, max: usize) -> Result<Vec<PoisonedTicket>> {
        let mut all = Vec::new();
        for message in self.queue.poison(max).await? {
            let ticket = Ticket::parse(&message.body).ok();
            if ticket
                .as_ref()
                .is_some_and(|ticket| !self.is_poisoned(ticket))
            {
                put_back(self.queue, &message).await?;
                continue;
            }
            let write = ticket.as_ref().map(Ticket::write_id);
            let (failures, error) =
                ticket.map_or((0, None), |ticket| (ticket.failures, ticket.error));
            all.push(PoisonedTicket {
                write,
                failures,
                error,
                message,
            });
        }
        Ok(all)
    }

    /// Lets workers try the ticket again and counts its failures from zero. 2 requests of the queue.
    ///
    /// # Errors
    /// *Precondition failed* if another process has requeued or deleted the message. A ticket that exists twice does no harm.
    pub async fn requeue(&self, poisoned: &PoisonedTicket) -> Result<()> {
        let message = &poisoned.message;
        let (Ok(ticket), Some(receipt)) = (Ticket::parse(&message.body), &message.receipt) else {
            return self.queue.requeue(message).await.map(drop);
        };
        let again = Ticket {
            failures: 0,
            error: None,
            ..ticket
        };
        send_again(self.queue, &again.to_text()?, receipt, Duration::ZERO).await
    }

    const fn is_poisoned(&self, ticket: &Ticket) -> bool {
        ticket.failures >= self.attempts
    }

    /// Counts the finished tickets.
    pub(crate) const fn counting(mut self, finished: &'a AtomicUsize) -> Self {
        self.finished = Some(finished);
        self
    }

    fn lease(&self) -> Duration {
        let longest = self.journals.iter().map(|j| j.timing.lease()).max();
        longest.unwrap_or_else(|| Timing::default().lease())
    }

    /// The visibility timeout: a lease of waiting, a lease of applying, and a margin.
    fn visibility(&self) -> Duration {
        self.lease() * 3
    }

    async fn handle(&self, message: &Message, slots: Option<&WorkerSlots>) {
        if let Err(error) = self.work_on(message, slots).await {
            tracing::warn!(%error, id = %message.id, "the work on a ticket failed");
        }
    }

    async fn work_on(&self, message: &Message, slots: Option<&WorkerSlots>) -> Result<()> {
        let ticket = Ticket::parse(&message.body)?;
        let Some(mut receipt) = message.receipt.clone() else {
            return Ok(());
        };
        if self.is_poisoned(&ticket) {
            let pause = poison_pause(message.dequeue_count, self.lease());
            return self.queue.renew(&receipt, pause).await.map(drop);
        }
        let Some(journal) = self
            .journals
            .iter()
            .find(|j| j.unfinished().owns_ticket(&ticket))
        else {
            let (store, table) = (&ticket.store, &ticket.table);
            tracing::warn!(store, table, id = %message.id, "a ticket is sent again for a worker that has the journal of its table");
            return send_again(self.queue, &message.body, &receipt, self.lease()).await;
        };
        let unfinished = journal.unfinished();
        let recovered = unfinished.recover(&message.body, message.dequeue_count, slots);
        // Half a lease before the end. Work takes longer than the visibility only if the journal row names a longer lease than this worker's.
        let times = (self.visibility(), self.visibility() - self.lease() / 2);
        let recovered = run_while_hidden(self.queue, &mut receipt, times, recovered).await;
        // The queue counts the receives of the new message from zero; `give_up_for` needs the receives of all.
        let ticket = Ticket {
            seen: ticket.seen.saturating_add(message.dequeue_count),
            ..ticket
        };
        let delay = match recovered {
            Ok(RecoveryProgress::Done) => {
                if let Some(finished) = self.finished {
                    finished.fetch_add(1, Ordering::Relaxed);
                }
                return self.queue.delete(&receipt).await;
            }
            Ok(RecoveryProgress::Later(delay)) => delay,
            Err(error) if is_infrastructure_error(&error) => {
                tracing::warn!(%error, id = %message.id, "a ticket waits until the store is available");
                journal.timing.lease()
            }
            Err(error) => {
                let ticket = ticket.after_failure(&error);
                let delay = if self.is_poisoned(&ticket) {
                    Duration::ZERO
                } else {
                    journal.timing.lease()
                };
                tracing::warn!(%error, id = %message.id, failures = ticket.failures, "the work of a ticket failed");
                return send_again(self.queue, &ticket.to_text()?, &receipt, delay).await;
            }
        };
        send_again(self.queue, &ticket.to_text()?, &receipt, delay).await
    }
}
