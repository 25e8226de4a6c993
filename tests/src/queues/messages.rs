//! The life of a message: sent, seen, received, hidden, back again, gone.

use std::time::Duration;

use super::{LONG, Queue, SHORT, assert_nothing_is_visible, only, receipt, send, take, wait_for_one};

/// A received message has its body and its count, and is gone once deleted.
pub(crate) async fn are_received_and_deleted(queue: Queue) {
    send(&queue, "one").await;
    let message = take(&queue).await;
    assert_eq!(message.body.as_str(), "one");
    assert_eq!(message.dequeue_count, 1);
    queue.delete(&receipt(&message)).await.expect("the receipt is good");
    assert_nothing_is_visible(&queue).await;
}

/// Nobody else sees a message that is worked on, while the others stay visible.
pub(crate) async fn are_hidden_while_they_are_worked_on(queue: Queue) {
    send(&queue, "one").await;
    take(&queue).await;
    assert_nothing_is_visible(&queue).await;
    send(&queue, "two").await;
    assert_eq!(take(&queue).await.body, "two");
    // Not for a moment only: long enough for what is measured in another unit to come back.
    tokio::time::sleep(2 * SHORT).await;
    assert_nothing_is_visible(&queue).await;
}

/// A worker that dies lets its message come back, with a higher count.
pub(crate) async fn come_back_with_a_higher_count(queue: Queue) {
    send(&queue, "one").await;
    let first = only(queue.receive(1, SHORT).await.expect("messages"));
    let again = wait_for_one(&queue).await;
    assert_eq!(&again.id, &first.id);
    assert_eq!(again.body.as_str(), "one");
    assert_eq!(again.dequeue_count, 2);
}

/// A delayed message is not there yet, and comes.
pub(crate) async fn wait_for_their_delay(queue: Queue) {
    queue.send("much later", LONG).await.expect("a legal message");
    assert_nothing_is_visible(&queue).await;
    queue.send("later", SHORT).await.expect("a legal message");
    assert_eq!(wait_for_one(&queue).await.body, "later");
    tokio::time::sleep(2 * SHORT).await;
    assert_nothing_is_visible(&queue).await;
}

/// Whoever sends, looks, receives or renews speaks of one message by one name, and of its copy by another.
pub(crate) async fn keep_their_identity(queue: Queue) {
    let sent = send(&queue, "same").await;
    let seen = only(queue.peek(9).await.expect("messages"));
    let taken = take(&queue).await;
    let renewed = queue.renew(&receipt(&taken), LONG).await.expect("the receipt is good");
    assert_eq!([&seen.id, &taken.id, renewed.id()], [sent.id(); 3]);
    assert_eq!(seen.inserted, taken.inserted);
    assert_ne!(send(&queue, "same").await.id(), sent.id());
}

/// Looking takes nothing, counts nothing, gives no right.
pub(crate) async fn are_not_taken_by_a_peek(queue: Queue) {
    send(&queue, "one").await;
    for _ in 0..2 {
        let seen = only(queue.peek(9).await.expect("messages"));
        assert_eq!(seen.body.as_str(), "one");
        assert_eq!(seen.dequeue_count, 0);
        assert_eq!(&seen.receipt, &None);
    }
    assert_eq!(take(&queue).await.dequeue_count, 1);
}

/// No more than asked for; none is no question.
pub(crate) async fn are_no_more_than_asked_for(queue: Queue) {
    for n in 0..3 {
        send(&queue, &n.to_string()).await;
    }
    assert_eq!(queue.receive(0, LONG).await.expect("messages"), []);
    assert_eq!(queue.peek(0).await.expect("messages"), []);
    assert!(queue.peek(2).await.expect("messages").len() <= 2);
    assert!(queue.receive(2, LONG).await.expect("messages").len() <= 2);
}

/// More may be asked for than any service hands out at once.
pub(crate) async fn may_be_asked_for_in_plenty(queue: Queue) {
    send(&queue, "one").await;
    assert_eq!(only(queue.peek(1000).await.expect("messages")).body, "one");
    assert_eq!(only(queue.receive(1000, LONG).await.expect("messages")).body, "one");
}

/// A renewal to zero gives the message back: the same, and received once more.
pub(crate) async fn can_be_given_back(queue: Queue) {
    send(&queue, "it's <&>").await;
    let taken = take(&queue).await;
    queue.renew(&receipt(&taken), Duration::ZERO).await.expect("the receipt is good");
    let again = wait_for_one(&queue).await;
    assert_eq!(&again.id, &taken.id);
    assert_eq!(again.body.as_str(), "it's <&>");
    assert_eq!(again.dequeue_count, 2);
}
