//! Receipts: valid until another caller receives, renews or deletes the message.

use futures_util::future::join_all;

use super::{
    LONG, Queue, SHORT, assert_nothing_is_visible, assert_void, only, receipt, send, take,
    wait_for_one,
};

/// The receipt of a send deletes the message, also during its delay.
pub(crate) async fn the_receipt_of_a_send_deletes_the_message(queue: Queue) {
    queue
        .delete(&send(&queue, "one").await)
        .await
        .expect("the receipt is valid");
    let delayed = queue.send("later", LONG).await.expect("a legal message");
    queue.delete(&delayed).await.expect("the receipt is valid");
    assert_void(&queue, &delayed).await;
    assert_nothing_is_visible(&queue).await;
}

/// The receipt of a send is invalid after a receive. The receipt of the worker stays valid.
pub(crate) async fn the_receipt_of_a_send_is_invalid_after_a_receive(queue: Queue) {
    let sent = send(&queue, "one").await;
    let taken = take(&queue).await;
    assert_void(&queue, &sent).await;
    queue
        .delete(&receipt(&taken))
        .await
        .expect("the receipt is valid");
}

/// A receipt is invalid after another worker received the message: it neither deletes nor renews.
pub(crate) async fn are_invalid_after_another_receive(queue: Queue) {
    send(&queue, "one").await;
    let slow = only(queue.receive(1, SHORT).await.expect("messages"));
    let quick = wait_for_one(&queue).await;
    assert_void(&queue, &receipt(&slow)).await;
    queue
        .delete(&receipt(&quick))
        .await
        .expect("the receipt is valid");
}

/// A renewal returns a new receipt and invalidates the old one.
pub(crate) async fn are_invalid_after_a_renewal(queue: Queue) {
    send(&queue, "one").await;
    let old = receipt(&take(&queue).await);
    let new = queue.renew(&old, LONG).await.expect("the receipt is valid");
    assert_void(&queue, &old).await;
    queue.delete(&new).await.expect("the receipt is valid");
}

/// A deleted message can be neither deleted again nor renewed.
pub(crate) async fn are_invalid_after_a_deletion(queue: Queue) {
    send(&queue, "one").await;
    let done = receipt(&take(&queue).await);
    queue.delete(&done).await.expect("the receipt is valid");
    assert_void(&queue, &done).await;
    assert_nothing_is_visible(&queue).await;
}

/// A renewal extends the visibility timeout and is not counted as a receive.
pub(crate) async fn a_renewal_extends_the_visibility_timeout(queue: Queue) {
    send(&queue, "one").await;
    let first = only(queue.receive(1, SHORT).await.expect("messages"));
    let renewed = queue
        .renew(&receipt(&first), LONG)
        .await
        .expect("no other worker received the message");
    tokio::time::sleep(2 * SHORT).await;
    assert_nothing_is_visible(&queue).await;
    queue
        .renew(&renewed, SHORT)
        .await
        .expect("the receipt is valid");
    assert_eq!(wait_for_one(&queue).await.dequeue_count, 2);
}

/// Of several concurrent deletes with one receipt, exactly one succeeds.
pub(crate) async fn one_of_several_concurrent_deletes_succeeds(queue: Queue) {
    send(&queue, "one").await;
    let shared = receipt(&take(&queue).await);
    let outcomes = join_all((0..8).map(|_| queue.delete(&shared))).await;
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(done.len(), 1);
    let errors = refused.into_iter().filter_map(Result::err);
    errors.for_each(|error| assert!(error.is_precondition_failed(), "{error}"));
}
