//! The conformance suite of [`WorkQueue`]: one function for each behaviour. Pass a [`QueueBackend`] to
//! [`queue_tests!`](crate::queue_tests), which makes a test of each behaviour.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use table_core::queue::{Message, Receipt, WorkQueue};

mod bodies;
#[doc(hidden)]
pub mod list;
mod messages;
mod poison;
mod receipts;
mod workers;

pub use crate::suite::{QueueBehaviour as Behaviour, run_with_queue as run};

/// An empty queue for one behaviour.
pub type Queue = Arc<dyn WorkQueue>;

/// A backend under test: opens a queue. It lives as long as the behaviour.
#[async_trait]
pub trait QueueBackend: Send + Sync {
    /// Opens an empty queue that no other behaviour uses.
    async fn queue(&self) -> Queue;
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(300);
/// The shortest duration that every queue can measure.
const SHORT: Duration = Duration::from_secs(1);

/// Sends a message that is visible at once.
async fn send(queue: &Queue, body: &str) -> Receipt {
    queue
        .send(body, Duration::ZERO)
        .await
        .expect("a legal message")
}

/// Receives the only visible message with a long visibility timeout.
async fn take(queue: &Queue) -> Message {
    only(queue.receive(9, LONG).await.expect("messages"))
}

/// Receives until a message is visible: services have their own clocks.
async fn wait_for_one(queue: &Queue) -> Message {
    loop {
        if let Some(message) = queue.receive(1, LONG).await.expect("messages").pop() {
            return message;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn assert_nothing_is_visible(queue: &Queue) {
    assert_eq!(queue.peek(9).await.expect("messages"), []);
    assert_eq!(queue.receive(9, LONG).await.expect("messages"), []);
}

/// Asserts that the receipt neither deletes nor renews.
async fn assert_void(queue: &Queue, receipt: &Receipt) {
    let error = queue
        .renew(receipt, LONG)
        .await
        .expect_err("an invalid receipt renews no message");
    assert!(error.is_precondition_failed(), "{error}");
    let error = queue
        .delete(receipt)
        .await
        .expect_err("an invalid receipt deletes no message");
    assert!(error.is_precondition_failed(), "{error}");
}

#[track_caller]
fn only(mut messages: Vec<Message>) -> Message {
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.remove(0)
}

fn receipt(message: &Message) -> Receipt {
    message
        .receipt
        .clone()
        .expect("a received message has a receipt")
}
