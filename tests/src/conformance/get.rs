//! Get: one entity by its key.

use table_core::query::Select;
use table_core::store::TableStore;

use super::Harness;
use super::table::{assert_same, entity, key};

/// A missing entity is not an error.
pub(crate) async fn returns_none_for_a_missing_entity(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r")).await;
    for missing in [key("p", "s"), key("q", "r"), key("p", ""), key("pr", "")] {
        assert!(table.get(&missing).await.is_none(), "{missing}");
    }
}

/// A projection returns the named properties and the key, ETag and time. A property that the entity does not
/// have is absent.
pub(crate) async fn returns_the_selected_properties(h: &Harness) {
    let table = h.table().await;
    let etag = table
        .insert(entity("p", "r").with("A", 1).with("B", "two").with("C", 3))
        .await;
    let select = Select::new(["B", "Missing"]);
    let read = table
        .store()
        .get(table.name(), &key("p", "r"), Some(&select))
        .await;
    let read = read.expect("a get").expect("the entity");
    assert_eq!(read.key(), &key("p", "r"));
    assert_same(
        read.properties(),
        entity("p", "r").with("B", "two").properties(),
    );
    assert_eq!(read.etag(), Some(&etag));
    assert!(read.timestamp().is_some());
}

/// A projection returns key, ETag and time, named or not, and never as properties.
pub(crate) async fn always_returns_the_key(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "r").with("A", 1)).await;
    for select in [
        Select::new(["RowKey", "PartitionKey", "Timestamp"]),
        Select::new([] as [&str; 0]),
    ] {
        let read = table
            .store()
            .get(table.name(), &key("p", "r"), Some(&select))
            .await;
        let read = read.expect("a get").expect("the entity");
        assert_eq!(read.key(), &key("p", "r"), "{select:?}");
        assert_eq!(read.etag(), Some(&etag), "{select:?}");
        assert!(read.timestamp().is_some(), "{select:?}");
        assert!(read.properties().is_empty(), "{select:?}");
    }
}

/// Names of properties are case-sensitive.
pub(crate) async fn property_names_are_case_sensitive(h: &Harness) {
    let table = h.table().await;
    let sent = entity("p", "r").with("Name", 1).with("name", 2);
    table.insert(sent.clone()).await;
    assert_same(
        table.existing(sent.key()).await.properties(),
        sent.properties(),
    );
    let read = table
        .store()
        .get(table.name(), sent.key(), Some(&Select::new(["name"])))
        .await;
    let read = read.expect("a get").expect("the entity");
    assert_same(
        read.properties(),
        entity("p", "r").with("name", 2).properties(),
    );
}

/// The time of the last write increases with each write and never decreases.
pub(crate) async fn returns_the_time_of_the_last_write(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r").with("A", 0)).await;
    let mut last = table
        .existing(&key("p", "r"))
        .await
        .timestamp()
        .expect("a time");
    for n in 1..4 {
        table
            .put(table_core::store::Operation::InsertOrReplace(
                entity("p", "r").with("A", n),
            ))
            .await;
        let time = table
            .existing(&key("p", "r"))
            .await
            .timestamp()
            .expect("a time");
        assert!(time >= last, "{time} after {last}");
        last = time;
    }
}
