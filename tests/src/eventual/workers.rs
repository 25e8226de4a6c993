//! Workers: any number of them carry out each transaction once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use table_patterns::eventual::{EventualTransaction, TransactionEventKind, TransactionStatus};
use table_patterns::journal::Acknowledge;
use tokio::sync::oneshot;

use super::{World, employee, finish};

const TRANSACTIONS: usize = 8;

/// Several processes carry out all transactions, and no step runs twice.
pub(crate) async fn share_the_transactions(world: World) {
    let client = world.process().await;
    for n in 0..TRANSACTIONS {
        let transaction = EventualTransaction::new()
            .upsert("archive", world.table("archive"), employee(&n.to_string()))
            .handle("recorder", n.to_string());
        client
            .submit(&transaction, Acknowledge::Committed)
            .await
            .expect("a legal plan");
    }
    let (mut stops, mut workers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (process, (stop, stopped)) = (world.process().await, oneshot::channel::<()>());
        stops.push(stop);
        workers.push(tokio::spawn(async move {
            let stopped = async move { drop(stopped.await) };
            process.run(4, Duration::from_millis(10), stopped).await
        }));
    }
    while world.recorder.calls().len() < TRANSACTIONS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(stops);
    for worker in workers {
        worker.await.expect("a worker").expect("the queue");
    }
    let calls = world.recorder.calls();
    let distinct: BTreeSet<_> = calls.iter().map(|(_, payload)| payload).collect();
    assert_eq!(calls.len(), TRANSACTIONS);
    assert_eq!(distinct.len(), TRANSACTIONS);
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
}

/// A retry does not repeat the steps before the failed step.
pub(crate) async fn continue_at_the_failed_step(world: World) {
    let process = world.process().await;
    let transaction = EventualTransaction::new()
        .upsert(
            "archive",
            world.table("archive"),
            employee("1").with("N", 1),
        )
        .handle("recorder", *b"x")
        .delete_if_exists(world.place("archive", "2"));
    world.recorder.fail(1);
    process
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    while process.run_once(1).await.expect("the queue") == 0 {}
    let error = "service error: the recorder is out of order".to_owned();
    let status = process.status(transaction.id()).await.expect("the table");
    let TransactionStatus::Pending {
        step: 1,
        steps: 3,
        error: Some(found),
    } = status
    else {
        panic!("{status:?}")
    };
    assert!(error.ends_with("out of order"), "{found}");
    assert!(found.ends_with("out of order"), "{found}");
    let key = employee("1").key().clone();
    let delete = table_core::store::Operation::Delete(key, table_core::model::IfMatch::Any);
    world
        .archive
        .write(&world.table("archive"), delete)
        .await
        .expect("the first step ran");
    assert_eq!(
        finish(&process, transaction.id()).await,
        TransactionStatus::Applied
    );
    assert!(
        world.archived("1").await.is_none(),
        "the first step ran again"
    );
}

/// Listeners get all events of a transaction.
pub(crate) async fn report_events_to_listeners(world: World) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = told.clone();
    let process = world.process().await.on_event(move |event| {
        let line = match &event.kind {
            TransactionEventKind::Committed => "committed".to_owned(),
            TransactionEventKind::Claimed { step } => format!("claimed at {step}"),
            TransactionEventKind::Done { step, steps } => format!("done {step} of {steps}"),
            TransactionEventKind::Failed { step, .. } => format!("failed {step}"),
            TransactionEventKind::Applied => "applied".to_owned(),
            other => format!("{other:?}"),
        };
        listener.lock().expect("a listener").push(line);
    });
    let transaction = EventualTransaction::new()
        .handle("recorder", *b"a")
        .handle("recorder", *b"b");
    world.recorder.fail(1);
    process
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    finish(&process, transaction.id()).await;
    process
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    while process.run_once(1).await.expect("the queue") == 0 {}
    let lines = told.lock().expect("a listener").clone();
    let expected = [
        "committed",
        "claimed at 0",
        "failed 0",
        "claimed at 0",
        "done 0 of 2",
        "done 1 of 2",
    ];
    assert_eq!(
        lines,
        [&expected[..], &["applied", "committed", "Repeated"]].concat()
    );
}
