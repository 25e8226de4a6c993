//! Types of serde without the derive macro.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::memory::MemoryStore;
use crate::model::{ETag, EdmValue, Entity, IfMatch, Key, PartitionKey, Ticks, ValueRef};
use crate::query::Filter;
use crate::store::Operation;
use crate::typed::{FromEntity, Serde, SerdeTable};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
enum State {
    Open,
    Closed { reason: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Address {
    city: String,
    lines: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    #[serde(rename = "PartitionKey")]
    shop: String,
    #[serde(rename = "RowKey")]
    id: String,
    small: i16,
    wide: i64,
    unsigned: u64,
    ratio: f32,
    placed: Ticks,
    exact: EdmValue,
    note: Option<String>,
    address: Address,
    counts: BTreeMap<String, u32>,
    pair: (u8, bool),
    state: State,
    other: State,
    #[serde(rename = "odata.etag", skip_serializing_if = "Option::is_none")]
    etag: Option<ETag>,
}

fn order() -> Order {
    Order {
        shop: "London".into(),
        id: "7".into(),
        small: -3,
        wide: 5,
        unsigned: 7,
        ratio: 0.5,
        placed: "2013-01-31T05:15:00.1234567Z".parse().unwrap(),
        exact: EdmValue::Int64(1),
        note: None,
        address: Address {
            city: "Oslo".into(),
            lines: vec!["1 Main".into()],
        },
        counts: [("a".to_owned(), 1)].into(),
        pair: (1, true),
        state: State::Open,
        other: State::Closed {
            reason: "{}".into(),
        },
        etag: None,
    }
}

async fn orders() -> SerdeTable<Order> {
    let orders = SerdeTable::new(MemoryStore::new(), "Orders").unwrap();
    orders.create_if_missing().await.unwrap();
    orders
}

async fn row(orders: &SerdeTable<Order>) -> Entity {
    orders
        .store()
        .get(orders.name(), &Key::new("London", "7").unwrap(), None)
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn each_member_is_a_property_of_its_type() {
    let orders = orders().await;
    let written = orders.insert(&order()).await.unwrap();
    let stored = row(&orders).await;
    let time = order().placed;
    for (name, value) in [
        ("small", ValueRef::Int32(-3)),
        ("wide", ValueRef::Int64(5)),
        ("unsigned", ValueRef::Int64(7)),
        ("ratio", ValueRef::Double(0.5)),
        ("placed", ValueRef::DateTime(time)),
        ("exact", ValueRef::Int64(1)),
        (
            "address",
            ValueRef::String(r#"{"city":"Oslo","lines":["1 Main"]}"#),
        ),
        ("counts", ValueRef::String(r#"{"a":1}"#)),
        ("pair", ValueRef::String("[1,true]")),
        ("state", ValueRef::String("Open")),
        ("other", ValueRef::String(r#"{"Closed":{"reason":"{}"}}"#)),
    ] {
        assert_eq!(stored.get(name), Some(value), "{name}");
    }
    assert_eq!(
        stored.properties().len(),
        11,
        "neither keys nor `None` nor the ETag are properties: {stored:?}"
    );
    let read = orders
        .get_existing(Key::new("London", "7").unwrap())
        .await
        .unwrap();
    assert_eq!(
        read,
        Order {
            etag: written.etag,
            ..order()
        }
    );
    let filter = Filter::ge("placed", time).and(Filter::eq("state", "Open"));
    let london = orders
        .query()
        .partition(PartitionKey::new("London").unwrap());
    assert_eq!(
        london.raw_filter(filter).all().await.unwrap(),
        [Serde(read)]
    );
}

#[tokio::test]
async fn an_update_keeps_other_properties_and_removes_none() {
    let orders = orders().await;
    let first = Order {
        note: Some("x".into()),
        ..order()
    };
    orders.insert(&first).await.unwrap();
    let theirs = Entity::new("London", "7").unwrap().with("theirs", 1);
    orders
        .store()
        .write(orders.name(), Operation::Merge(theirs, IfMatch::Any))
        .await
        .unwrap();
    let key = || Key::new("London", "7").unwrap();
    let updated = orders.update(key(), |order| {
        order.note = None;
        Ok(())
    });
    let updated = updated.await.unwrap();
    let stored = row(&orders).await;
    assert_eq!(updated.note, None);
    assert_eq!(updated.etag.as_ref(), stored.etag());
    assert_eq!(stored.get("note"), None);
    assert_eq!(stored.get("theirs"), Some(ValueRef::Int32(1)));

    orders
        .merge(
            key(),
            &json!({"small": 9, "address": {"city": "Rome", "lines": []}}),
            IfMatch::Any,
        )
        .await
        .unwrap();
    let read = orders.get_existing(key()).await.unwrap();
    assert_eq!(read.small, 9);
    assert_eq!(&*read.address.city, "Rome");
    let error = orders
        .merge(key(), &json!({"RowKey": "8"}), IfMatch::Any)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("has a key"), "{error}");
    let error = orders
        .merge(key(), &json!({"note": null}), IfMatch::Any)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("sets no property"), "{error}");
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Reading {
    sensor: String,
    number: u32,
    values: Vec<f64>,
}

#[tokio::test]
async fn a_closure_computes_keys() {
    let key = |r: &Reading| Key::new(&r.sensor, format!("{:04}", r.number));
    let readings = SerdeTable::with_keys(MemoryStore::new(), "Readings", key).unwrap();
    readings.create_if_missing().await.unwrap();
    let reading = Reading {
        sensor: "s1".into(),
        number: 7,
        values: vec![1.5],
    };
    readings.insert(&reading).await.unwrap();
    let key = Key::new("s1", "0007").unwrap();
    assert_eq!(readings.get(&key).await.unwrap(), Some(reading.clone()));
    assert_eq!(readings.key_of(&reading).unwrap(), key);
    let moves = |reading: &mut Reading| {
        reading.number = 8;
        Ok(())
    };
    let error = readings.update(&key, moves).await.unwrap_err().to_string();
    assert!(
        error.contains("changes its key to ('s1', '0008')"),
        "{error}"
    );
    let error = readings
        .move_to(&key, &readings, Key::new("s1", "0008").unwrap())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("is ('s1', '0007')"), "{error}");
    assert_eq!(readings.query().count().await.unwrap(), 1);
    let error = readings.replace(&reading).await.unwrap_err().to_string();
    assert!(error.contains("`odata.etag`"), "{error}");
}

#[tokio::test]
async fn values_that_could_not_be_read_back_are_refused() {
    let readings = SerdeTable::with_keys(MemoryStore::new(), "Readings", |_: &Reading| {
        Key::new("p", "r")
    })
    .unwrap();
    readings.create_if_missing().await.unwrap();
    let nan = Reading {
        sensor: "s1".into(),
        number: 7,
        values: vec![f64::NAN],
    };
    let error = readings.insert(&nan).await.unwrap_err().to_string();
    assert!(
        error.contains("could not be read back") && error.contains("'values'"),
        "{error}"
    );
    assert_eq!(readings.query().count().await.unwrap(), 0);

    let orders = orders().await;
    let error = orders
        .insert(&Order {
            unsigned: u64::MAX,
            ..order()
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the member 'unsigned'") && error.contains("largest Int64"),
        "{error}"
    );
    let numbers = SerdeTable::<Vec<u32>>::new(MemoryStore::new(), "Numbers").unwrap();
    let error = numbers.insert(&vec![1]).await.unwrap_err().to_string();
    assert!(error.contains("not a struct or map"), "{error}");
    let keyless = SerdeTable::<Reading>::new(MemoryStore::new(), "Readings").unwrap();
    let error = keyless
        .insert(&Reading {
            values: vec![],
            ..nan
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has no key") && error.contains("SerdeTable::with_keys"),
        "{error}"
    );
    let numbers = SerdeTable::<BTreeMap<String, u32>>::new(MemoryStore::new(), "Numbers").unwrap();
    let keys = [("PartitionKey".to_owned(), 1), ("RowKey".to_owned(), 2)].into();
    let error = numbers.insert(&keys).await.unwrap_err().to_string();
    assert!(
        error.contains("the member 'PartitionKey'") && error.contains("{id:06}"),
        "{error}"
    );
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Answer {
    Number(i64),
    Text(String),
    List(Vec<i64>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Form {
    title: String,
    answer: Answer,
    #[serde(default)]
    any: serde_json::Value,
    tags: std::collections::HashSet<String>,
    map: BTreeMap<String, serde_json::Value>,
}

/// Values with parts are stored as text. Where the type does not say what it is, the text would be read back as text.
#[tokio::test]
async fn values_that_would_be_read_back_as_others_are_refused() {
    let forms =
        SerdeTable::with_keys(MemoryStore::new(), "Forms", |_: &Form| Key::new("p", "r")).unwrap();
    forms.create_if_missing().await.unwrap();
    let right = Form {
        title: "[1]".into(),
        answer: Answer::Number(1),
        any: json!("text"),
        // A set has no order, so its list may be read back in another one.
        tags: (0..40).map(|n| n.to_string()).collect(),
        map: [("list".to_owned(), json!([1, {"a": [2]}]))].into(),
    };
    forms.upsert(&right).await.unwrap();
    assert_eq!(
        forms
            .get_existing(Key::new("p", "r").unwrap())
            .await
            .unwrap(),
        right
    );
    forms
        .upsert(&Form {
            answer: Answer::Text("[1]".into()),
            ..right.clone()
        })
        .await
        .unwrap();
    for (wrong, name) in [
        (
            Form {
                answer: Answer::List(vec![1]),
                ..right.clone()
            },
            "answer",
        ),
        (
            Form {
                any: json!([1]),
                ..right.clone()
            },
            "any",
        ),
        (
            Form {
                any: json!({"a": 1}),
                ..right.clone()
            },
            "any",
        ),
    ] {
        let error = forms.upsert(&wrong).await.unwrap_err().to_string();
        assert!(
            error.contains(&format!("the property '{name}' would be read back")),
            "{error}"
        );
    }
    let update = forms.update(Key::new("p", "r").unwrap(), |form| {
        form.answer = Answer::List(vec![]);
        Ok(())
    });
    assert!(update.await.unwrap_err().to_string().contains("'answer'"));
    type Any = BTreeMap<String, serde_json::Value>;
    let rows =
        SerdeTable::with_keys(MemoryStore::new(), "Rows", |_: &Any| Key::new("p", "r")).unwrap();
    rows.create_if_missing().await.unwrap();
    let error = rows
        .insert(&[("list".to_owned(), json!([1]))].into())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("the property 'list'"), "{error}");
    rows.insert(&[("text".to_owned(), json!("[1]"))].into())
        .await
        .unwrap();
}

#[derive(Debug, Deserialize)]
struct Outer {
    #[allow(dead_code)]
    id: u32,
    #[serde(flatten)]
    _inner: Inner,
}

#[derive(Debug, Deserialize)]
struct Inner {
    #[allow(dead_code)]
    name: String,
    #[allow(dead_code)]
    count: u32,
}

/// serde reads the members of a flattened struct before it converts them, and does not say which one is wrong.
#[test]
fn a_wrong_member_of_a_flattened_struct_is_named() {
    let row = Entity::new("p", "r")
        .unwrap()
        .with("id", 7)
        .with("name", "Ken");
    let read = |row: Entity| Serde::<Outer>::from_entity(row).unwrap_err().to_string();
    let error = read(row.clone().with("count", "many"));
    assert!(
        error.contains("property 'count'") && error.contains("many"),
        "{error}"
    );
    let error = read(row.clone().with("count", 3).with("name", true));
    assert!(error.contains("property 'name'"), "{error}");
    let error = read(row.with_encrypted("count", "many"));
    assert!(
        error.contains("property 'count'") && !error.contains("many"),
        "{error}"
    );
}

#[test]
fn a_row_that_does_not_fit_names_the_property() {
    let row = || {
        Entity::new("s1", "0007")
            .unwrap()
            .with("sensor", "s1")
            .with("number", 7)
    };
    let read = |row| Serde::<Reading>::from_entity(row).map(Serde::into_inner);
    let error = read(row()).unwrap_err().to_string();
    assert!(
        error.contains("'values'") && error.contains("#[serde(default)]"),
        "{error}"
    );
    let error = read(row().with("values", "[1,")).unwrap_err().to_string();
    assert!(
        error.contains("'values'") && error.contains("EOF"),
        "{error}"
    );
    let error = read(row().with("values", "[]").with("number", "secret"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'number'") && error.contains("u32"),
        "{error}"
    );
    let error = read(
        row()
            .with("values", "[]")
            .with_encrypted("number", "secret"),
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("'number'") && !error.contains("\"secret\""),
        "{error}"
    );
    let widened = row()
        .with("values", "[1,2.5]")
        .with("number", 7_i64)
        .with("theirs", true);
    assert_eq!(
        read(widened).unwrap(),
        Reading {
            sensor: "s1".into(),
            number: 7,
            values: vec![1.0, 2.5]
        }
    );
}
