//! The dictionary of property names: rows refer to it, so it must be in every copy of the rows.

use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore, TableStoreExt};
use table_embedded::EmbeddedStore;

use crate::support::{Place, key, name};

/// Together they use more names than a file's dictionary can hold.
const ENTITIES: usize = 50;
const NAMES: usize = 100;

fn named(n: usize) -> Entity {
    let entity = Entity::new("p", format!("{n:07}")).unwrap();
    (0..NAMES).fold(entity, |entity, m| {
        entity.with(&format!("Name{n}x{m}"), (n * NAMES + m) as i32)
    })
}

async fn assert_all_there(store: &EmbeddedStore, table: &TableName) {
    let page = store
        .query(table, &table_core::query::Query::new(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(page.items.len(), ENTITIES);
    for (n, scanned) in page.items.iter().enumerate() {
        let expected = named(n);
        assert_eq!(scanned.properties(), expected.properties());
        assert_eq!(
            store
                .get_existing(table, expected.key())
                .await
                .unwrap()
                .properties(),
            expected.properties()
        );
    }
}

#[tokio::test]
async fn more_names_than_the_dictionary_holds_survive_reopening_and_backup() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    for n in 0..ENTITIES {
        store
            .write(&table, Operation::Insert(named(n)))
            .await
            .unwrap();
    }
    assert_all_there(&store, &table).await;
    store.compact().await.unwrap();
    store.backup(place.other("copy")).await.unwrap();
    store.close().await.unwrap();
    assert_all_there(&place.open().await, &table).await;
    assert_all_there(
        &EmbeddedStore::open(place.other("copy")).await.unwrap(),
        &table,
    )
    .await;
}

#[tokio::test]
async fn names_of_a_refused_write_work_in_the_next_write() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    let write = |operation| store.write(&table, operation);
    write(Operation::Insert(
        Entity::new("p", "1").unwrap().with("First", 1),
    ))
    .await
    .unwrap();
    write(Operation::Insert(
        Entity::new("p", "1").unwrap().with("Second", 2),
    ))
    .await
    .unwrap_err();
    write(Operation::Insert(
        Entity::new("p", "2")
            .unwrap()
            .with("Third", 3)
            .with("Second", 2),
    ))
    .await
    .unwrap();
    let merged = Entity::new("p", "1").unwrap().with("Fourth", 4);
    write(Operation::InsertOrMerge(merged)).await.unwrap();
    store.close().await.unwrap();

    let store = place.open().await;
    let read = async |row| store.get_existing(&table, &key("p", row)).await.unwrap();
    let expected = Entity::new("p", "1")
        .unwrap()
        .with("First", 1)
        .with("Fourth", 4);
    assert_eq!(read("1").await.properties(), expected.properties());
    let expected = Entity::new("p", "2")
        .unwrap()
        .with("Third", 3)
        .with("Second", 2);
    assert_eq!(read("2").await.properties(), expected.properties());
}
