//! A work queue whose failed calls are repeated.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;

use super::QueueCall;
use crate::adapter::retry::{Attempts, RetryPolicy, in_doubt};
use crate::queue::{Message, Receipt, WorkQueue};
use crate::store::{Error, Outcome, Result};

/// A queue that repeats calls with a transient error or a lost answer.
///
/// Work is executed at least once, so every call may be repeated:
///
/// | call | effect of repeating it after a lost answer |
/// |---|---|
/// | send | the queue may contain the message twice; the receipt belongs to the last message |
/// | receive | the messages of the lost answer stay hidden until their visibility timeout, and are counted as received |
/// | renew, delete, requeue | if the receipt is then invalid, the first attempt may have succeeded, or another worker has the message: the error is *ambiguous*, never a plain conflict |
/// | peek, poison | none; a queue may hide listed poison messages for half a minute |
///
/// # Cost
/// Without failures, the cost of the wrapped queue. Every attempt is a call of the wrapped queue, and a
/// [`MeteredQueue`](super::MeteredQueue) below counts it. Needs a Tokio runtime with a time driver. For a
/// queue in a table, use a [`Retrying`](crate::adapter::Retrying) store instead.
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
    /// Retries calls of `queue` by the policy's attempts, delays, deadline and attempt timeout. The policy's
    /// settings for writes of entities have no effect here.
    pub fn new(queue: Q, policy: RetryPolicy) -> Self {
        let rng = Mutex::new(policy.rng());
        Self { queue, policy, rng }
    }

    async fn repeat<T, F>(&self, call: QueueCall, request: impl Fn() -> F + Send) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        let rng = self
            .rng
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fork();
        let mut attempts = Attempts::new(&self.policy, call.name(), rng);
        let mut first_ambiguous: Option<Error> = None;
        loop {
            let failure = match attempts.run(call.is_read(), request()).await {
                Err(failure) if failure.outcome() != Outcome::Applied => failure,
                answer => return answer,
            };
            if first_ambiguous.is_none() && failure.is_ambiguous() {
                first_ambiguous = Some(failure.clone());
            }
            let may_pass = failure.is_transient() || failure.is_ambiguous();
            if !(may_pass && attempts.wait_for_attempt(&failure).await) {
                return Err(match first_ambiguous {
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
        self.repeat(QueueCall::Send, || self.queue.send(body, delay))
            .await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        self.repeat(QueueCall::Receive, || self.queue.receive(max, visibility))
            .await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        self.repeat(QueueCall::Renew, || self.queue.renew(receipt, visibility))
            .await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        self.repeat(QueueCall::Delete, || self.queue.delete(receipt))
            .await
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        self.repeat(QueueCall::Peek, || self.queue.peek(max)).await
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        self.repeat(QueueCall::Poison, || self.queue.poison(max))
            .await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        self.repeat(QueueCall::Requeue, || self.queue.requeue(message))
            .await
    }
}
