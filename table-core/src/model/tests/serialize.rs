use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{from_str, json, to_string, to_value};
use uuid::Uuid;

use crate::model::{
    ETag, EdmType, EdmValue, Entity, Hour, IfMatch, Key, PartitionKey, Properties, Reverse, RowKey,
    Ticks,
};

/// Asserts the JSON of a value, and that JSON and a binary format give the value back.
fn assert_form<T>(value: &T, json: &serde_json::Value)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    assert_eq!(&to_value(value).unwrap(), json);
    assert_eq!(&serde_json::from_value::<T>(json.clone()).unwrap(), value);
    assert_eq!(&from_str::<T>(&to_string(value).unwrap()).unwrap(), value);
    let bytes = postcard::to_stdvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
}

#[test]
fn values_have_the_forms_of_the_service() {
    let time: Ticks = "2013-01-01T05:15:00.1234567Z".parse().unwrap();
    assert_form(&time, &json!("2013-01-01T05:15:00.1234567Z"));
    assert_form(&Reverse(time), &json!("2013-01-01T05:15:00.1234567Z"));
    assert_form(&Hour::of(time), &json!("2013-01-01T05"));
    assert_form(
        &ETag::from("W/\"datetime'x'\""),
        &json!("W/\"datetime'x'\""),
    );
    assert_form(&ETag::from_version(7), &json!("W/\"v0000000000000007\""));
    assert_form(&IfMatch::Any, &json!("*"));
    assert_form(&IfMatch::Exactly(ETag::from("W/\"1\"")), &json!("W/\"1\""));
    assert_form(&PartitionKey::new("Sales").unwrap(), &json!("Sales"));
    assert_form(&RowKey::new("1").unwrap(), &json!("1"));
    assert_form(
        &Key::new("Sales", "1").unwrap(),
        &json!({"PartitionKey": "Sales", "RowKey": "1"}),
    );
    assert_form(&EdmType::Guid, &json!("Edm.Guid"));
    assert_form(&EdmValue::Int32(5), &json!(5));
    assert_form(&EdmValue::Double(1.5), &json!(1.5));
    assert_form(
        &EdmValue::Double(1.0),
        &json!({"@odata.type": "Edm.Double", "value": 1.0}),
    );
    assert_form(
        &EdmValue::Int64(5),
        &json!({"@odata.type": "Edm.Int64", "value": "5"}),
    );
    assert_form(
        &EdmValue::Binary(vec![1, 2]),
        &json!({"@odata.type": "Edm.Binary", "value": "AQI="}),
    );
    assert_form(
        &EdmValue::DateTime(time),
        &json!({"@odata.type": "Edm.DateTime", "value": time.to_string()}),
    );
    assert_form(
        &EdmValue::Guid(Uuid::nil()),
        &json!({"@odata.type": "Edm.Guid", "value": Uuid::nil().to_string()}),
    );
    assert_form(
        &EdmValue::Double(f64::INFINITY),
        &json!({"@odata.type": "Edm.Double", "value": "Infinity"}),
    );
}

#[test]
fn an_entity_keeps_version_time_and_marks() {
    let time: Ticks = "2013-01-01T05:15:00Z".parse().unwrap();
    let entity = Entity::new("Sales", "1")
        .unwrap()
        .with("Age", 41)
        .with_encrypted("Id", 7_i64);
    let entity = entity.with_system(Some(ETag::from("W/\"1\"")), Some(time));
    assert_form(
        &entity,
        &json!({
            "odata.etag": "W/\"1\"", "PartitionKey": "Sales", "RowKey": "1", "Timestamp": "2013-01-01T05:15:00.0000000Z",
            "Age": 41, "Id@odata.type": "Edm.Int64", "Id@table.encrypt": true, "Id": "7",
        }),
    );
    assert_form(
        entity.properties(),
        &json!({"Age": 41, "Id@odata.type": "Edm.Int64", "Id@table.encrypt": true, "Id": "7"}),
    );
}

/// What clients of other languages write: annotations behind their values, numbers without types, nulls, metadata.
#[test]
fn the_json_of_other_clients_is_read() {
    let json = r#"{"odata.metadata": "https://x/$metadata#T/@Element", "RowKey": "1", "N": "5", "N@odata.type": "Edm.Int64",
        "Small": 5, "Big": 5000000000, "Price": 120.5, "Whole@odata.type": "Edm.Double", "Whole": 120, "None": null,
        "PartitionKey": "Sales", "None2@odata.type": "Edm.Guid", "None2": null}"#;
    let expected = Entity::new("Sales", "1")
        .unwrap()
        .with("N", 5_i64)
        .with("Small", 5)
        .with("Big", 5_000_000_000_i64);
    assert_eq!(
        from_str::<Entity>(json).unwrap(),
        expected.with("Price", 120.5).with("Whole", 120.0)
    );
}

