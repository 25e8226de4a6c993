//! Adapters of work queues: retry and meter.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;

use crate::adapter::meter::Count;
use crate::adapter::retry::{Attempts, RetryPolicy, in_doubt};
use crate::queue::{Message, Receipt, WorkQueue};
use crate::store::{Error, Outcome, Result};

/// A call of a [`WorkQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names of the calls")]
pub enum QueueCall {
    Send,
    Receive,
    Renew,
    Delete,
    Peek,
    Poison,
    Requeue,
}

impl QueueCall {
    /// Returns the name in snake case, as in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Renew => "renew",
            Self::Delete => "delete",
            Self::Peek => "peek",
            Self::Poison => "poison",
            Self::Requeue => "requeue",
        }
    }

    /// Whether a failed call has certainly changed nothing.
    const fn is_read(self) -> bool {
        matches!(self, Self::Peek)
    }
}

impl fmt::Display for QueueCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counts the calls to the queues that it is attached to.
///
/// Cloning is cheap; clones share the counts, and one meter may count several queues. A call counts when it
/// begins; every attempt of a retry above the meter is a call. In Azure Queue Storage a call is one request,
/// except for poison messages: see its documentation. The [`RequestMeter`](crate::adapter::RequestMeter) of a
/// store counts the requests of a queue in a table.
#[derive(Clone, Debug, Default)]
pub struct QueueMeter {
    counts: Arc<Mutex<BTreeMap<QueueCall, Count>>>,
}

impl QueueMeter {
    /// Creates a meter with all counts at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of calls so far.
    pub fn total(&self) -> u64 {
        self.lock().values().map(|count| count.requests).sum()
    }

    /// Returns the counts of one kind of call: begun, failed, and messages sent or returned.
    pub fn of(&self, call: QueueCall) -> Count {
        self.lock().get(&call).copied().unwrap_or_default()
    }

    /// Returns the counts of every kind of call that occurred.
    pub fn counts(&self) -> BTreeMap<QueueCall, Count> {
        self.lock().clone()
    }

    /// Resets all counts to zero.
    pub fn reset(&self) {
        self.lock().clear();
    }

    fn add(&self, call: QueueCall, more: Count) {
        *self.lock().entry(call).or_default() += more;
    }

    // The counts are consistent after every statement, so a panic of another holder leaves nothing to repair.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<QueueCall, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue whose calls a [`QueueMeter`] counts.
#[derive(Debug)]
pub struct MeteredQueue<Q> {
    queue: Q,
    meter: QueueMeter,
}

impl<Q: WorkQueue> MeteredQueue<Q> {
    /// Counts the calls of `queue`.
    pub const fn new(queue: Q, meter: QueueMeter) -> Self {
        Self { queue, meter }
    }

    async fn count<T>(
        &self,
        call: QueueCall,
        request: impl Future<Output = Result<T>> + Send,
        messages: impl Fn(&T) -> usize + Send,
    ) -> Result<T> {
        self.meter.add(call, Count { requests: 1, ..Count::default() });
        let result = request.await;
        let more = match &result {
            Ok(answer) => Count { entities: messages(answer) as u64, ..Count::default() },
            Err(_) => Count { failed: 1, ..Count::default() },
        };
        self.meter.add(call, more);
        result
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<Q: WorkQueue> WorkQueue for MeteredQueue<Q> {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        self.count(QueueCall::Send, self.queue.send(body, delay), |_| 1).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        self.count(QueueCall::Receive, self.queue.receive(max, visibility), Vec::len).await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        self.count(QueueCall::Renew, self.queue.renew(receipt, visibility), |_| 1).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        self.count(QueueCall::Delete, self.queue.delete(receipt), |()| 1).await
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        self.count(QueueCall::Peek, self.queue.peek(max), Vec::len).await
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        self.count(QueueCall::Poison, self.queue.poison(max), Vec::len).await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        self.count(QueueCall::Requeue, self.queue.requeue(message), |_| 1).await
    }
}

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
/// [`MeteredQueue`] below counts it. Needs a Tokio runtime with a time driver. For a
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
        let rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner).fork();
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
            // Every call may be repeated: a queue delivers at least once, so a message that was sent twice, or
            // received and lost, is allowed.
            let may_pass = failure.is_transient() || failure.is_ambiguous();
            if !(may_pass && attempts.another(&failure).await) {
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
