//! Many tasks at once.

use std::collections::HashSet;

use table_core::model::{EdmValue, Entity, IfMatch, ValueRef};
use table_core::store::{Operation, TableStore};

use crate::support::{Place, entity, key, name};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_increment_is_lost_under_contention() {
    const TASKS: i32 = 64;
    let (place, table) = (Place::new(), name("Counters"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    let zero = Entity::new("p", "counter").unwrap().with("N", 0);
    store.write(&table, Operation::Insert(zero)).await.unwrap();

    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (store, table) = (store.clone(), table.clone());
            tokio::spawn(async move {
                loop {
                    let read = store.get(&table, &key("p", "counter"), None).await.unwrap().unwrap();
                    let Some(ValueRef::Int32(n)) = read.get("N") else { panic!("not a number") };
                    let etag = read.etag().unwrap().clone();
                    let next = Entity::from(key("p", "counter")).with("N", n + 1);
                    match store.write(&table, Operation::Replace(next, etag.into())).await {
                        Ok(_) => return,
                        Err(e) => assert!(e.is_precondition_failed(), "{e}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let read = store.get(&table, &key("p", "counter"), None).await.unwrap().unwrap();
    assert_eq!(read.get("N").map(ValueRef::to_owned), Some(EdmValue::Int32(TASKS)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refused_write_fails_alone_in_its_commit() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    // Pairs of inserts of the same row: one of each wins, with an ETag of its own.
    let tasks: Vec<_> = (0..128)
        .map(|n| {
            let (store, table) = (store.clone(), table.clone());
            let insert = Operation::Insert(entity("p", &format!("{}", n / 2)));
            tokio::spawn(async move { store.write(&table, insert).await })
        })
        .collect();
    let (mut etags, mut refused) = (HashSet::new(), 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(written) => assert!(etags.insert(written.etag.unwrap().to_string())),
            Err(e) => {
                assert!(e.is_already_exists() && !e.is_ambiguous(), "{e}");
                refused += 1;
            }
        }
    }
    assert_eq!((etags.len(), refused), (64, 64));
}

#[tokio::test]
async fn a_dropped_future_leaves_its_write_done_or_undone() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    {
        let write = store.write(&table, Operation::Insert(entity("p", "1")));
        let mut write = std::pin::pin!(write);
        // One poll hands it to the writer; then nobody waits for the answer.
        std::future::poll_fn(|context| {
            let _ = write.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    // The next write is decided after it.
    let error = store.write(&table, Operation::Delete(key("p", "0"), IfMatch::Any)).await.unwrap_err();
    assert!(error.is_entity_not_found(), "{error}");
    let read = store.get(&table, &key("p", "1"), None).await.unwrap();
    assert_eq!(read.unwrap().properties(), entity("p", "1").properties());
}
