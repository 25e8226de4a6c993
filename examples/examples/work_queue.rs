//! A work queue in a table: a worker that crashes, another that continues, and a message that no worker can
//! process.

use std::sync::Arc;
use std::time::Duration;

use table_core::memory::MemoryStore;
use table_core::queue::WorkQueue;
use table_patterns::queue::{QueueOptions, TableQueue};

/// How long a received message is hidden from other workers.
const LEASE: Duration = Duration::from_millis(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let mut options = QueueOptions::default();
    options.max_dequeues = 2;
    // `table_azure::AzureWorkQueue` implements the same trait over Azure Queue Storage.
    let queue = TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "thumbnails", options).await?;
    queue.send("photo 17", Duration::ZERO).await?; // 1 request

    // A worker receives the message and crashes. Other workers do not see it until the visibility timeout.
    let lost = queue.receive(1, LEASE).await?.remove(0);
    assert!(queue.receive(1, LEASE).await?.is_empty());
    tokio::time::sleep(LEASE * 2).await;

    // Another worker receives it, extends the timeout, and finishes.
    let message = queue.receive(1, LEASE).await?.remove(0);
    assert_eq!(message.body.as_str(), "photo 17");
    assert_eq!(message.dequeue_count, 2);
    let receipt = queue.renew(&received(&message)?, LEASE * 100).await?;
    assert!(queue.delete(&received(&lost)?).await.is_err(), "the first worker's receipt is invalid");
    queue.delete(&receipt).await?;

    // A message that no worker can process is set aside after two receives. It can be listed and put back.
    queue.send("not a photo", Duration::ZERO).await?;
    for _ in 0..2 {
        assert_eq!(queue.receive(1, LEASE).await?.len(), 1);
        tokio::time::sleep(LEASE * 2).await;
    }
    assert!(queue.receive(1, LEASE).await?.is_empty());
    let poison = queue.poison(10).await?;
    assert_eq!(poison[0].body, "not a photo");
    queue.requeue(&poison[0]).await?;
    assert_eq!(queue.peek(10).await?.len(), 1);
    Ok(())
}

/// Returns the receipt of a received message. A peeked message has none.
fn received(message: &table_core::queue::Message) -> table_core::Result<table_core::queue::Receipt> {
    let none = || table_core::Error::invalid_request("the message was not received");
    message.receipt.clone().ok_or_else(none)
}
