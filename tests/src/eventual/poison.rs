//! Poisoned transactions: set aside, inspected, put back or discarded.

use table_patterns::eventual::{
    Coordinator, EventualTransaction, PoisonedTransaction, TransactionStatus,
};
use table_patterns::journal::Acknowledge;

use super::{World, employee, finish};

/// Submits a transaction whose second step fails until the transaction is poisoned.
async fn poison_one(world: &World, process: &Coordinator, large: bool) -> PoisonedTransaction {
    let payload = if large {
        vec![7; 100_000]
    } else {
        b"x".to_vec()
    };
    let transaction = EventualTransaction::new()
        .upsert("archive", world.table("archive"), employee("1"))
        .handle("recorder", payload)
        .upsert("archive", world.table("archive"), employee("2"));
    world.recorder.fail(usize::MAX);
    process
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    loop {
        process.run_once(1).await.expect("the queue");
        if let Some(poisoned) = process.poison(9).await.expect("the queue").pop() {
            assert_eq!(poisoned.id, Some(transaction.id()));
            return poisoned;
        }
    }
}

/// A poisoned transaction shows its plan, its progress and its last error.
pub(crate) async fn shows_its_progress_and_error(world: World) {
    let process = world.process().await;
    let poisoned = poison_one(&world, &process, false).await;
    let TransactionStatus::Poisoned {
        step: 1,
        steps: 3,
        error,
    } = poisoned.status
    else {
        panic!("{poisoned:?}")
    };
    assert!(error.contains("out of order"), "{error}");
    assert!(world.archived("1").await.is_some());
    assert!(world.archived("2").await.is_none());
}

/// After the cause is removed, a transaction that is put back continues at the failed step.
pub(crate) async fn continues_when_put_back(world: World) {
    let process = world.process().await;
    for large in [false, true] {
        let poisoned = poison_one(&world, &process, large).await;
        world.recorder.fail(0);
        process
            .requeue(&poisoned)
            .await
            .expect("no other process put the transaction back");
        let id = poisoned.id.expect("a transaction");
        assert_eq!(finish(&process, id).await, TransactionStatus::Applied);
    }
    assert!(world.archived("2").await.is_some());
    assert_eq!(world.recorder.calls().len(), 2);
    assert_eq!(world.pieces().await, 0);
}

/// A discarded transaction is never continued. Its finished steps stay.
pub(crate) async fn is_never_continued_after_a_discard(world: World) {
    let process = world.process().await;
    for large in [false, true] {
        let poisoned = poison_one(&world, &process, large).await;
        world.recorder.fail(0);
        process
            .discard(&poisoned)
            .await
            .expect("no other process put the transaction back");
        let id = poisoned.id.expect("a transaction");
        let status = process.status(id).await.expect("the table");
        assert_eq!(status, TransactionStatus::Discarded { step: 1 });
        assert_eq!(process.run_once(9).await.expect("the queue"), 0);
    }
    assert_eq!(world.recorder.calls().len(), 0);
    assert_eq!(world.pieces().await, 0);
    assert!(world.archived("1").await.is_some());
    assert!(world.archived("2").await.is_none());
}
