//! Creating, dropping and reclaiming tables.

use std::fs;

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};
use table_core::store::{ErrorKind, TableStore, TableStoreExt};

use crate::support::{Place, count, fill, insert, key, name};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const CATALOG: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("catalog");
const DROPPED: TableDefinition<'_, u64, ()> = TableDefinition::new("dropped");

/// Returns the number of rows in a closed store's file, over all tables.
fn rows_in_file(place: &Place) -> u64 {
    let transaction = Database::open(place.file()).unwrap().begin_read().unwrap();
    transaction.open_table(ROWS).unwrap().len().unwrap()
}

#[tokio::test]
async fn table_names_keep_their_case_and_compare_without_case() {
    let place = Place::new();
    let store = place.open().await;
    store.create_table(&name("Things")).await.unwrap();
    insert(&store, &name("THINGS"), "1").await;
    store.close().await.unwrap();

    let store = place.open().await;
    assert_eq!(store.all_tables(None).await.unwrap(), [name("Things")]);
    assert_eq!(count(&store, &name("things")).await, 1);
    let again = store.create_table(&name("tHINGS")).await.unwrap_err();
    assert!(
        matches!(again.kind(), ErrorKind::TableAlreadyExists { .. }),
        "{again}"
    );
}

#[tokio::test]
async fn tables_do_not_see_each_others_rows() {
    let place = Place::new();
    let store = place.open().await;
    for (table, rows) in [("First", 3), ("Second", 2), ("Third", 1)] {
        store.create_table(&name(table)).await.unwrap();
        fill(&store, &name(table), 0, rows).await;
    }
    assert_eq!(count(&store, &name("First")).await, 3);
    assert_eq!(count(&store, &name("Second")).await, 2);
    assert_eq!(count(&store, &name("Third")).await, 1);
}

#[tokio::test]
async fn a_dropped_name_can_be_reused_immediately_for_an_empty_table() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    for _ in 0..5 {
        store.create_table(&table).await.unwrap();
        fill(&store, &table, 0, 2000).await;
        assert_eq!(count(&store, &table).await, 2000);
        store.delete_table(&table).await.unwrap();
        assert!(
            store
                .get(&table, &key("p", "0000001"), None)
                .await
                .unwrap_err()
                .is_table_not_found()
        );
    }
    store.create_table(&table).await.unwrap();
    assert_eq!(count(&store, &table).await, 0);
}

#[tokio::test]
async fn deleting_and_compacting_frees_space() {
    let (place, table, other) = (Place::new(), name("Things"), name("Others"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    store.create_table(&other).await.unwrap();
    fill(&store, &other, 0, 100).await;
    fill(&store, &table, 0, 10_000).await;
    let full = fs::metadata(place.file()).unwrap().len();

    store.delete_table(&table).await.unwrap();
    store.compact().await.unwrap();
    let compacted = fs::metadata(place.file()).unwrap().len();
    assert!(compacted < full / 3, "{full} bytes became {compacted}");
    assert_eq!(count(&store, &other).await, 100);
    insert(&store, &other, "new").await;
    store.close().await.unwrap();
    assert_eq!(rows_in_file(&place), 101);
}

#[tokio::test]
async fn reads_and_writes_work_around_a_compaction() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 5000).await;
    let reading = async {
        for _ in 0..200 {
            let read = store.get(&table, &key("p", "0000042"), None).await.unwrap();
            assert!(read.is_some());
            tokio::task::yield_now().await;
        }
    };
    let writing = async {
        for n in 0..50 {
            insert(&store, &table, &format!("w{n}")).await;
        }
    };
    let (compacted, (), ()) = tokio::join!(store.compact(), reading, writing);
    compacted.unwrap();
    assert_eq!(count(&store, &table).await, 5050);
}

#[tokio::test]
async fn reclaiming_continues_after_a_crash() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 10_000).await;
    store.close().await.unwrap();
    // The file as the commit of a drop leaves it: no catalog row, the id in the list of dropped tables, the
    // rows present.
    let database = Database::open(place.file()).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(CATALOG)
        .unwrap()
        .remove("things")
        .unwrap();
    transaction
        .open_table(DROPPED)
        .unwrap()
        .insert(1, ())
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(rows_in_file(&place), 10_000);

    let store = place.open().await;
    assert_eq!(store.all_tables(None).await.unwrap(), []);
    store.compact().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(rows_in_file(&place), 0);
}
