use super::*;
use crate::model::Key;
use crate::store::{ErrorKind, OperationKind};

#[tokio::test]
async fn get_costs_a_request_and_keeps_the_etag() {
    let (table, meter) = employees([1]).await;
    let read = table.get(key(1)).await.unwrap().unwrap();
    assert_eq!(read.name.as_str(), "n1");
    assert!(read.etag.is_some());
    assert_eq!(table.get(&key(2)).await.unwrap(), None);
    assert_eq!(meter.snapshot().of_kind(OperationKind::Get), 2);
    assert_eq!(meter.total(), 2);
}

#[tokio::test]
async fn a_missing_entity_is_an_error_where_it_must_exist() {
    let (table, _) = employees([1]).await;
    assert_eq!(table.get_existing(key(1)).await.unwrap().id, 1);
    let error = table.get_existing(key(2)).await.unwrap_err();
    assert!(
        error.is_entity_not_found() && error.to_string().contains("empid_000002"),
        "{error}"
    );
}

#[tokio::test]
async fn a_row_of_another_type_is_a_decode_error_with_its_key() {
    let (table, _) = employees([]).await;
    let badge = Badge {
        department: "Sales".to_owned(),
        id: 7,
        color: "red".to_owned(),
    };
    table.view::<Badge>().unwrap().insert(&badge).await.unwrap();
    let error = table
        .get(Key::new("Sales", "badge_000007").unwrap())
        .await
        .unwrap_err();
    let ErrorKind::Decode(error) = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(error.property.as_str(), "Name");
    assert_eq!(error.key.as_str(), "('Sales', 'badge_000007')");
}

#[tokio::test]
async fn versioned_reads_tell_the_version_of_a_type_that_keeps_none() {
    let (table, meter) = employees([1]).await;
    let etag = table.get(key(1)).await.unwrap().unwrap().etag;
    let read = table.get_versioned(key(1)).await.unwrap().unwrap();
    assert_eq!(Some(read.etag.clone()), etag);
    assert_eq!(read.name.as_str(), "n1");
    assert!(read.timestamp.is_some());
    assert_eq!(meter.total(), 2);
}

#[tokio::test]
async fn a_projection_is_read_by_key() {
    let (table, meter) = employees([1]).await;
    let named = table.get_as::<Named>(key(1)).await.unwrap();
    assert_eq!(
        named,
        Some(Named {
            name: "n1".to_owned()
        })
    );
    assert_eq!(meter.total(), 1);
}

#[tokio::test]
async fn get_many_reads_each_key_once_and_answers_in_the_order_of_the_keys() {
    let (table, meter) = employees(1..=40).await;
    let table = table.with_concurrency(3);
    let asked = [40, 7, 99, 7, 1, 40];
    let read = table.get_many(asked.map(key)).await.unwrap();
    let ids: Vec<_> = read.iter().map(|e| e.as_ref().map(|e| e.id)).collect();
    assert_eq!(ids, [Some(40), Some(7), None, Some(7), Some(1), Some(40)]);
    assert_eq!(meter.snapshot().of_kind(OperationKind::Get), 4);

    assert!(table.get_many(Vec::<Key>::new()).await.unwrap().is_empty());
    assert_eq!(meter.total(), 4);
}
