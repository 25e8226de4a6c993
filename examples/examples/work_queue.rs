//! A work queue in a table: a worker that crashes, another that continues, and a message that no worker can process. Use it where no
//! queue service is available, or to keep work and data in one account. One queue is one partition.
//!
//! Cost: send 1 request, receive 1 and 1 per 50 messages, renew 2, delete 1.

use std::sync::Arc;
use std::time::Duration;

use table_core::Error;
use table_core::queue::{Message, Receipt, WorkQueue};
use table_patterns::clock::TokioClock;
use table_patterns::prelude::*;
use table_patterns::queue::{QueueOptions, TableQueue};

/// How long a received message is hidden from other workers.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> table_core::Result<()> {
    let mut options = QueueOptions::default();
    options.max_dequeues = 2;
    // Virtual time, so that this example does not wait. A program keeps the system clock, the default.
    options.clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    // `table_azure::AzureWorkQueue` implements the same trait over Azure Queue Storage.
    let queue =
        TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "thumbnails", options).await?;
    queue.send("photo 17", Duration::ZERO).await?; // 1 request

    // A worker receives the message and crashes. Other workers do not see it until the visibility timeout.
    let message_of_crashed_worker = queue.receive(1, VISIBILITY_TIMEOUT).await?.remove(0);
    assert!(queue.receive(1, VISIBILITY_TIMEOUT).await?.is_empty());
    tokio::time::sleep(VISIBILITY_TIMEOUT * 2).await;

    // Another worker receives it, extends the timeout, and finishes.
    let message = queue.receive(1, VISIBILITY_TIMEOUT).await?.remove(0);
    assert_eq!(message.body.as_str(), "photo 17");
    assert_eq!(message.dequeue_count, 2);
    // The worker needs longer: the message stays hidden for 10 more minutes.
    let receipt = queue
        .renew(&receipt_of(&message)?, VISIBILITY_TIMEOUT * 20)
        .await?;
    let stale = receipt_of(&message_of_crashed_worker)?;
    assert!(
        queue.delete(&stale).await.is_err(),
        "the first worker's receipt is invalid"
    );
    queue.delete(&receipt).await?;

    // A message that no worker can process is set aside after two receives. It can be listed and put back.
    queue.send("not a photo", Duration::ZERO).await?;
    for _ in 0..2 {
        assert_eq!(queue.receive(1, VISIBILITY_TIMEOUT).await?.len(), 1);
        tokio::time::sleep(VISIBILITY_TIMEOUT * 2).await;
    }
    assert!(queue.receive(1, VISIBILITY_TIMEOUT).await?.is_empty());
    let poison = queue.poison(10).await?;
    assert_eq!(poison[0].body, "not a photo");
    queue.requeue(&poison[0]).await?;
    assert_eq!(queue.peek(10).await?.len(), 1);
    Ok(())
}

/// Returns the receipt of a received message. A peeked message has none.
fn receipt_of(message: &Message) -> table_core::Result<Receipt> {
    message
        .receipt
        .clone()
        .ok_or_else(|| Error::application("the message was not received"))
}
