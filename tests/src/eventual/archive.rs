//! The guide's example: employees go from the table *Current* to the table *Archive*, in another store.

use std::time::Duration;

use table_core::model::ValueRef;
use table_core::store::{Operation, TableStore};
use table_patterns::eventual::{TransactionProgress, TransactionStatus};
use table_patterns::journal::Acknowledge;

use super::{World, employee, finish, properties};

/// Committed by one process, done by another.
pub(crate) async fn is_filled_by_a_worker(world: World) {
    let (client, worker) = (world.process().await, world.process().await);
    let ken = world.hire("456").await;
    let transaction = world.archiving("456");
    let submitted = client.submit(&transaction, Acknowledge::Committed).await.expect("a legal plan");
    assert_eq!(submitted.id, transaction.id());
    assert_eq!(submitted.progress, TransactionProgress::Pending);
    assert_eq!(finish(&worker, submitted.id).await, TransactionStatus::Applied);
    assert_eq!(properties(world.archived("456").await), *ken.properties());
    assert!(world.current("456").await.is_none());
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
}

/// Done by the process that committed it: the answer says so, and no message is left.
pub(crate) async fn is_filled_by_the_submitter(world: World) {
    let client = world.process().await;
    let ken = world.hire("456").await;
    let submitted = client.submit(&world.archiving("456"), Acknowledge::Applied).await.expect("a legal plan");
    assert_eq!(submitted.progress, TransactionProgress::Applied);
    assert_eq!(client.status(submitted.id).await.expect("the table"), TransactionStatus::Applied);
    assert_eq!(properties(world.archived("456").await), *ken.properties());
    assert!(world.current("456").await.is_none());
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
    assert_eq!(client.run_once(9).await.expect("the queue"), 0);
}

/// Who is not there cannot be archived: the plan is refused, and nothing is written.
pub(crate) async fn is_left_alone_where_nobody_is(world: World) {
    let client = world.process().await;
    let refused = client.submit(&world.archiving("456"), Acknowledge::Applied).await.expect_err("nobody");
    assert!(refused.is_entity_not_found() && !refused.is_ambiguous(), "{refused}");
    assert!(world.archived("456").await.is_none());
    assert_eq!(world.queue.peek(9).await.expect("messages"), []);
}

/// Changes go on while the employee is moved: every one that was acknowledged is in the archive.
pub(crate) async fn gets_every_change_made_meanwhile(world: World) {
    let worker = world.process().await;
    world.hire("456").await;
    let transaction = world.archiving("456");
    worker.submit(&transaction, Acknowledge::Committed).await.expect("a legal plan");
    let (status, raises) = futures_util::join!(finish(&worker, transaction.id()), raise(&world));
    assert_eq!(status, TransactionStatus::Applied);
    let archived = properties(world.archived("456").await);
    assert_eq!(archived.get("Age"), Some(ValueRef::Int32(30 + raises)));
}

/// Adds up to 30 years while the employee is there; how many.
async fn raise(world: &World) -> i32 {
    let mut raises = 0;
    while raises < 30 {
        let Some(ken) = world.current("456").await else { break };
        let older = employee("456").with("Age", 30 + raises + 1);
        let condition = ken.etag().expect("an ETag").into();
        match world.current.write(&world.table("current"), Operation::Replace(older, condition)).await {
            Ok(_) => raises += 1,
            Err(error) => assert!(error.is_entity_not_found(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    raises
}
