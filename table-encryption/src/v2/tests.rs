//! The test vectors of the format, in both directions, and properties of its parser.

use proptest::prelude::*;
use serde_json::Value;
use table_core::model::{EdmType, EdmValue, Key, Properties, Ticks, ValueRef};
use uuid::Uuid;

use super::*;
use crate::data_key::{DataKey, Secret};
use crate::testing::hex;

fn vectors() -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../../tests/vectors/v2.json")).unwrap();
    all["entities"].as_array().unwrap().clone()
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().unwrap()
}

fn edm_type(property: &Value) -> EdmType {
    EdmType::ALL[property["type"].as_u64().unwrap() as usize]
}

fn value(property: &Value) -> EdmValue {
    let value = &property["value"];
    match edm_type(property) {
        EdmType::Binary => EdmValue::Binary(hex(value.as_str().unwrap())),
        EdmType::Boolean => EdmValue::Boolean(value.as_u64() == Some(1)),
        EdmType::DateTime => EdmValue::DateTime(Ticks::new(value.as_i64().unwrap()).unwrap()),
        EdmType::Double => EdmValue::Double(value.as_f64().unwrap()),
        EdmType::Guid => EdmValue::Guid(Uuid::parse_str(value.as_str().unwrap()).unwrap()),
        EdmType::Int32 => EdmValue::Int32(value.as_i64().unwrap() as i32),
        EdmType::Int64 => EdmValue::Int64(value.as_i64().unwrap()),
        EdmType::String => EdmValue::String(value.as_str().unwrap().to_owned()),
    }
}

fn scope(vector: &Value) -> Scope {
    let key = Key::new(text(vector, "partition"), text(vector, "row")).unwrap();
    Scope::of_entity(text(vector, "table"), &key)
}

/// In reverse order of the list, so that the test depends on sorting.
fn clear(vector: &Value) -> Properties {
    let mut clear = Properties::new();
    for property in vector["properties"].as_array().unwrap().iter().rev() {
        clear.set_encrypted(text(property, "name"), value(property));
    }
    clear
}

#[test]
fn entities_equal_the_test_vectors() {
    for vector in vectors() {
        let secret = std::sync::Arc::new(Secret::new(
            hex(text(&vector, "data_key")).try_into().unwrap(),
        ));
        let header = Header::parse(&hex(text(&vector, "header"))).unwrap();
        assert_eq!(*header.wrapping.key_id, *text(&vector, "key_id"));
        let data_key = DataKey {
            secret: secret.clone(),
            wrapping: header.wrapping.clone(),
        };
        let salt = hex(text(&vector, "salt")).try_into().unwrap();
        let sealed = seal(&clear(&vector), scope(&vector), &data_key, salt);
        assert_eq!(
            sealed.get(HEADER),
            Some(ValueRef::Binary(&hex(text(&vector, "header"))))
        );
        for property in vector["properties"].as_array().unwrap() {
            let ciphertext = hex(text(property, "ciphertext"));
            assert_eq!(
                sealed.get(text(property, "name")),
                Some(ValueRef::Binary(&ciphertext))
            );
            assert_eq!(
                encode_value(value(property).as_ref()),
                hex(text(property, "plaintext"))
            );
        }
        let opened = open(&sealed, &header, scope(&vector), &secret, None).unwrap();
        assert_eq!(opened, clear(&vector));
    }
}

#[test]
fn only_the_canonical_header_is_parsed() {
    let sound = hex(text(&vectors()[0], "header"));
    assert_eq!(Header::parse(&sound).unwrap().to_bytes(), sound);
    for len in 0..sound.len() {
        assert!(Header::parse(&sound[..len]).is_none());
    }
    let mut longer = sound.clone();
    longer.push(0);
    assert!(Header::parse(&longer).is_none());
    let mut header = Header::parse(&sound).unwrap();
    header.list.swap(0, 1);
    assert!(Header::parse(&header.to_bytes()).is_none());
    header.list.swap(0, 1);
    header.list[1] = header.list[0].clone();
    assert!(Header::parse(&header.to_bytes()).is_none());
}

fn values() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(EdmValue::Binary),
        any::<bool>().prop_map(EdmValue::Boolean),
        (0..=Ticks::MAX.get()).prop_map(|t| EdmValue::DateTime(Ticks::new(t).unwrap())),
        any::<f64>()
            .prop_filter("NaN is not equal to itself", |d| !d.is_nan())
            .prop_map(EdmValue::Double),
        any::<u128>().prop_map(|u| EdmValue::Guid(Uuid::from_u128(u))),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        any::<String>().prop_map(EdmValue::String),
    ]
}

fn properties() -> impl Strategy<Value = Properties> {
    proptest::collection::btree_map("[A-Za-z_é]{1,12}", (values(), any::<bool>()), 0..12).prop_map(
        |all| {
            let mut properties = Properties::new();
            for (name, (value, marked)) in all {
                properties.put(&name, value.as_ref(), marked);
            }
            properties
        },
    )
}

proptest! {
    #[test]
    fn sealed_properties_open_to_the_same(clear in properties(), salt: [u8; 32], key: [u8; 32], p in "[a-z]{0,5}", r in "[a-z]{0,5}") {
        let wrapping = Header::parse(&hex(text(&vectors()[0], "header"))).unwrap().wrapping;
        let data_key = DataKey { secret: Secret::new(key).into(), wrapping };
        let scope = Scope::of_entity("people", &Key::new(p, r).unwrap());
        let sealed = seal(&clear, scope.clone(), &data_key, salt);
        prop_assert!(sealed.iter().all(|p| !p.is_encrypted()));
        let Some(ValueRef::Binary(bytes)) = sealed.get(HEADER) else { panic!("no header") };
        let header = Header::parse(bytes).unwrap();
        prop_assert_eq!(open(&sealed, &header, scope, &data_key.secret, None).unwrap(), clear);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Some(header) = Header::parse(&bytes) {
            prop_assert_eq!(header.to_bytes(), bytes);
        }
    }
}
