use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;

use super::QueueCall;
use crate::adapter::retry::{Attempts, RetryPolicy, in_doubt};
use crate::queue::{Message, Receipt, WorkQueue};
use crate::store::{Error, Outcome, Result};

/// A queue that tries again what failed in passing, or whose answer was lost.
///
/// Work is done at least once, so every call may be repeated:
///
/// | call | repeated after a lost answer |
/// |---|---|
/// | send | the message may be there twice; the receipt is of the last one |
/// | receive | what the lost answer held is hidden for its visibility, and was counted |
/// | renew, delete, requeue | where the receipt is void then, the first attempt may have done it, or another worker: the error is *ambiguous*, never a plain conflict |
/// | peek, poison | nothing changes; a queue may hide poison that was looked at for half a minute |
///
/// # Cost
/// As the wrapped queue where nothing fails; every attempt is a call of the wrapped queue: a
/// [`MeteredQueue`](super::MeteredQueue) below counts them. Needs a Tokio runtime with time. A queue in a table
/// needs it no more than its store does: let that be a [`Retrying`](crate::adapter::Retrying) one.
///
/// ```no_run
/// use std::sync::Arc;
/// use table_core::adapter::{MeteredQueue, QueueMeter, RetryPolicy, RetryingQueue};
/// use table_core::queue::WorkQueue;
/// # fn example(azure: Arc<dyn WorkQueue>) {
/// let meter = QueueMeter::new();
/// let queue = RetryingQueue::new(MeteredQueue::new(azure, meter.clone()), RetryPolicy::default());
/// # }
/// ```
#[derive(Debug)]
pub struct RetryingQueue<Q> {
    queue: Q,
    policy: RetryPolicy,
    rng: Mutex<Rng>,
}

impl<Q: WorkQueue> RetryingQueue<Q> {
    /// Tries again on `queue` as the policy says: attempts, delays, deadline and time for an attempt. What it says
    /// of writes to entities means nothing here.
    pub fn new(queue: Q, policy: RetryPolicy) -> Self {
        let rng = Mutex::new(policy.rng());
        Self { queue, policy, rng }
    }

    async fn repeat<T, F>(&self, call: QueueCall, request: impl Fn() -> F + Send) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        let rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner).fork();
        let mut attempts = Attempts::new(&self.policy, call.name(), rng);
        let mut doubt: Option<Error> = None;
        loop {
            let failure = match attempts.run(call.is_read(), request()).await {
                Err(failure) if failure.outcome() != Outcome::Applied => failure,
                answer => return answer,
            };
            if doubt.is_none() && failure.is_ambiguous() {
                doubt = Some(failure.clone());
            }
            let may_pass = failure.is_transient() || failure.is_ambiguous();
            if !(may_pass && attempts.another(&failure).await) {
                return Err(match doubt {
                    Some(first) => in_doubt(first, failure),
                    None => failure,
                });
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<Q: WorkQueue> WorkQueue for RetryingQueue<Q> {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        self.repeat(QueueCall::Send, || self.queue.send(body, delay)).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        self.repeat(QueueCall::Receive, || self.queue.receive(max, visibility)).await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        self.repeat(QueueCall::Renew, || self.queue.renew(receipt, visibility)).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        self.repeat(QueueCall::Delete, || self.queue.delete(receipt)).await
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        self.repeat(QueueCall::Peek, || self.queue.peek(max)).await
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        self.repeat(QueueCall::Poison, || self.queue.poison(max)).await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        self.repeat(QueueCall::Requeue, || self.queue.requeue(message)).await
    }
}
