//! Concurrent tasks.

use std::collections::HashSet;
use std::time::Duration;

use table_core::model::{EdmValue, Entity, IfMatch, PartitionKey, TableName, ValueRef};
use table_core::query::{Continuation, Filter, Query};
use table_core::store::{GroupTransaction, Operation, TableStore};
use table_embedded::{Durability, EmbeddedStore};

use crate::support::{Place, entity, insert, key, name};

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
                    let read = store
                        .get(&table, &key("p", "counter"), None)
                        .await
                        .unwrap()
                        .unwrap();
                    let Some(ValueRef::Int32(n)) = read.get("N") else {
                        panic!("not a number")
                    };
                    let etag = read.etag().unwrap().clone();
                    let next = Entity::from(key("p", "counter")).with("N", n + 1);
                    match store
                        .write(&table, Operation::Replace(next, etag.into()))
                        .await
                    {
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
    let read = store
        .get(&table, &key("p", "counter"), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        read.get("N").map(ValueRef::to_owned),
        Some(EdmValue::Int32(TASKS))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refused_write_fails_alone_in_its_commit() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    // Pairs of inserts of the same row: one of each pair succeeds, with its own ETag.
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
    assert_eq!(etags.len(), 64);
    assert_eq!(refused, 64);
}

#[tokio::test]
async fn a_write_with_a_dropped_future_is_applied_or_not_applied() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    {
        let write = store.write(&table, Operation::Insert(entity("p", "1")));
        let mut write = std::pin::pin!(write);
        // One poll passes the write to the writer, which may begin immediately. Then the future is dropped.
        std::future::poll_fn(|context| {
            let _ = write.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    // The next write is decided after it. The dropped write has no effect later.
    let error = store
        .write(&table, Operation::Delete(key("p", "0"), IfMatch::Any))
        .await
        .unwrap_err();
    assert!(error.is_entity_not_found(), "{error}");
    let read = store.get(&table, &key("p", "1"), None).await.unwrap();
    assert!(read.is_none_or(|read| read.properties() == entity("p", "1").properties()));
}

/// The store tries inserts before it decides them. A refused group's inserts are undone and existing rows
/// stay, also if other writes share the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refused_group_of_inserts_leaves_no_trace() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    let kept = insert(&store, &table, "taken").await;
    let tasks: Vec<_> = (0..64)
        .map(|n| {
            let (store, table) = (store.clone(), table.clone());
            tokio::spawn(async move {
                let mut group =
                    GroupTransaction::new(PartitionKey::new("p").unwrap(), store.profile());
                for row in [format!("{n}a"), "taken".to_owned(), format!("{n}b")] {
                    group.push(Operation::Insert(entity("p", &row))).unwrap();
                }
                let refused = store.transact(&table, group).await.unwrap_err();
                assert_eq!(refused.failed_index(), Some(1));
                assert!(refused.is_already_exists(), "{refused}");
                insert(&store, &table, &format!("{n}")).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rows = store
        .query(&table, &Query::new(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap()
        .items;
    let expected: HashSet<_> = (0..64)
        .map(|n| n.to_string())
        .chain(["taken".to_owned()])
        .collect();
    assert_eq!(
        rows.iter()
            .map(|row| row.key().row().to_owned())
            .collect::<HashSet<_>>(),
        expected
    );
    let taken = rows.iter().find(|row| row.key().row() == "taken").unwrap();
    assert_eq!(taken.etag(), Some(&kept));
    assert_eq!(taken.properties(), entity("p", "taken").properties());
}

/// New property names and dropped tables change the interpretation of rows while they are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_one_snapshot_while_names_and_tables_change() {
    const ROUNDS: usize = 30;
    let (place, table) = (Place::new(), name("Shifting"));
    let store = EmbeddedStore::builder(place.path())
        .durability(Durability::Relaxed)
        .open()
        .await
        .unwrap();
    let writer = tokio::spawn({
        let (store, table) = (store.clone(), table.clone());
        async move {
            for n in 0..ROUNDS {
                store.create_table(&table).await.unwrap();
                let mut group =
                    GroupTransaction::new(PartitionKey::new("p").unwrap(), store.profile());
                for row in 0..100 {
                    let named =
                        entity("p", &format!("{row:03}")).with(&format!("N{n}x{}", row % 10), 1);
                    group.push(Operation::Insert(named)).unwrap();
                }
                store.transact(&table, group).await.unwrap();
                store.delete_table(&table).await.unwrap();
            }
        }
    });
    while !writer.is_finished() {
        match store.query(&table, &Query::new(), None).await {
            Ok(found) => assert!(
                [0, 100].contains(&found.page.items.len()),
                "{} rows",
                found.page.items.len()
            ),
            Err(error) => assert!(error.is_table_not_found(), "{error}"),
        }
    }
    writer.await.unwrap();
}

/// Returns how often a millisecond timer fires while tasks only do point reads, which use no other threads.
async fn ticks_beside_readers(readers: usize, by_query: bool) -> usize {
    const READS: usize = 20_000;
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    insert(&store, &table, "1").await;
    let reading: Vec<_> = (0..readers)
        .map(|_| {
            let (store, table) = (store.clone(), table.clone());
            tokio::spawn(async move {
                let point = Query::new()
                    .with_filter("PartitionKey eq 'p' and RowKey eq '1'".parse().unwrap());
                for _ in 0..READS {
                    if by_query {
                        assert_eq!(
                            store
                                .query(&table, &point, None)
                                .await
                                .unwrap()
                                .into_page()
                                .unwrap()
                                .items
                                .len(),
                            1
                        );
                    } else {
                        assert!(
                            store
                                .get(&table, &key("p", "1"), None)
                                .await
                                .unwrap()
                                .is_some()
                        );
                    }
                }
            })
        })
        .collect();
    let mut ticks = 0;
    while reading.iter().any(|reader| !reader.is_finished()) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        ticks += 1;
    }
    for reader in reading {
        reader.await.unwrap();
    }
    ticks
}

/// A task that yields once in 128 reads lets the timer fire thousands of times; a task that never yields,
/// once.
#[tokio::test]
async fn a_timer_fires_during_busy_reads_on_one_thread() {
    for by_query in [false, true] {
        let ticks = ticks_beside_readers(2, by_query).await;
        assert!(ticks > 10, "the timer fired {ticks} times");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_fires_with_more_busy_readers_than_threads() {
    let ticks = ticks_beside_readers(4, false).await;
    assert!(ticks > 10, "the timer fired {ticks} times");
}

/// The rows of a page, without the rest.
async fn page(
    store: &EmbeddedStore,
    table: &TableName,
    query: &Query,
    from: &mut Option<Continuation>,
) -> Vec<String> {
    let page = store
        .query(table, query, from.as_ref())
        .await
        .unwrap()
        .into_page()
        .unwrap();
    *from = page.continuation;
    page.items
        .iter()
        .map(|entity| entity.key().row().to_owned())
        .collect()
}

/// The page after the second one is read ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_as_it_was_when_it_was_asked_for() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    let all: Vec<_> = (0..60).map(|n| format!("{n:03}")).collect();
    for row in &all {
        insert(&store, &table, row).await;
    }
    let query = Query::new()
        .with_filter(Filter::eq(Filter::PARTITION_KEY, "p"))
        .with_top(10);
    for change in [false, true] {
        let (mut from, mut other) = (None, None);
        let mut rows = page(&store, &table, &query, &mut from).await;
        let mut others = page(&store, &table, &query, &mut other).await;
        rows.extend(page(&store, &table, &query, &mut from).await);
        // Long enough that the page is read; the result is the same if it is not.
        tokio::time::sleep(Duration::from_millis(20)).await;
        if change {
            insert(&store, &table, "020a").await;
            store
                .write(&table, Operation::Delete(key("p", "021"), IfMatch::Any))
                .await
                .unwrap();
        }
        while from.is_some() || other.is_some() {
            if from.is_some() {
                rows.extend(page(&store, &table, &query, &mut from).await);
            }
            if other.is_some() {
                others.extend(page(&store, &table, &query, &mut other).await);
            }
        }
        let mut expected = all.clone();
        if change {
            expected.splice(21..22, ["020a".to_owned()]);
        }
        assert_eq!(rows, expected);
        assert_eq!(others, expected);
    }
}
