//! Merges of encrypted properties read and write: no concurrent update is lost.

use table_core::model::{Entity, IfMatch, ValueRef};
use table_core::store::Operation;
use tokio::task::JoinSet;

use super::{TableViews, key};
use crate::Harness;

fn counter() -> Entity {
    Entity::from(key("p", "counter"))
}

/// A merge encrypts the stored properties again. It must not write values of an outdated read.
pub(crate) async fn merges_of_different_properties_all_take_effect(harness: &Harness) {
    let tasks = harness.scale().tasks.min(16);
    let table = TableViews::with(harness, |b, _| b.with_attempts(1000)).await;
    let mut all = JoinSet::new();
    for n in 0..tasks {
        let clear = table.clear.clone();
        all.spawn(async move {
            let patch = counter().with_encrypted(&format!("P{n}"), n as i32);
            clear.put(Operation::InsertOrMerge(patch)).await;
        });
    }
    all.join_all().await;
    let read = table.clear.existing(counter().key()).await;
    assert_eq!(read.properties().len(), tasks);
    assert!(read.properties().iter().all(|p| p.is_encrypted()));
}

/// Of two merges under the same ETag, the second is refused.
pub(crate) async fn counters_lose_no_update(harness: &Harness) {
    let tasks = harness.scale().tasks.min(8);
    let table = TableViews::new(harness).await;
    table.clear.insert(counter().with_encrypted("N", 0)).await;
    let mut all = JoinSet::new();
    for _ in 0..tasks {
        let clear = table.clear.clone();
        all.spawn(async move {
            loop {
                let read = clear.existing(counter().key()).await;
                let Some(ValueRef::Int32(n)) = read.get("N") else {
                    panic!("{read:?}")
                };
                let version = IfMatch::from(read.etag().expect("a version"));
                match clear
                    .write(Operation::Merge(
                        counter().with_encrypted("N", n + 1),
                        version,
                    ))
                    .await
                {
                    Ok(_) => return,
                    Err(e) => assert!(e.is_precondition_failed(), "{e}"),
                }
            }
        });
    }
    all.join_all().await;
    assert_eq!(
        table.clear.existing(counter().key()).await.get("N"),
        Some(ValueRef::Int32(tasks as i32))
    );
}

/// A group is prepared again when another writer changes one of its entities.
pub(crate) async fn groups_with_merges_lose_no_update(harness: &Harness) {
    let tasks = harness.scale().tasks.min(8);
    let table = TableViews::with(harness, |b, _| b.with_attempts(1000)).await;
    let mut all = JoinSet::new();
    for n in 0..tasks {
        let clear = table.clear.clone();
        all.spawn(async move {
            let patch = |row: &str| {
                Operation::InsertOrMerge(
                    Entity::from(key("p", row)).with_encrypted(&format!("P{n}"), true),
                )
            };
            clear
                .transact("p", vec![patch("a"), patch("b")])
                .await
                .expect("a group");
        });
    }
    all.join_all().await;
    for row in ["a", "b"] {
        assert_eq!(
            table
                .clear
                .existing(&key("p", row))
                .await
                .properties()
                .len(),
            tasks
        );
    }
}