#[test]
fn wrong_json_is_refused() {
    let with = |member: &str| format!(r#"{{"PartitionKey": "p", "RowKey": "r", {member}}}"#);
    for (json, reason) in [
        (r#"{"RowKey": "1"}"#.to_owned(), "no PartitionKey"),
        (r#"{"PartitionKey": "p"}"#.to_owned(), "no RowKey"),
        (
            r#"{"PartitionKey": "a/b", "RowKey": "r"}"#.to_owned(),
            "'/'",
        ),
        (with(r#""A": 1, "A": 2"#), "\"A\" occurs twice"),
        (
            with(r#""A": [1]"#),
            "expected null, a boolean, a number or text",
        ),
        (
            with(r#""A": 18446744073709551615"#),
            "\"A\": 18446744073709551615 does not fit",
        ),
        (with(r#""A@odata.type": "Edm.Int128", "A": 1"#), "Edm.Int64"),
        (
            with(r#""A@odata.type": "Edm.Int32", "A": 5000000000"#),
            "\"A\": expected the JSON of an Edm.Int32",
        ),
        (
            with(r#""A@odata.type": "Edm.Guid", "A": "secret""#),
            "\"A\": expected the JSON of an Edm.Guid",
        ),
        (
            with(r#""A@odata.type": "Edm.Double", "A": 9007199254740993"#),
            "Edm.Double",
        ),
    ] {
        let error = from_str::<Entity>(&json).unwrap_err().to_string();
        assert!(error.contains(reason), "{json}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let reserved = Entity::new("p", "r").unwrap().with("odata.etag", "x");
    assert!(
        to_string(&reserved)
            .unwrap_err()
            .to_string()
            .contains("odata.etag")
    );
    assert!(from_str::<EdmValue>("null").is_err());
    assert!(from_str::<Key>(r#"{"PartitionKey": "p", "RowKey": "r", "Age": 1}"#).is_err());
    assert!(from_str::<Ticks>("\"yesterday\"").is_err());
}

/// A type with an ETag derives both traits.
#[test]
fn a_struct_with_an_etag_derives_both_traits() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Employee {
        id: u32,
        hired: Ticks,
        etag: Option<ETag>,
        others: Properties,
    }
    let others = [("Age", 41)].into_iter().collect();
    let employee = Employee {
        id: 7,
        hired: Ticks::MIN,
        etag: Some(ETag::from_version(1)),
        others,
    };
    assert_form(
        &employee,
        &json!({"id": 7, "hired": "0001-01-01T00:00:00.0000000Z", "etag": "W/\"v0000000000000001\"", "others": {"Age": 41}}),
    );
}

fn values() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(EdmValue::Binary),
        any::<bool>().prop_map(EdmValue::Boolean),
        (0..=Ticks::MAX.get()).prop_map(|t| EdmValue::DateTime(Ticks::new(t).unwrap())),
        any::<f64>()
            .prop_filter("NaN differs from itself", |v| !v.is_nan())
            .prop_map(EdmValue::Double),
        any::<u128>().prop_map(|v| EdmValue::Guid(Uuid::from_u128(v))),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        ".*".prop_map(EdmValue::String),
    ]
}

proptest! {
    #[test]
    fn every_entity_survives_a_round_trip(
        partition in "[a-z]{0,4}",
        row in "[a-z]{0,4}",
        properties in prop::collection::btree_map("[A-Za-z_][A-Za-z0-9_]{0,6}", (values(), any::<bool>()), 0..8),
    ) {
        let mut entity = Entity::new(partition, row).unwrap();
        for (name, (value, encrypt)) in properties {
            entity.properties_mut().put(&name, value.as_ref(), encrypt);
        }
        let json = to_string(&entity).unwrap();
        prop_assert_eq!(&from_str::<Entity>(&json).unwrap(), &entity);
        let bytes = postcard::to_stdvec(&entity).unwrap();
        prop_assert_eq!(postcard::from_bytes::<Entity>(&bytes).unwrap(), entity);
    }

    #[test]
    fn every_value_survives_a_round_trip(value in values()) {
        prop_assert_eq!(&from_str::<EdmValue>(&to_string(&value).unwrap()).unwrap(), &value);
        let bytes = postcard::to_stdvec(&value).unwrap();
        prop_assert_eq!(postcard::from_bytes::<EdmValue>(&bytes).unwrap(), value);
    }

    #[test]
    fn any_json_is_read_or_refused(json in "\\PC*") {
        let _ = from_str::<Entity>(&json);
        let _ = from_str::<EdmValue>(&json);
    }
}
