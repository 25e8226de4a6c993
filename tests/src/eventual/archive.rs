//! The example of the guide: employees move from the table *Current* to the table *Archive* in another store.

use std::time::Duration;

use table_core::model::ValueRef;
use table_core::store::{Operation, TableStore};
use table_patterns::eventual::{TransactionProgress, TransactionStatus};
use table_patterns::journal::Acknowledge;

use super::{World, employee, finish, properties};

/// One process commits the move, another process carries it out.
pub(crate) async fn a_worker_carries_out_the_move(world: World) {
    let (client, worker) = (world.process().await, world.process().await);
    let ken = world.hire("456").await;
    let transaction = world.archiving("456");
    let submitted = client
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    assert_eq!(submitted.id, transaction.id());
    assert_eq!(submitted.progress, TransactionProgress::Pending);
    assert_eq!(
        finish(&worker, submitted.id).await,
        TransactionStatus::Applied
    );
    assert_eq!(properties(world.archived("456").await), *ken.properties());
    assert!(world.current("456").await.is_none());
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
}

/// The process that commits the move carries it out. The answer says so, and no message is left.
pub(crate) async fn the_submitter_carries_out_the_move(world: World) {
    let client = world.process().await;
    let ken = world.hire("456").await;
    let submitted = client
        .submit(&world.archiving("456"), Acknowledge::Applied)
        .await
        .expect("a legal plan");
    assert_eq!(submitted.progress, TransactionProgress::Applied);
    assert_eq!(
        client.status(submitted.id).await.expect("the table"),
        TransactionStatus::Applied
    );
    assert_eq!(properties(world.archived("456").await), *ken.properties());
    assert!(world.current("456").await.is_none());
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
    assert_eq!(client.run_once(9).await.expect("the queue"), 0);
}

/// A move of a missing employee is refused, and nothing is written.
pub(crate) async fn a_move_of_a_missing_entity_is_refused(world: World) {
    let client = world.process().await;
    let refused = client
        .submit(&world.archiving("456"), Acknowledge::Applied)
        .await
        .expect_err("nobody");
    assert!(refused.is_entity_not_found(), "{refused}");
    assert!(!refused.is_ambiguous(), "{refused}");
    assert!(world.archived("456").await.is_none());
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
}

/// Other writers change the employee during the move. The archive has every acknowledged change.
pub(crate) async fn a_move_includes_concurrent_changes(world: World) {
    let worker = world.process().await;
    world.hire("456").await;
    let transaction = world.archiving("456");
    worker
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    let (status, raises) = futures_util::join!(finish(&worker, transaction.id()), raise(&world));
    assert_eq!(status, TransactionStatus::Applied);
    let archived = properties(world.archived("456").await);
    assert_eq!(archived.get("Age"), Some(ValueRef::Int32(30 + raises)));
}

/// Adds up to 30 years while the employee exists. Returns the number of added years.
async fn raise(world: &World) -> i32 {
    let mut raises = 0;
    while raises < 30 {
        let Some(ken) = world.current("456").await else {
            break;
        };
        let older = employee("456").with("Age", 30 + raises + 1);
        let condition = ken.etag().expect("an ETag").into();
        match world
            .current
            .write(
                &world.table("current"),
                Operation::Replace(older, condition),
            )
            .await
        {
            Ok(_) => raises += 1,
            Err(error) => assert!(error.is_entity_not_found(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    raises
}
