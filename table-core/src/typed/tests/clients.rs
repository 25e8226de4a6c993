//! Rows as the clients of other languages write them, in the JSON of the service, read with wider numbers and fallbacks. The tests of the
//! Azure store read the same texts by its own decoder.

use chrono::{DateTime, NaiveDate, Utc};
use uuid::Uuid;

use crate::model::{ETag, Entity};
use crate::typed::{FromEntity, Property, TableEntity};

#[derive(Clone, Debug, PartialEq, Property)]
#[entity(crate = crate)]
enum Status {
    Open,
    #[entity(alias = "closed")]
    Closed,
    #[entity(other)]
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Property)]
#[entity(crate = crate, integer)]
#[repr(i32)]
enum Priority {
    Low = 1,
    High = 2,
    #[entity(other)]
    Other(i32),
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, rename_all = "PascalCase", partition_key = "all", row_key = "{id}")]
struct Order {
    id: u32,
    count: i64,
    price: f64,
    #[entity(alias = "State")]
    status: Status,
    priority: Priority,
    placed: DateTime<Utc>,
    due: Option<NaiveDate>,
    customer: Uuid,
    #[entity(default)]
    paid: bool,
    picture: Option<Vec<u8>>,
    #[entity(json)]
    tags: Vec<String>,
    #[etag]
    etag: Option<ETag>,
}

fn read(json: &str) -> Order {
    let entity: Entity = serde_json::from_str(json).unwrap();
    Order::from_entity(entity).unwrap()
}

fn expected() -> Order {
    Order {
        id: 7,
        count: 3,
        price: 120.0,
        status: Status::Open,
        priority: Priority::High,
        placed: "2024-05-01T12:00:00Z".parse().unwrap(),
        due: None,
        customer: "c9da6455-213d-42c9-9a79-3e9149a57833".parse().unwrap(),
        paid: false,
        picture: None,
        tags: vec!["new".to_owned()],
        etag: None,
    }
}

#[test]
fn node_writes_whole_numbers_as_int32() {
    // JavaScript has one type of numbers: `120.0` and `3` are written alike, without a type.
    let order = read(include_str!("clients/node.json"));
    assert_eq!(order, expected());
}

#[test]
fn python_writes_int64_as_text_and_bytes_as_base64() {
    let order = read(include_str!("clients/python.json"));
    let due = NaiveDate::from_ymd_opt(2024, 6, 1);
    let of_python = Order {
        status: Status::Closed,
        priority: Priority::Other(9),
        due,
        paid: true,
        picture: Some(vec![1, 2]),
        ..expected()
    };
    assert_eq!(order, of_python);
}

#[test]
fn dotnet_writes_seven_decimals_and_enums_as_text() {
    let order = read(include_str!("clients/dotnet.json"));
    let of_dotnet = Order {
        status: Status::Other("Reopened".to_owned()),
        placed: "2024-05-01T12:00:00.1234567Z".parse().unwrap(),
        etag: Some(ETag::from(
            "W/\"datetime'2024-05-01T12%3A00%3A01.1234567Z'\"",
        )),
        ..expected()
    };
    assert_eq!(order, of_dotnet);
}

#[test]
fn a_number_that_does_not_fit_is_an_error() {
    let broken = r#"{"PartitionKey":"all","RowKey":"0000000007","Count":3.5}"#;
    let entity: Entity = serde_json::from_str(broken).unwrap();
    let error = Order::from_entity(entity).unwrap_err().to_string();
    assert!(
        error.contains("'Count'") && error.contains("Int64"),
        "{error}"
    );
}
