//! Poison messages: set aside, inspected, put back or deleted.

use std::time::Duration;

use table_core::queue::Message;

use super::{LONG, Queue, assert_nothing_is_visible, only, receipt, send, wait_for_one};

/// The maximum number of receives of a message in the queues of the suite.
const MAX_DEQUEUES: u32 = 5;

/// A message is received as often as the queue allows and is then set aside. It can still be read as a poison
/// message.
pub(crate) async fn a_message_received_too_often_is_set_aside(queue: Queue) {
    send(&queue, "bad").await;
    let bad = poison_one(&queue).await;
    assert_eq!(bad.body, "bad");
    assert_nothing_is_visible(&queue).await;
}

/// All other messages are received as usual.
pub(crate) async fn other_messages_are_received_as_usual(queue: Queue) {
    send(&queue, "bad").await;
    poison_one(&queue).await;
    send(&queue, "good").await;
    let good = wait_for_one(&queue).await;
    assert_eq!(good.body.as_str(), "good");
    assert_eq!(good.dequeue_count, 1);
}

/// A message that is put back is received like a new message.
pub(crate) async fn a_message_that_is_put_back_is_like_new(queue: Queue) {
    send(&queue, "it's <&>").await;
    let bad = poison_one(&queue).await;
    queue.requeue(&bad).await.expect("the receipt is valid");
    let again = wait_for_one(&queue).await;
    assert_eq!(again.body.as_str(), "it's <&>");
    assert_eq!(again.dequeue_count, 1);
    assert_eq!(queue.poison(9).await.expect("messages"), []);
}

/// A poison message that was put back or deleted cannot be put back or deleted again.
pub(crate) async fn receipts_are_invalid_after_use(queue: Queue) {
    send(&queue, "bad").await;
    let bad = poison_one(&queue).await;
    queue.requeue(&bad).await.expect("the receipt is valid");
    assert!(
        queue
            .requeue(&bad)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    assert!(
        queue
            .delete(&receipt(&bad))
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    let again = wait_for_one(&queue).await;
    queue
        .delete(&receipt(&again))
        .await
        .expect("the lease holds");
    assert_nothing_is_visible(&queue).await;
}

/// A deleted poison message is gone.
pub(crate) async fn a_deleted_poison_message_is_gone(queue: Queue) {
    send(&queue, "bad").await;
    let bad = poison_one(&queue).await;
    queue
        .delete(&receipt(&bad))
        .await
        .expect("the receipt is valid");
    assert!(
        queue
            .requeue(&bad)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    assert_eq!(queue.poison(9).await.expect("messages"), []);
}

/// A new queue has no poison message, and a received message is not one.
pub(crate) async fn a_received_message_is_not_poison(queue: Queue) {
    assert_eq!(queue.poison(9).await.expect("messages"), []);
    send(&queue, "one").await;
    let taken = super::take(&queue).await;
    assert_eq!(queue.poison(9).await.expect("messages"), []);
    assert!(queue.requeue(&taken).await.is_err());
    queue
        .delete(&receipt(&taken))
        .await
        .expect("the lease holds");
}

/// Receives the only message and gives it back until it is set aside.
async fn poison_one(queue: &Queue) -> Message {
    for count in 1..=MAX_DEQUEUES {
        let message = wait_for_one(queue).await;
        assert_eq!(message.dequeue_count, count);
        queue
            .renew(&receipt(&message), Duration::ZERO)
            .await
            .expect("the receipt is valid");
    }
    loop {
        assert_eq!(queue.receive(1, LONG).await.expect("messages"), []);
        let poison = queue.poison(9).await.expect("messages");
        if !poison.is_empty() {
            return only(poison);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
