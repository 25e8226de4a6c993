//! Online backups.

use std::sync::atomic::{AtomicUsize, Ordering};

use table_core::model::IfMatch;
use table_core::store::{Operation, TableStore, TableStoreExt};
use table_embedded::EmbeddedStore;

use crate::support::{Place, count, entity, fill, insert, key, name};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_writes_is_a_consistent_snapshot() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 5000).await;

    let copied = AtomicUsize::new(0);
    let writing = async {
        let mut written = 5000;
        while copied.load(Ordering::SeqCst) == 0 {
            fill(&store, &table, written, written + 100).await;
            written += 100;
        }
        written
    };
    let copying = async {
        store.backup(place.other("copy")).await.unwrap();
        copied.store(1, Ordering::SeqCst);
    };
    let (written, ()) = tokio::join!(writing, copying);
    assert_eq!(count(&store, &table).await, written);

    let copy = EmbeddedStore::open(place.other("copy")).await.unwrap();
    let rows = count(&copy, &table).await;
    assert!(
        (5000..=written).contains(&rows) && rows.is_multiple_of(100),
        "{rows} of {written}"
    );
}

#[tokio::test]
async fn a_copy_has_the_tables_without_dropped_ones() {
    let place = Place::new();
    let store = place.open().await;
    for table in ["First", "Second"] {
        store.create_table(&name(table)).await.unwrap();
        fill(&store, &name(table), 0, 3000).await;
    }
    store.delete_table(&name("First")).await.unwrap();
    store.backup(place.other("copy")).await.unwrap();

    let copy = EmbeddedStore::open(place.other("copy")).await.unwrap();
    assert_eq!(copy.all_tables(None).await.unwrap(), [name("Second")]);
    assert_eq!(count(&copy, &name("Second")).await, 3000);
    copy.create_table(&name("First")).await.unwrap();
    assert_eq!(count(&copy, &name("First")).await, 0);
}

#[tokio::test]
async fn an_etag_of_the_original_never_matches_a_later_state_of_the_copy() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    let common = insert(&store, &table, "1").await;
    store.backup(place.other("copy")).await.unwrap();
    let copy = EmbeddedStore::open(place.other("copy")).await.unwrap();

    // The common state has the same ETag in both. Later writes in each store get different ETags.
    let replace = |etag| Operation::Replace(entity("p", "1"), IfMatch::Exactly(etag));
    let original = store
        .write(&table, replace(common.clone()))
        .await
        .unwrap()
        .etag
        .unwrap();
    copy.write(&table, replace(common)).await.unwrap();
    let refused = copy.write(&table, replace(original)).await.unwrap_err();
    assert!(refused.is_precondition_failed(), "{refused}");
}

#[tokio::test]
async fn a_backup_does_not_overwrite_a_store() {
    let place = Place::new();
    let store = place.open().await;
    store.backup(place.other("copy")).await.unwrap();
    let again = store.backup(place.other("copy")).await.unwrap_err();
    assert!(again.to_string().contains("already exists"), "{again}");
    assert!(
        store
            .get(&name("Things"), &key("p", "1"), None)
            .await
            .unwrap_err()
            .is_table_not_found()
    );
}
