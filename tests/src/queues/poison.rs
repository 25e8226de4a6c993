//! Messages that keep coming back: set aside, looked at, put back or deleted.

use std::time::Duration;

use table_core::queue::Message;

use super::{LONG, Queue, assert_nothing_is_visible, only, receipt, send, wait_for_one};

/// How often the queues of the suite hand a message out.
const MAX_DEQUEUES: u32 = 5;

/// A message is handed out as often as the queue allows, then no more; it can be looked at.
pub(crate) async fn is_set_aside_when_it_comes_back_too_often(queue: Queue) {
    send(&queue, "bad").await;
    let bad = spoil(&queue).await;
    assert_eq!(bad.body, "bad");
    assert_nothing_is_visible(&queue).await;
}

/// Others are received all the same.
pub(crate) async fn does_not_hold_up_others(queue: Queue) {
    send(&queue, "bad").await;
    spoil(&queue).await;
    send(&queue, "good").await;
    let good = wait_for_one(&queue).await;
    assert_eq!(good.body.as_str(), "good");
    assert_eq!(good.dequeue_count, 1);
}

/// Put back, it is received as if it were new.
pub(crate) async fn can_be_put_back(queue: Queue) {
    send(&queue, "it's <&>").await;
    let bad = spoil(&queue).await;
    queue.requeue(&bad).await.expect("the receipt is good");
    let again = wait_for_one(&queue).await;
    assert_eq!(again.body.as_str(), "it's <&>");
    assert_eq!(again.dequeue_count, 1);
    assert_eq!(queue.poison(9).await.expect("messages"), []);
}

/// What was put back or deleted cannot be put back or deleted again.
pub(crate) async fn receipts_are_void_once_used(queue: Queue) {
    send(&queue, "bad").await;
    let bad = spoil(&queue).await;
    queue.requeue(&bad).await.expect("the receipt is good");
    assert!(queue.requeue(&bad).await.unwrap_err().is_precondition_failed());
    assert!(queue.delete(&receipt(&bad)).await.unwrap_err().is_precondition_failed());
    let again = wait_for_one(&queue).await;
    queue.delete(&receipt(&again)).await.expect("the lease holds");
    assert_nothing_is_visible(&queue).await;
}

/// Deleted, it is gone.
pub(crate) async fn can_be_deleted(queue: Queue) {
    send(&queue, "bad").await;
    let bad = spoil(&queue).await;
    queue.delete(&receipt(&bad)).await.expect("the receipt is good");
    assert!(queue.requeue(&bad).await.unwrap_err().is_precondition_failed());
    assert_eq!(queue.poison(9).await.expect("messages"), []);
}

/// There is none at first, and what is worked on is none.
pub(crate) async fn is_not_what_is_worked_on(queue: Queue) {
    assert_eq!(queue.poison(9).await.expect("messages"), []);
    send(&queue, "one").await;
    let taken = super::take(&queue).await;
    assert_eq!(queue.poison(9).await.expect("messages"), []);
    assert!(queue.requeue(&taken).await.is_err());
    queue.delete(&receipt(&taken)).await.expect("the lease holds");
}

/// Receives the only message and gives it back, until it is set aside.
async fn spoil(queue: &Queue) -> Message {
    for count in 1..=MAX_DEQUEUES {
        let message = wait_for_one(queue).await;
        assert_eq!(message.dequeue_count, count);
        queue.renew(&receipt(&message), Duration::ZERO).await.expect("the receipt is good");
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
