//! The loop of a worker: receives messages of a queue, works on several at a time, and pauses while the queue is unavailable.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use table_core::queue::{Message, Receipt, WorkQueue};
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::rows::accept_applied;

/// The longest pause between two receives of an unavailable queue.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The shortest pause after a failed receive; the pause doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A pause that doubles with each attempt: `first` after attempt 1, and `longest` at most.
pub(crate) fn doubled(first: Duration, attempt: u32, longest: Duration) -> Duration {
    first
        .saturating_mul(2u32.saturating_pow(attempt.saturating_sub(1)))
        .min(longest)
}

/// The time for which a poisoned message is hidden after a receive: from 10 ms to a lease. A queue sets such a message aside after some
/// receives, but it may allow many.
pub(crate) fn poison_pause(receives: u32, lease: Duration) -> Duration {
    doubled(Duration::from_millis(10), receives, lease)
}

/// Whether an error is that of the infrastructure and not of the work: the store is unavailable, denies access, or its answer was lost.
/// Waiting can repair such an error.
pub(crate) fn is_infrastructure_error(error: &Error) -> bool {
    let kinds = matches!(
        error.kind(),
        ErrorKind::Service(_) | ErrorKind::Unauthorized(_) | ErrorKind::Forbidden(_)
    );
    kinds || error.is_transient() || error.is_ambiguous()
}

/// The times of a worker's loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// The pause between two receives of an empty queue.
    pub(crate) idle: Duration,
    /// The visibility timeout of received messages.
    pub(crate) visibility: Duration,
}

/// The largest number of messages that wait without a slot.
const MAX_WAITING: usize = 1_000;

/// The slots of a worker: the number of messages that it works on at a time. Work that only waits releases its slot.
#[derive(Debug)]
pub(crate) struct WorkerSlots {
    free: Semaphore,
    all: usize,
}

impl WorkerSlots {
    pub(crate) fn new(concurrency: usize) -> Self {
        // `release_while` adds permits: keep room for them.
        let all = concurrency.min(Semaphore::MAX_PERMITS / 2);
        Self {
            free: Semaphore::new(all),
            all,
        }
    }

    /// Releases the slot of the caller during a wait, then waits for a slot again.
    pub(crate) async fn release_while(&self, wait: impl Future<Output = ()>) {
        self.free.add_permits(1);
        wait.await;
        self.acquire().await;
    }

    async fn acquire(&self) {
        // The semaphore is never closed.
        if let Ok(permit) = self.free.acquire().await {
            permit.forget();
        }
    }

    async fn hold_while(&self, work: impl Future<Output = ()>) {
        self.acquire().await;
        work.await;
        self.free.add_permits(1);
    }

    /// The number of messages to receive while this number is under way.
    fn free_slots(&self, under_way: usize) -> usize {
        let room = (self.all + MAX_WAITING).saturating_sub(under_way);
        self.free.available_permits().min(room)
    }
}

/// Works until `stop` is ready, then finishes the messages under way. These also continue during a receive. While the queue is
/// unavailable, the pause between two receives grows.
///
/// # Errors
/// The queue's, if waiting does not repair the error. The messages under way are finished before.
pub(crate) async fn work_through<W: Future<Output = ()>>(
    queue: &dyn WorkQueue,
    slots: &WorkerSlots,
    pace: Pace,
    stop: impl Future<Output = ()>,
    handle: impl Fn(Message) -> W,
) -> Result<()> {
    let (mut stop, mut under_way) = (pin!(stop), FuturesUnordered::new());
    let mut failures = 0;
    loop {
        let free = slots.free_slots(under_way.len());
        let failed = match alongside(&mut under_way, queue.receive(free, pace.visibility)).await {
            Ok(messages) => {
                under_way.extend(
                    messages
                        .into_iter()
                        .map(|message| slots.hold_while(handle(message))),
                );
                None
            }
            Err(error) => Some(error),
        };
        failures = if failed.is_some() { failures + 1 } else { 0 };
        if let Some(error) = failed {
            // No wait repairs this error, for example of a queue that does not exist. The messages under way
            // are finished, because their work does not need a receive.
            if !is_infrastructure_error(&error) {
                under_way.collect::<()>().await;
                return Err(error);
            }
            tracing::warn!(%error, failures, "the queue of a worker is unavailable: the worker tries again");
        }
        let stopped = {
            let next = pin!(wait(&mut under_way, pace.idle, failures));
            matches!(select(stop.as_mut(), next).await, Either::Left(_))
        };
        if stopped {
            under_way.collect::<()>().await;
            return Ok(());
        }
    }
}

/// Runs the loop of a worker, and housekeeping that never ends, at the same time.
pub(crate) async fn with_housekeeping<T>(
    work: impl Future<Output = T>,
    housekeeping: impl Future<Output = Infallible>,
) -> T {
    match select(pin!(work), pin!(housekeeping)).await {
        Either::Left((worked, _)) => worked,
        Either::Right((never, _)) => match never {},
    }
}

/// Runs work, and hides its message for `visibility` again each time `renewal` has passed, so that other workers do not receive the message.
/// `renewal` is shorter than `visibility`.
pub(crate) async fn run_while_hidden<T>(
    queue: &dyn WorkQueue,
    receipt: &mut Receipt,
    (visibility, renewal): (Duration, Duration),
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        match timeout(renewal, work.as_mut()).await {
            Ok(done) => return done,
            // After an error another worker may receive the message too. The claim of the work's row excludes it.
            Err(_) => match queue.renew(receipt, visibility).await {
                Ok(renewed) => *receipt = renewed,
                Err(error) => {
                    tracing::debug!(%error, "the visibility of a message was not renewed");
                }
            },
        }
    }
}

/// Sends a message again as a new one, whose receives the queue counts from zero. A crash before the delete leaves two messages: the row
/// of the work shows the second worker that another one has it, or that it is done.
pub(crate) async fn send_again(
    queue: &dyn WorkQueue,
    body: &str,
    receipt: &Receipt,
    delay: Duration,
) -> Result<()> {
    accept_applied(queue.send(body, delay).await.map(drop))?;
    queue.delete(receipt).await
}

/// Puts a message back that the queue has set aside, unless another process has done that.
pub(crate) async fn put_back(queue: &dyn WorkQueue, message: &Message) -> Result<()> {
    tracing::warn!(id = %message.id, "a message was set aside although its work is not poisoned: it is put back");
    match queue.requeue(message).await {
        Err(e) if e.is_precondition_failed() && !e.is_ambiguous() => Ok(()),
        other => other.map(drop),
    }
}

/// Waits until the next receive: until the pause ends or, if the queue is available, until a message is finished.
async fn wait<W: Future<Output = ()>>(
    under_way: &mut FuturesUnordered<W>,
    idle: Duration,
    failures: u32,
) {
    if failures > 0 {
        let pause = doubled(
            idle.max(FIRST_PAUSE),
            failures.saturating_add(1),
            LONGEST_PAUSE,
        );
        alongside(under_way, sleep(pause)).await;
    } else if under_way.is_empty() {
        sleep(idle).await;
    } else {
        select(under_way.next(), pin!(sleep(idle))).await;
    }
}

/// Awaits `work` and polls other work meanwhile.
async fn alongside<T, W: Future<Output = ()>>(
    others: &mut FuturesUnordered<W>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        while let Poll::Ready(Some(())) = others.poll_next_unpin(context) {}
        work.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests;
