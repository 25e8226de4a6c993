//! Rows that cannot be read are one error each, and reads go on.

use futures_util::TryStreamExt as _;

use crate::adapter::{Metered, RequestMeter};
use crate::memory::MemoryStore;
use crate::model::{ETag, Entity, IfMatch};
use crate::store::Operation;
use crate::typed::{PlainTable, SchemaDiff, TableEntity};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Reading")]
struct ReadingV1 {
    #[partition_key]
    sensor: String,
    #[row_key(format = "{:02}")]
    number: u32,
    value: i32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Reading", version = 2, previous = ReadingV1)]
struct Reading {
    #[partition_key]
    sensor: String,
    #[row_key(format = "{:02}")]
    number: u32,
    #[entity(alias = "amount")]
    value: f64,
    note: Option<String>,
    #[etag]
    etag: Option<ETag>,
}

impl From<ReadingV1> for Reading {
    fn from(old: ReadingV1) -> Self {
        Self {
            sensor: old.sensor,
            number: old.number,
            value: old.value.into(),
            note: None,
            etag: None,
        }
    }
}

fn reading(number: u32) -> Reading {
    Reading {
        sensor: "s1".into(),
        number,
        value: 1.5,
        note: None,
        etag: None,
    }
}

/// Five readings, of which numbers 2 and 4 cannot be read, and one of version 1.
async fn readings() -> (PlainTable<Reading>, RequestMeter) {
    let meter = RequestMeter::new();
    let table =
        PlainTable::<Reading>::new(Metered::new(MemoryStore::new(), meter.clone()), "Readings")
            .unwrap();
    table.create_if_missing().await.unwrap();
    for number in 1..=5 {
        table.insert(&reading(number)).await.unwrap();
    }
    for (number, value) in [(2, "many"), (4, "few")] {
        let row = Entity::from(Reading::key("s1", number).unwrap().into_key()).with("value", value);
        table
            .store()
            .write(table.name(), Operation::Merge(row, IfMatch::Any))
            .await
            .unwrap();
    }
    let old = ReadingV1 {
        sensor: "s1".into(),
        number: 6,
        value: 7,
    };
    table
        .view::<ReadingV1>()
        .unwrap()
        .insert(&old)
        .await
        .unwrap();
    meter.reset();
    (table, meter)
}

#[tokio::test]
async fn a_page_lists_the_rows_that_cannot_be_read() {
    let (table, meter) = readings().await;
    let query = table.query().page_size(3);
    assert!(query.page(None).await.is_err());
    meter.reset();
    let first = query.readable_page(None).await.unwrap();
    assert_eq!(
        first
            .page
            .items
            .iter()
            .map(|r| r.number)
            .collect::<Vec<_>>(),
        [1, 3]
    );
    assert_eq!(
        first
            .unreadable
            .iter()
            .map(|row| row.key.row())
            .collect::<Vec<_>>(),
        ["02"]
    );
    let error = first.unreadable[0].error.to_string();
    assert!(
        error.contains("'value'") && error.contains("Edm.String"),
        "{error}"
    );
    let json = serde_json::to_value(&first.unreadable[0]).unwrap();
    assert_eq!(json["key"]["RowKey"], "02");
    assert_eq!(json["error"]["message"], error);
    let second = query
        .readable_page(first.page.continuation.as_ref())
        .await
        .unwrap();
    assert_eq!(second.page.items.len(), 2);
    assert_eq!(second.unreadable.len(), 1);
    assert!(second.page.continuation.is_none());
    assert_eq!(meter.total(), 2);
}

#[tokio::test]
async fn a_stream_goes_on_after_a_row_that_cannot_be_read() {
    let (table, meter) = readings().await;
    let query = table.query().page_size(2);
    let rows: Vec<_> = query.stream_readable().try_collect().await.unwrap();
    let read: Vec<_> = rows
        .iter()
        .filter_map(|row| row.as_ref().ok())
        .map(|r| r.number)
        .collect();
    let skipped: Vec<_> = rows
        .iter()
        .filter_map(|row| row.as_ref().err())
        .map(|row| row.key.row().to_owned())
        .collect();
    assert_eq!(read, [1, 3, 5, 6]);
    assert_eq!(skipped, ["02", "04"]);
    assert_eq!(meter.total(), 3);
    let limited: Vec<_> = query
        .clone()
        .limit(2)
        .stream_readable()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(limited.iter().filter(|row| row.is_ok()).count(), 2);
    assert!(
        query
            .limit(0)
            .stream_readable()
            .try_next()
            .await
            .unwrap()
            .is_none()
    );
    table.delete_table_if_exists().await.unwrap();
    assert!(
        table
            .query()
            .stream_readable()
            .try_next()
            .await
            .unwrap_err()
            .is_table_not_found()
    );
}

#[tokio::test]
async fn a_schema_diff_compares_the_type_with_stored_rows() {
    let (table, meter) = readings().await;
    let row = Entity::from(Reading::key("s1", 7).unwrap().into_key())
        .with("EntityType", "Reading")
        .with("EntityVersion", 2);
    let row = row.with("amount", 3).with("shoe", 43);
    table
        .store()
        .write(table.name(), Operation::Insert(row))
        .await
        .unwrap();
    meter.reset();
    let diff = SchemaDiff::of::<Reading>(&table.view::<Entity>().unwrap())
        .await
        .unwrap();
    assert_eq!(meter.total(), 1);
    assert_eq!(diff.rows, 7);
    assert_eq!(diff.unreadable, 2);
    assert_eq!(
        diff.listed
            .iter()
            .map(|row| row.key.row())
            .collect::<Vec<_>>(),
        ["02", "04"]
    );
    assert_eq!(diff.versions, [(1, 1), (2, 6)].into());
    assert_eq!(diff.older(), 1);
    let value = &diff.properties["value"];
    assert_eq!(value.declared.map(|edm| edm.name()), Some("Edm.Double"));
    let found: Vec<_> = value
        .found
        .iter()
        .map(|(edm, rows)| (edm.name(), *rows))
        .collect();
    assert_eq!(
        found,
        [("Edm.Double", 3), ("Edm.Int32", 1), ("Edm.String", 2)]
    );
    assert_eq!(value.absent, 0);
    assert_eq!(value.under_alias, 1);
    assert_eq!(diff.properties["note"].absent, 7);
    assert!(diff.properties["note"].optional);
    assert_eq!(diff.properties["shoe"].declared, None);
    assert!(!diff.properties.contains_key("EntityType"));
    let text = diff.to_string();
    assert!(
        text.contains("7 rows, 1 of an older schema version, 2 that cannot be read"),
        "{text}"
    );
    assert!(
        text.contains(
            "value: declared Edm.Double, stored as Edm.Double in 3 rows, Edm.Int32 in 1, Edm.String in 2"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn an_upgrade_goes_on_after_an_entity_that_cannot_be_converted() {
    let (table, _) = readings().await;
    let old = |number| {
        Entity::from(Reading::key("s1", number).unwrap().into_key()).with("EntityType", "Reading")
    };
    for row in [old(7).with("value", "many"), old(8).with("value", 8)] {
        table
            .store()
            .write(table.name(), Operation::Insert(row))
            .await
            .unwrap();
    }
    let error = table.upgrade_all().await.unwrap_err();
    assert!(
        error.is_of_one_entity() && error.to_string().contains("'07'"),
        "{error}"
    );
    let rows = table.view::<Entity>().unwrap();
    assert_eq!(
        SchemaDiff::of::<Reading>(&rows).await.unwrap().older(),
        1,
        "6 and 8 are converted"
    );
    table
        .delete_if_exists(Reading::key("s1", 7).unwrap())
        .await
        .unwrap();
    assert_eq!(table.upgrade_all().await.unwrap(), 0);
}

#[tokio::test]
async fn a_write_renews_the_version_of_its_entity() {
    let (table, _) = readings().await;
    let mut last = table
        .get_existing(Reading::key("s1", 1).unwrap())
        .await
        .unwrap();
    for value in [2.5, 3.5] {
        last.value = value;
        table.replace(&last).await.unwrap().renew(&mut last);
    }
    assert_eq!(
        table
            .get_existing(Reading::key("s1", 1).unwrap())
            .await
            .unwrap(),
        last
    );
    let old = ReadingV1 {
        sensor: "s1".into(),
        number: 9,
        value: 7,
    };
    let mut unchanged = old.clone();
    table
        .view::<ReadingV1>()
        .unwrap()
        .insert(&old)
        .await
        .unwrap()
        .renew(&mut unchanged);
    assert_eq!(unchanged, old, "a type without an ETag");
}

#[tokio::test]
async fn an_absent_property_is_found() {
    let (table, _) = readings().await;
    table
        .upsert(&Reading {
            note: Some(String::new()),
            ..reading(1)
        })
        .await
        .unwrap();
    let query = table
        .query()
        .filter(Reading::NOTE.is_absent())
        .project::<Entity>();
    assert_eq!(query.count().await.unwrap(), 5);
    assert_eq!(
        table
            .query()
            .filter(!Reading::NOTE.is_absent())
            .count()
            .await
            .unwrap(),
        1
    );
}
