//! Receipts: good until anyone else touches the message, void ever after.

use futures_util::future::join_all;

use super::{
    LONG, Queue, SHORT, assert_nothing_is_visible, assert_void, only, receipt, send, take, wait_for_one,
};

/// The sender can take its message back, even while it is delayed.
pub(crate) async fn let_the_sender_take_a_message_back(queue: Queue) {
    queue.delete(&send(&queue, "one").await).await.expect("the receipt is good");
    let delayed = queue.send("later", LONG).await.expect("a legal message");
    queue.delete(&delayed).await.expect("the receipt is good");
    assert_void(&queue, &delayed).await;
    assert_nothing_is_visible(&queue).await;
}

/// The sender has no right to a message that is worked on; the worker keeps its own.
pub(crate) async fn of_the_sender_are_void_once_received(queue: Queue) {
    let sent = send(&queue, "one").await;
    let taken = take(&queue).await;
    assert_void(&queue, &sent).await;
    queue.delete(&receipt(&taken)).await.expect("the receipt is good");
}

/// A worker that was too slow can neither delete nor keep what another works on.
pub(crate) async fn are_void_once_another_received(queue: Queue) {
    send(&queue, "one").await;
    let slow = only(queue.receive(1, SHORT).await.expect("messages"));
    let quick = wait_for_one(&queue).await;
    assert_void(&queue, &receipt(&slow)).await;
    queue.delete(&receipt(&quick)).await.expect("the receipt is good");
}

/// A renewal gives a new receipt and voids the one it was given.
pub(crate) async fn are_void_once_renewed(queue: Queue) {
    send(&queue, "one").await;
    let old = receipt(&take(&queue).await);
    let new = queue.renew(&old, LONG).await.expect("the receipt is good");
    assert_void(&queue, &old).await;
    queue.delete(&new).await.expect("the receipt is good");
}

/// A message that is gone cannot be deleted again or brought back.
pub(crate) async fn are_void_once_deleted(queue: Queue) {
    send(&queue, "one").await;
    let done = receipt(&take(&queue).await);
    queue.delete(&done).await.expect("the receipt is good");
    assert_void(&queue, &done).await;
    assert_nothing_is_visible(&queue).await;
}

/// A renewal outlasts the visibility that it replaces, and does not count as a receive.
pub(crate) async fn hide_the_message_on_when_renewed(queue: Queue) {
    send(&queue, "one").await;
    let first = only(queue.receive(1, SHORT).await.expect("messages"));
    let renewed = queue.renew(&receipt(&first), LONG).await.expect("nobody else received it");
    tokio::time::sleep(2 * SHORT).await;
    assert_nothing_is_visible(&queue).await;
    queue.renew(&renewed, SHORT).await.expect("the receipt is good");
    assert_eq!(wait_for_one(&queue).await.dequeue_count, 2);
}

/// Of all that delete by one receipt at once, one succeeds.
pub(crate) async fn delete_once(queue: Queue) {
    send(&queue, "one").await;
    let shared = receipt(&take(&queue).await);
    let outcomes = join_all((0..8).map(|_| queue.delete(&shared))).await;
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(done.len(), 1);
    let errors = refused.into_iter().filter_map(Result::err);
    errors.for_each(|error| assert!(error.is_precondition_failed(), "{error}"));
}
