//! The effect of each kind of step, and the order of steps.

use object_store::ObjectStoreExt;
use object_store::path::Path;
use table_core::model::{IfMatch, ValueRef};
use table_core::store::Operation;
use table_patterns::eventual::{
    EventualTransaction, StepId, TransactionProgress, TransactionStatus,
};
use table_patterns::journal::Acknowledge;

use super::{World, employee, finish, properties};

async fn apply(world: &World, transaction: &EventualTransaction) {
    let submitted = world
        .process()
        .await
        .submit(transaction, Acknowledge::Applied)
        .await;
    assert_eq!(
        submitted.expect("a legal plan").progress,
        TransactionProgress::Applied
    );
}

/// The last step on an entity decides its state.
pub(crate) async fn are_carried_out_in_order(world: World) {
    let table = world.table("archive");
    let write = |n: i32| employee("1").with("N", n);
    let transaction = EventualTransaction::new()
        .upsert("archive", table.clone(), write(1))
        .delete_if_exists(world.place("archive", "1"))
        .upsert("archive", table.clone(), write(2).with("Old", true))
        .upsert("archive", table.clone(), write(3))
        .upsert_merge("archive", table, employee("1").with("More", "x"));
    apply(&world, &transaction).await;
    let left = properties(world.archived("1").await);
    assert_eq!(left.get("N"), Some(ValueRef::Int32(3)));
    assert_eq!(left.get("More"), Some(ValueRef::String("x")));
    assert_eq!(left.get("Old"), None);
}

/// Steps that are declared together are all done before the next step, and all of them again after a failure.
pub(crate) async fn together_are_carried_out_before_the_next(world: World) {
    let process = world.process().await;
    let table = world.table("archive");
    let transaction = EventualTransaction::new()
        .together(|steps| {
            steps
                .upsert("archive", table.clone(), employee("1").with("N", 1))
                .upsert("archive", table.clone(), employee("2").with("N", 1))
                .put_blob("photos", "photos/1.png", *b"first")
                .handle("recorder", *b"a")
        })
        .upsert_merge("archive", table, employee("1").with("M", 2))
        .handle("recorder", *b"b");
    world.recorder.fail(1);
    process
        .submit(&transaction, Acknowledge::Committed)
        .await
        .expect("a legal plan");
    while process.run_once(1).await.expect("the queue") == 0 {}
    let status = process.status(transaction.id()).await.expect("the table");
    assert!(
        matches!(
            status,
            TransactionStatus::Pending {
                step: 0,
                steps: 6,
                error: Some(_)
            }
        ),
        "{status:?}"
    );
    let delete = Operation::Delete(employee("2").key().clone(), IfMatch::Any);
    world
        .archive
        .write(&world.table("archive"), delete)
        .await
        .expect("the second step ran");
    assert_eq!(
        finish(&process, transaction.id()).await,
        TransactionStatus::Applied
    );
    assert_eq!(
        properties(world.archived("1").await).get("M"),
        Some(ValueRef::Int32(2))
    );
    assert!(
        world.archived("2").await.is_some(),
        "the steps of the stage ran again"
    );
    assert!(
        world.blobs.get(&Path::from("photos/1.png")).await.is_ok(),
        "the blob"
    );
    let id = |step| StepId {
        transaction: transaction.id(),
        step,
    };
    assert_eq!(
        world.recorder.calls(),
        [(id(3), b"a".to_vec()), (id(5), b"b".to_vec())]
    );
}

/// A replace step replaces an existing entity. A deleted entity stays deleted.
pub(crate) async fn replace_only_existing_entities(world: World) {
    world.hire("1").await;
    let table = world.table("current");
    let transaction = EventualTransaction::new()
        .replace_if_exists("current", table.clone(), employee("1").with("Name", "Kim"))
        .replace_if_exists("current", table, employee("2").with("Name", "Kim"));
    apply(&world, &transaction).await;
    let replaced = properties(world.current("1").await);
    assert_eq!(replaced.len(), 1);
    assert_eq!(replaced.get("Name"), Some(ValueRef::String("Kim")));
    assert!(world.current("2").await.is_none());
}

/// A step can move an entity within its table.
pub(crate) async fn move_to_another_key(world: World) {
    let ken = world.hire("1").await;
    let (from, to) = (world.place("current", "1"), world.place("current", "2"));
    apply(&world, &EventualTransaction::new().move_entity(from, to)).await;
    assert!(world.current("1").await.is_none());
    assert_eq!(properties(world.current("2").await), *ken.properties());
}

/// Steps write and delete blobs. The deletion of a missing blob succeeds.
pub(crate) async fn write_and_remove_blobs(world: World) {
    let photo = Path::from("photos/456.png");
    let put = EventualTransaction::new()
        .put_blob("photos", "photos/456.png", *b"first")
        .put_blob("photos", "photos/456.png", *b"second")
        .delete_blob("photos", "photos/none.png");
    apply(&world, &put).await;
    let stored = world
        .blobs
        .get(&photo)
        .await
        .expect("a blob")
        .bytes()
        .await
        .expect("its bytes");
    assert_eq!(&stored[..], b"second");
    apply(
        &world,
        &EventualTransaction::new().delete_blob("photos", "photos/456.png"),
    )
    .await;
    assert!(matches!(
        world.blobs.get(&photo).await,
        Err(object_store::Error::NotFound { .. })
    ));
}

/// A handler gets its payload, and a step id by which it detects a repetition.
pub(crate) async fn call_handlers(world: World) {
    let transaction = EventualTransaction::new()
        .handle("recorder", *b"a")
        .handle("recorder", *b"\xFF");
    apply(&world, &transaction).await;
    let id = |step| StepId {
        transaction: transaction.id(),
        step,
    };
    assert_eq!(
        world.recorder.calls(),
        [(id(0), b"a".to_vec()), (id(1), b"\xFF".to_vec())]
    );
}
