//! Acknowledged writes survive reopening, and versions are never reused.

use std::collections::HashSet;

use crate::support::{Place, count, entity, fill, insert, key, name};
use table_core::model::IfMatch;
use table_core::store::{ErrorKind, Operation, TableStore, TableStoreExt};
use table_embedded::{Durability, EmbeddedStore, Reads};

#[tokio::test]
async fn written_rows_exist_after_reopening() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    let etag = insert(&store, &table, "1").await;
    let before = store.get(&table, &key("p", "1"), None).await.unwrap();
    store.close().await.unwrap();

    let store = place.open().await;
    let after = store.get(&table, &key("p", "1"), None).await.unwrap();
    assert_eq!(after, before);
    assert_eq!(after.unwrap().etag(), Some(&etag));
}

#[tokio::test]
async fn a_dropped_store_can_be_reopened_immediately() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    insert(&store, &table, "1").await;
    drop(store);

    assert_eq!(count(&place.open().await, &table).await, 1);
}

#[tokio::test]
async fn etags_are_not_reused_after_delete_and_reopen() {
    let (place, table) = (Place::new(), name("Things"));
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let store = place.open().await;
        store.create_table_if_missing(&table).await.unwrap();
        for _ in 0..3 {
            assert!(seen.insert(insert(&store, &table, "1").await.to_string()));
            store
                .write(&table, Operation::Delete(key("p", "1"), IfMatch::Any))
                .await
                .unwrap();
        }
        store.delete_table(&table).await.unwrap();
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn relaxed_writes_are_visible_immediately_and_close_keeps_them() {
    let (place, table) = (Place::new(), name("Things"));
    let builder = EmbeddedStore::builder(place.path()).durability(Durability::Relaxed);
    let store = builder.open().await.unwrap();
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 1000).await;
    assert_eq!(count(&store, &table).await, 1000);
    store.close().await.unwrap();

    assert_eq!(count(&place.open().await, &table).await, 1000);
}

#[tokio::test]
async fn a_closed_store_refuses_everything_and_changes_nothing() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    store.close().await.unwrap();

    let error = store
        .write(&table, Operation::Insert(entity("p", "1")))
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Storage(_)) && !error.is_ambiguous(),
        "{error}"
    );
    assert!(error.to_string().contains("closed"), "{error}");
    assert!(store.get(&table, &key("p", "1"), None).await.is_err());
    store.close().await.unwrap();
    assert_eq!(count(&place.open().await, &table).await, 0);
}

#[tokio::test]
async fn reads_on_blocking_threads_return_the_same() {
    let (place, table) = (Place::new(), name("Things"));
    let builder = EmbeddedStore::builder(place.path())
        .reads(Reads::Blocking)
        .max_scans(1);
    let store = builder.open().await.unwrap();
    store.create_table(&table).await.unwrap();
    insert(&store, &table, "1").await;
    let read = store
        .get(&table, &key("p", "1"), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.properties(), entity("p", "1").properties());
    assert_eq!(count(&store, &table).await, 1);
}

#[tokio::test]
async fn only_selected_properties_are_returned() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    let wide = entity("p", "1").with("Other", 1);
    store.write(&table, Operation::Insert(wide)).await.unwrap();
    let select = table_core::query::Select::new(["Other"]);
    let read = store
        .get(&table, &key("p", "1"), Some(&select))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        read.properties()
            .iter()
            .map(|p| p.name())
            .collect::<Vec<_>>(),
        ["Other"]
    );
}

/// Returns whether recovery of the file, as a crash right after a write leaves it, scans every page.
async fn recovery_is_long(scan_up_to: u64) -> bool {
    let (place, crashed, table) = (Place::new(), Place::new(), name("Things"));
    let store = EmbeddedStore::builder(place.path())
        .scan_up_to(scan_up_to)
        .open()
        .await
        .unwrap();
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 500).await;
    let image = std::fs::read(place.file()).unwrap();
    std::fs::create_dir(crashed.path()).unwrap();
    std::fs::write(crashed.file(), &image).unwrap();
    assert_eq!(count(&crashed.open().await, &table).await, 500);
    // Flags of the engine: the file was not closed, and its last commit recorded the pages in use with a
    // two-phase commit.
    assert_eq!(image[9] & 2, 2);
    image[9] & 4 == 0
}

#[tokio::test]
async fn above_a_file_size_every_commit_prepares_fast_recovery() {
    assert!(recovery_is_long(u64::MAX).await);
    assert!(!recovery_is_long(0).await);
}
