//! Working through a queue: what receives, how often, and which failures say nothing of a message.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use table_core::queue::{Message, WorkQueue};
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// The longest pause between two receives of a queue that is out of order.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The pause after the first receive that failed, where the idle one is shorter; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Whether an error says nothing of the work: the storage is away, or does not let this worker in.
pub(crate) fn is_of_the_storage(error: &Error) -> bool {
    let kinds =
        matches!(error.kind(), ErrorKind::Service(_) | ErrorKind::Unauthorized(_) | ErrorKind::Forbidden(_));
    kinds || error.is_transient() || error.is_ambiguous()
}

/// How a worker takes messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Between two receives while nothing else happens.
    pub(crate) idle: Duration,
    pub(crate) visibility: Duration,
}

/// Messages at a time that only wait.
const MOST_AWAY: usize = 1_000;

/// The places of a worker: so many messages are worked on at a time. One that only waits gives its place up meanwhile.
#[derive(Debug)]
pub(crate) struct Places {
    free: Semaphore,
    all: usize,
}

impl Places {
    pub(crate) fn new(parallel: usize) -> Self {
        // Room for the permits of those who are away.
        let all = parallel.min(Semaphore::MAX_PERMITS / 2);
        Self { free: Semaphore::new(all), all }
    }

    /// Waits without a place, and then for one.
    pub(crate) async fn away(&self, wait: impl Future<Output = ()>) {
        self.free.add_permits(1);
        wait.await;
        self.enter().await;
    }

    async fn enter(&self) {
        // The semaphore is never closed.
        if let Ok(permit) = self.free.acquire().await {
            permit.forget();
        }
    }

    async fn during(&self, work: impl Future<Output = ()>) {
        self.enter().await;
        work.await;
        self.free.add_permits(1);
    }

    /// How many messages there is room for beside those that are under way.
    fn left(&self, under_way: usize) -> usize {
        let room = (self.all + MOST_AWAY).saturating_sub(under_way);
        self.free.available_permits().min(room)
    }
}

/// Works until `stop` is ready; what was begun is finished first. What is under way goes on while the queue is
/// asked. A queue that is out of order is asked again, ever less often.
///
/// # Errors
/// The queue's, where waiting does not mend it; what was begun was finished.
pub(crate) async fn work_through<W: Future<Output = ()>>(
    queue: &dyn WorkQueue,
    places: &Places,
    pace: Pace,
    stop: impl Future<Output = ()>,
    handle: impl Fn(Message) -> W,
) -> Result<()> {
    let (mut stop, mut under_way) = (pin!(stop), FuturesUnordered::new());
    let mut failures = 0;
    loop {
        let free = places.left(under_way.len());
        let failed = match alongside(&mut under_way, queue.receive(free, pace.visibility)).await {
            Ok(messages) => {
                under_way.extend(messages.into_iter().map(|message| places.during(handle(message))));
                None
            }
            Err(error) => Some(error),
        };
        failures = if failed.is_some() { failures + 1 } else { 0 };
        if let Some(error) = failed {
            if !is_of_the_storage(&error) {
                under_way.collect::<()>().await;
                return Err(error);
            }
            tracing::warn!(%error, failures, "a queue is out of order");
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

/// Until the queue is to be asked again: a pause is over or, where it answers, a message is done.
async fn wait<W: Future<Output = ()>>(under_way: &mut FuturesUnordered<W>, idle: Duration, failures: u32) {
    if failures > 0 {
        let doubled = idle.max(FIRST_PAUSE).saturating_mul(1 << failures.min(16));
        alongside(under_way, sleep(doubled.min(LONGEST_PAUSE))).await;
    } else if under_way.is_empty() {
        sleep(idle).await;
    } else {
        select(under_way.next(), pin!(sleep(idle))).await;
    }
}

/// Does work while other work goes on.
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
