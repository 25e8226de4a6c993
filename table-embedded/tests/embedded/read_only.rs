//! Stores that are opened read-only.

use std::fs;

use table_core::model::IfMatch;
use table_core::store::{ErrorKind, Operation, TableStore};
use table_embedded::EmbeddedStore;

use crate::support::{Place, count, entity, fill, key, name};

async fn reader(place: &Place) -> EmbeddedStore {
    EmbeddedStore::builder(place.path())
        .read_only()
        .open()
        .await
        .unwrap()
}

async fn filled() -> Place {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 1000).await;
    store.close().await.unwrap();
    place
}

#[tokio::test]
async fn readers_share_the_store_and_exclude_writers() {
    let (place, table) = (filled().await, name("Things"));
    let before = fs::read(place.file()).unwrap();
    let (first, second) = (reader(&place).await, reader(&place).await);
    for store in [&first, &second] {
        assert_eq!(count(store, &table).await, 1000);
        assert!(
            store
                .get(&table, &key("p", "0000007"), None)
                .await
                .unwrap()
                .is_some()
        );
    }
    let error = EmbeddedStore::open(place.path()).await.unwrap_err();
    assert!(error.to_string().contains("is already open"), "{error}");
    first.backup(place.other("copy")).await.unwrap();
    first.close().await.unwrap();
    second.close().await.unwrap();
    assert!(fs::read(place.file()).unwrap() == before);
    let writer = place.open().await;
    let refused = EmbeddedStore::builder(place.path())
        .read_only()
        .open()
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("is already open"), "{refused}");
    writer.close().await.unwrap();
    assert_eq!(
        count(
            &EmbeddedStore::open(place.other("copy")).await.unwrap(),
            &table
        )
        .await,
        1000
    );
}

#[tokio::test]
async fn changes_are_refused() {
    let (place, table) = (filled().await, name("Things"));
    let store = reader(&place).await;
    let delete = Operation::Delete(key("p", "0000007"), IfMatch::Any);
    let refused = [
        store
            .write(&table, Operation::Insert(entity("p", "new")))
            .await
            .map(drop),
        store.write(&table, delete).await.map(drop),
        store.create_table(&name("Others")).await,
        store.delete_table(&table).await,
        store.compact().await,
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. }) && !error.is_ambiguous(),
            "{error:?}"
        );
    }
    assert_eq!(count(&store, &table).await, 1000);
}

/// The file of an open store, as a crash leaves it.
#[tokio::test]
async fn a_file_left_by_a_crash_is_read_and_not_changed() {
    let (place, crashed, table) = (filled().await, Place::new(), name("Things"));
    let store = place.open().await;
    fill(&store, &table, 1000, 1500).await;
    store.delete_table(&name("None")).await.unwrap_err();
    fs::create_dir(crashed.path()).unwrap();
    fs::copy(place.file(), crashed.file()).unwrap();
    let before = fs::read(crashed.file()).unwrap();
    let copy = reader(&crashed).await;
    assert_eq!(count(&copy, &table).await, 1500);
    copy.close().await.unwrap();
    assert!(fs::read(crashed.file()).unwrap() == before);
}

#[tokio::test]
async fn read_only_creates_nothing() {
    let place = Place::new();
    let missing = EmbeddedStore::builder(place.path())
        .read_only()
        .open()
        .await
        .unwrap_err();
    assert!(missing.to_string().contains("has no store"), "{missing}");
    assert!(!place.path().exists());
}
