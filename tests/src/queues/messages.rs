//! The life of a message: sent, peeked, received, hidden, visible again, deleted.

use std::time::Duration;

use super::{
    LONG, Queue, SHORT, assert_nothing_is_visible, only, receipt, send, take, wait_for_one,
};

/// A received message has its body and its receive count. A deleted message is gone.
pub(crate) async fn are_received_and_deleted(queue: Queue) {
    send(&queue, "one").await;
    let message = take(&queue).await;
    assert_eq!(message.body.as_str(), "one");
    assert_eq!(message.dequeue_count, 1);
    queue
        .delete(&receipt(&message))
        .await
        .expect("the receipt is valid");
    assert_nothing_is_visible(&queue).await;
}

/// A received message is hidden from other workers; all other messages stay visible.
pub(crate) async fn a_received_message_is_hidden(queue: Queue) {
    send(&queue, "one").await;
    take(&queue).await;
    assert_nothing_is_visible(&queue).await;
    send(&queue, "two").await;
    assert_eq!(take(&queue).await.body, "two");
    // Long enough to detect a visibility timeout in a wrong unit.
    tokio::time::sleep(2 * SHORT).await;
    assert_nothing_is_visible(&queue).await;
}

/// The message of a crashed worker becomes visible again, with a higher receive count.
pub(crate) async fn become_visible_again_with_a_higher_count(queue: Queue) {
    send(&queue, "one").await;
    let first = only(queue.receive(1, SHORT).await.expect("messages"));
    let again = wait_for_one(&queue).await;
    assert_eq!(&again.id, &first.id);
    assert_eq!(again.body.as_str(), "one");
    assert_eq!(again.dequeue_count, 2);
}

/// A delayed message is invisible until its delay ends.
pub(crate) async fn are_invisible_until_their_delay_ends(queue: Queue) {
    queue
        .send("much later", LONG)
        .await
        .expect("a legal message");
    assert_nothing_is_visible(&queue).await;
    queue.send("later", SHORT).await.expect("a legal message");
    assert_eq!(wait_for_one(&queue).await.body, "later");
    tokio::time::sleep(2 * SHORT).await;
    assert_nothing_is_visible(&queue).await;
}

/// Send, peek, receive and renew return the same id for one message, and another id for a second message with
/// the same body.
pub(crate) async fn keep_their_id(queue: Queue) {
    let sent = send(&queue, "same").await;
    let seen = only(queue.peek(9).await.expect("messages"));
    let taken = take(&queue).await;
    let renewed = queue
        .renew(&receipt(&taken), LONG)
        .await
        .expect("the receipt is valid");
    assert_eq!([&seen.id, &taken.id, renewed.id()], [sent.id(); 3]);
    assert_eq!(seen.inserted, taken.inserted);
    assert_ne!(send(&queue, "same").await.id(), sent.id());
}

/// A peek does not hide the message, does not count, and returns no receipt.
pub(crate) async fn are_not_hidden_by_a_peek(queue: Queue) {
    send(&queue, "one").await;
    for _ in 0..2 {
        let seen = only(queue.peek(9).await.expect("messages"));
        assert_eq!(seen.body.as_str(), "one");
        assert_eq!(seen.dequeue_count, 0);
        assert_eq!(&seen.receipt, &None);
    }
    assert_eq!(take(&queue).await.dequeue_count, 1);
}

/// A receive or peek returns at most the requested number of messages; zero returns none.
pub(crate) async fn a_receive_returns_at_most_the_requested_number(queue: Queue) {
    for n in 0..3 {
        send(&queue, &n.to_string()).await;
    }
    assert_eq!(queue.receive(0, LONG).await.expect("messages"), []);
    assert_eq!(queue.peek(0).await.expect("messages"), []);
    assert!(queue.peek(2).await.expect("messages").len() <= 2);
    assert!(queue.receive(2, LONG).await.expect("messages").len() <= 2);
}

/// A receive can ask for more messages than any service returns at once.
pub(crate) async fn a_receive_can_ask_for_many_messages(queue: Queue) {
    send(&queue, "one").await;
    assert_eq!(only(queue.peek(1000).await.expect("messages")).body, "one");
    assert_eq!(
        only(queue.receive(1000, LONG).await.expect("messages")).body,
        "one"
    );
}

/// A renewal with a timeout of zero makes the message visible; its next receive counts once more.
pub(crate) async fn a_renewal_to_zero_makes_a_message_visible(queue: Queue) {
    send(&queue, "it's <&>").await;
    let taken = take(&queue).await;
    queue
        .renew(&receipt(&taken), Duration::ZERO)
        .await
        .expect("the receipt is valid");
    let again = wait_for_one(&queue).await;
    assert_eq!(&again.id, &taken.id);
    assert_eq!(again.body.as_str(), "it's <&>");
    assert_eq!(again.dequeue_count, 2);
}
