//! A work queue whose calls are counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::QueueCall;
use crate::adapter::meter::Count;
use crate::queue::{Message, Receipt, WorkQueue};
use crate::store::Result;

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
    pub fn count_of(&self, call: QueueCall) -> Count {
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
        self.meter.add(
            call,
            Count {
                requests: 1,
                ..Count::default()
            },
        );
        let result = request.await;
        let more = match &result {
            Ok(answer) => Count {
                entities: messages(answer) as u64,
                ..Count::default()
            },
            Err(_) => Count {
                failed: 1,
                ..Count::default()
            },
        };
        self.meter.add(call, more);
        result
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<Q: WorkQueue> WorkQueue for MeteredQueue<Q> {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        self.count(QueueCall::Send, self.queue.send(body, delay), |_| 1)
            .await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        self.count(
            QueueCall::Receive,
            self.queue.receive(max, visibility),
            Vec::len,
        )
        .await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        self.count(
            QueueCall::Renew,
            self.queue.renew(receipt, visibility),
            |_| 1,
        )
        .await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        self.count(QueueCall::Delete, self.queue.delete(receipt), |()| 1)
            .await
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        self.count(QueueCall::Peek, self.queue.peek(max), Vec::len)
            .await
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        self.count(QueueCall::Poison, self.queue.poison(max), Vec::len)
            .await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        self.count(QueueCall::Requeue, self.queue.requeue(message), |_| 1)
            .await
    }
}
