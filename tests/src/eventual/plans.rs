//! Plans: their maximum size, and the plans that are refused.

use table_core::model::Key;
use table_core::queue::MESSAGE_BYTES;
use table_patterns::eventual::{
    EventualTransaction, Place, TransactionId, TransactionProgress, TransactionStatus,
};
use table_patterns::journal::Acknowledge;
use uuid::Uuid;

use super::{World, employee, finish};

fn large(world: &World) -> EventualTransaction {
    // Several pieces of one megabyte, stored as base64.
    let bytes = (0..1_600_000u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect::<Vec<_>>();
    EventualTransaction::new()
        .put_blob("photos", "large", bytes)
        .upsert(
            "archive",
            world.table("archive"),
            employee("1").with("Large", true),
        )
}

/// A plan that is too large for a message is stored in rows, carried out, and removed.
pub(crate) async fn larger_than_a_message_are_stored_until_finished(world: World) {
    let process = world.process().await;
    let transaction = large(&world);
    let submitted = process
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    assert_eq!(submitted.progress, TransactionProgress::Pending);
    assert!(world.pieces().await > 1);
    let pending = TransactionStatus::Pending {
        step: 0,
        steps: 2,
        error: None,
    };
    assert_eq!(
        process.status(transaction.id()).await.expect("the table"),
        pending
    );
    assert_eq!(
        finish(&process, transaction.id()).await,
        TransactionStatus::Applied
    );
    assert!(world.archived("1").await.is_some());
    assert_eq!(world.pieces().await, 0);
}

/// The process that submits a large plan carries it out.
pub(crate) async fn larger_than_a_message_are_carried_out_by_the_submitter(world: World) {
    let process = world.process().await;
    let submitted = process
        .submit(&large(&world), Acknowledge::Applied)
        .await
        .expect("a legal plan");
    assert_eq!(submitted.progress, TransactionProgress::Applied);
    assert_eq!(world.pieces().await, 0);
    assert_eq!(process.run_once(9).await.expect("the queue"), 0);
}

/// A plan with exactly the size of a message is sent in the message. A plan with one more byte is stored in
/// rows.
pub(crate) async fn fit_a_message_to_the_byte(world: World) {
    let process = world.process().await;
    for stored in [false, true] {
        let of = |n: usize| EventualTransaction::new().delete_blob("photos", "b".repeat(n));
        // The length of the text around the path, from a plan with a path of one character.
        let around = 100 + "photos".len();
        let n = (MESSAGE_BYTES - around..MESSAGE_BYTES)
            .find(|n| text_len(*n) == MESSAGE_BYTES)
            .expect("a length");
        process
            .submit(&of(n + usize::from(stored)), Acknowledge::Committed)
            .await
            .expect("a legal plan");
        assert_eq!(world.pieces().await > 0, stored);
    }
}

fn text_len(path: usize) -> usize {
    let around = r#"{"id":"00000000-0000-0000-0000-000000000000","steps":[{"do":"delete_blob","blobs":"photos","path":""}]}"#;
    around.len() + path
}

/// A plan that cannot succeed is refused, and no part of it is sent.
pub(crate) async fn that_cannot_succeed_are_refused(world: World) {
    let process = world.process().await;
    let (table, here) = (world.table("current"), world.place("current", "1"));
    let elsewhere = Place::new(
        "elsewhere",
        table.clone(),
        Key::new("a", "b").expect("a legal key"),
    );
    let secret = employee("1").with_encrypted("Secret", "x");
    let oversize = employee("1").with("Text", "x".repeat(40_000));
    let new = EventualTransaction::new;
    for (refused, reason) in [
        (new(), "has no step"),
        (
            new().delete_if_exists(elsewhere.clone()),
            "this process has no store named 'elsewhere'",
        ),
        (
            new().move_entity(here.clone(), elsewhere),
            "this process has no store named 'elsewhere'",
        ),
        (
            new().move_entity(here.clone(), here),
            "has the same source and target",
        ),
        (
            new().handle("nobody", *b""),
            "this process has no handler named 'nobody'",
        ),
        (
            new().delete_blob("nowhere", "x"),
            "this process has no blob store named 'nowhere'",
        ),
        (
            new().delete_blob("photos", "a//b"),
            "is not a valid blob path",
        ),
        (new().upsert("current", table.clone(), secret), "Secret"),
        (new().upsert("archive", table.clone(), oversize), "Text"),
        (
            new().together(|steps| {
                let again = steps.upsert("current", table.clone(), employee("1"));
                again
                    .handle("recorder", *b"")
                    .delete_if_exists(world.place("current", "1"))
            }),
            "two steps that are done at the same time write",
        ),
        (
            new().together(|steps| {
                steps
                    .put_blob("photos", "x", *b"1")
                    .delete_blob("photos", "x")
            }),
            "two steps that are done at the same time write",
        ),
    ] {
        let error = process
            .submit(&refused, Acknowledge::Committed)
            .await
            .expect_err(reason);
        assert!(error.to_string().contains(reason), "{reason}: {error}");
    }
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
}

/// A transaction that is submitted twice is carried out once. Another plan under the same id is refused.
pub(crate) async fn submitted_twice_are_carried_out_once(world: World) {
    let process = world.process().await;
    let id = TransactionId::from_uuid(Uuid::new_v4());
    let transaction = EventualTransaction::with_id(id).handle("recorder", *b"once");
    for _ in 0..2 {
        let submitted = process
            .submit(&transaction, Acknowledge::Applied)
            .await
            .expect("a legal plan");
        assert_eq!(submitted.progress, TransactionProgress::Applied);
    }
    process
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    process.run_once(9).await.expect("the queue");
    assert_eq!(world.recorder.calls().len(), 1);
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
}
