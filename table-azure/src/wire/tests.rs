use proptest::prelude::*;
use table_core::model::{EdmValue, Entity, Properties, Ticks, ValueRef};
use uuid::Uuid;

use super::*;

fn any_value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(EdmValue::Binary),
        any::<bool>().prop_map(EdmValue::Boolean),
        (0..=Ticks::MAX.get()).prop_map(|t| EdmValue::DateTime(Ticks::new(t).unwrap())),
        any::<f64>().prop_map(EdmValue::Double),
        prop_oneof![
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            Just(-0.0),
            Just(1.0),
            Just(1e300)
        ]
        .prop_map(EdmValue::Double),
        any::<u128>().prop_map(|n| EdmValue::Guid(Uuid::from_u128(n))),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        any::<String>().prop_map(EdmValue::String),
    ]
}

/// Names that the service allows, and some that it refuses but JSON can carry.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "P[A-Za-z0-9_]{0,20}",
        "P\\PC{0,6}",
        Just("P\"\\\u{1F600}".to_owned())
    ]
    .prop_filter("metadata", |name| !name.contains('@'))
}

fn any_entity() -> impl Strategy<Value = Entity> {
    let key = "[^/\\\\#?\\p{Cc}]{0,20}";
    (
        key,
        key,
        proptest::collection::vec((any_name(), any_value()), 0..20),
    )
        .prop_map(|(p, r, values)| {
            let (key, _) = Entity::new(p, r).unwrap().into_parts();
            Entity::from_parts(key, values.into_iter().collect::<Properties>())
        })
}

/// JSON of entities that use few member names in many forms, so that entities often share their first
/// members.
fn members() -> impl Strategy<Value = String> {
    let member = prop::sample::select(vec![
        r#""A@odata.type":"Edm.Int64","A":"5""#,
        r#""A@odata.type":"Edm.Int64","A":null"#,
        r#""A@odata.type":"Edm.Binary","A":"AQI=""#,
        r#""A":"x""#,
        r#""A":"x\n\u00e9""#,
        r#""A" : 1"#,
        r#""A":"7","A@odata.type":"Edm.Int64""#,
        r#""A":"se7en","A@odata.type":"Edm.Int64""#,
        r#""B@odata.type":"Edm.Int64","C":"1","B":"2""#,
        r#""B@odata.type":"Edm.Int64""#,
        r#""B":true"#,
        r#""B":[1]"#,
        r#""\u0044":1.5"#,
        r#""odata.etag":"W/\"x\"""#,
        r#""odata.etag":"v""#,
        r#""odata.type":"x","odata.other":{"a":[1,{}]}"#,
        r#""Timestamp":"2013-01-01T00:00:00.1234567Z""#,
        r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":null"#,
    ]);
    let keys = prop_oneof![
        9 => prop::sample::select(vec![
            r#""PartitionKey":"p","RowKey":"r""#,
            r#""PartitionKey":"o'x","RowKey":"\u00e9""#,
            r#""RowKey":"r","PartitionKey":"p""#,
        ]),
        1 => prop::sample::select(vec![r#""PartitionKey":"a/b","RowKey":"r""#, r#""RowKey":"r""#]),
    ];
    (keys, proptest::collection::vec(member, 0..5)).prop_map(|(keys, members)| {
        let members: Vec<_> = std::iter::once(keys).chain(members).collect();
        format!("{{{}}}", members.join(","))
    })
}

proptest! {
    #[test]
    fn entities_survive_a_round_trip(entity in any_entity()) {
        let json = encode_entity(&entity);
        let back = decode_entity(&json).unwrap();
        prop_assert_eq!(back.key(), entity.key());
        // Compares bytes, not values: NaN differs from itself, and -0.0 equals 0.0.
        let bits = |e: &Entity| e.properties().as_packed().to_vec();
        if !entity.properties().iter().any(|p| matches!(p.value(), ValueRef::Double(d) if d.is_nan())) {
            prop_assert_eq!(bits(&back), bits(&entity));
            let by_serde: Entity = serde_json::from_slice(&json).unwrap();
            prop_assert_eq!(by_serde, back, "serde reads the service's form");
        }
    }

    #[test]
    fn the_form_of_serde_is_read(entity in any_entity()) {
        let json = serde_json::to_vec(&entity).unwrap();
        let back = decode_entity(&json).unwrap();
        prop_assert_eq!(back.key(), entity.key());
        // NaN differs from itself.
        if !entity.properties().iter().any(|p| matches!(p.value(), ValueRef::Double(d) if d.is_nan())) {
            prop_assert_eq!(back.properties().as_packed(), entity.properties().as_packed());
        }
    }

    #[test]
    fn strings_are_written_like_serde_json(text in "\\PC{0,30}|[\\x00-\\x7F]{0,30}") {
        let json = encode_entity(&Entity::new("p", "r").unwrap().with("P", text.as_str()));
        let expected = format!(r#"{{"PartitionKey":"p","RowKey":"r","P":{}}}"#, serde_json::to_string(&text).unwrap());
        prop_assert_eq!(String::from_utf8(json).unwrap(), expected);
    }

    #[test]
    fn entities_in_sequence_are_written_like_single_entities(entities in proptest::collection::vec(any_entity(), 0..4), turns in proptest::collection::vec(0..4_usize, 0..12)) {
        let (mut encoder, mut all, mut alone) = (EntityEncoder::default(), Vec::new(), Vec::new());
        for entity in turns.iter().filter_map(|turn| entities.get(*turn)) {
            encoder.encode(entity, &mut all);
            alone.extend(encode_entity(entity));
        }
        prop_assert_eq!(all, alone);
    }

    #[test]
    fn entities_of_a_page_are_read_like_single_entities(entities in proptest::collection::vec(members(), 0..8), turns in proptest::collection::vec(0..8_usize, 0..16)) {
        let json: Vec<_> = turns.iter().filter_map(|turn| entities.get(*turn)).map(String::as_str).collect();
        let page = decode_entities(format!(r#"{{"value":[{}]}}"#, json.join(",")).as_bytes());
        let alone: table_core::Result<Vec<_>> = json.iter().map(|json| decode_entity(json.as_bytes())).collect();
        match (page, alone) {
            (Ok(page), Ok(alone)) => prop_assert_eq!(page, alone),
            (page, alone) => prop_assert_eq!(page.is_err(), alone.is_err()),
        }
    }

    #[test]
    fn encoded_entities_are_json(entity in any_entity()) {
        let tree: serde_json::Value = serde_json::from_slice(&encode_entity(&entity)).unwrap();
        prop_assert_eq!(tree["PartitionKey"].as_str(), Some(entity.key().partition()));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
        let _ = (decode_entity(&bytes), decode_entities(&bytes), decode_table_names(&bytes));
    }

    #[test]
    fn damaged_entities_are_read_or_refused(entity in any_entity(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut json = encode_entity(&entity);
        let at = at.index(json.len());
        json[at] = byte;
        let _ = decode_entity(&json);
        let _ = decode_entity(&json[..at]);
    }
}

fn value(json: &str) -> Option<EdmValue> {
    let json = format!(r#"{{"PartitionKey":"p","RowKey":"r",{json}}}"#);
    decode_entity(json.as_bytes())
        .unwrap()
        .get("X")
        .map(ValueRef::to_owned)
}

fn refused(json: &str) -> String {
    let json = format!(r#"{{"PartitionKey":"p","RowKey":"r",{json}}}"#);
    let error = decode_entity(json.as_bytes()).unwrap_err();
    std::error::Error::source(&error).unwrap().to_string()
}

#[test]
fn nan_is_a_double() {
    let read = value(r#""X@odata.type":"Edm.Double","X":"NaN""#);
    assert!(matches!(read, Some(EdmValue::Double(d)) if d.is_nan()));
    let written = encode_entity(&Entity::new("p", "r").unwrap().with("X", f64::NAN));
    assert!(
        String::from_utf8(written)
            .unwrap()
            .ends_with(r#""X@odata.type":"Edm.Double","X":"NaN"}"#)
    );
}

#[test]
fn annotations_apply_before_after_and_far_from_their_values() {
    let long = Some(EdmValue::Int64(7));
    assert_eq!(value(r#""X@odata.type":"Edm.Int64","X":"7""#), long);
    assert_eq!(value(r#""X":"7","X@odata.type":"Edm.Int64""#), long);
    assert_eq!(value(r#""X":"7","Y":1,"X@odata.type":"Edm.Int64""#), long);
    assert_eq!(
        value(r#""X@odata.type":"Edm.Int64","Y@odata.type":"Edm.Guid","Z":1,"X":"7""#),
        long
    );
    assert_eq!(value(r#""X":7,"X@odata.type":"Edm.Int64""#), long);
    assert_eq!(
        value(r#""X":1,"X@odata.type":"Edm.Double""#),
        Some(EdmValue::Double(1.0))
    );
    assert_eq!(
        value(r#""X":"AQI=","X@odata.type":"Edm.Binary""#),
        Some(EdmValue::Binary(vec![1, 2]))
    );
    assert_eq!(
        value(r#""X":"7","X@odata.type":"Edm.String""#),
        Some("7".into())
    );
}

#[test]
fn values_without_annotation_have_their_json_type() {
    assert_eq!(value(r#""X":1"#), Some(EdmValue::Int32(1)));
    assert_eq!(value(r#""X":1.0"#), Some(EdmValue::Double(1.0)));
    assert_eq!(value(r#""X":1e3"#), Some(EdmValue::Double(1000.0)));
    assert_eq!(
        value(r#""X":2147483648"#),
        Some(EdmValue::Int64(2_147_483_648))
    );
    assert_eq!(value(r#""X":true"#), Some(EdmValue::Boolean(true)));
    assert_eq!(
        value(r#""X":"2013-01-01T00:00:00Z""#),
        Some("2013-01-01T00:00:00Z".into())
    );
}

#[test]
fn null_is_absent() {
    assert_eq!(value(r#""X":null"#), None);
    assert_eq!(value(r#""X@odata.type":"Edm.Int64","X":null"#), None);
    assert_eq!(value(r#""X":null,"X@odata.type":"Edm.Int64""#), None);
}

#[test]
fn a_value_of_the_wrong_type_is_refused_by_property_name_without_showing_it() {
    for (edm_type, json) in [
        ("Edm.Int64", "\"se7en\""),
        ("Edm.Int32", "1.5"),
        ("Edm.Int32", "2147483648"),
        ("Edm.DateTime", "\"se7en\""),
        ("Edm.Guid", "\"se7en\""),
        ("Edm.Binary", "\"se7en!\""),
        ("Edm.Double", "\"se7en\""),
        ("Edm.Double", "true"),
        ("Edm.String", "7"),
        ("Edm.Boolean", "7"),
    ] {
        for order in [
            format!(r#""X@odata.type":"{edm_type}","X":{json}"#),
            format!(r#""X":{json},"X@odata.type":"{edm_type}""#),
        ] {
            let message = refused(&order);
            assert!(
                message.contains("property 'X'") && message.contains(edm_type),
                "{order}: {message}"
            );
            assert!(!message.contains("se7en"), "{message}");
        }
    }
    assert!(refused(r#""X@odata.type":"Edm.Decimal","X":1"#).contains("Edm.Decimal"));
    assert!(refused(r#""X":[1]"#).contains("property 'X'"));
    assert!(refused(r#""X":{"a":1}"#).contains("property 'X'"));
}

#[test]
fn system_properties_are_not_custom_properties() {
    let json =
        br#"{"odata.metadata":"http://h/$metadata#T/@Element","odata.type":"a.T","odata.id":"x",
        "odata.etag":"W/\"datetime'2013-01-01T00%3A00%3A00.1234567Z'\"","odata.editLink":"x",
        "PartitionKey":"p","RowKey":"r\u0027","Timestamp@odata.type":"Edm.DateTime",
        "Timestamp":"2013-01-01T00:00:00.1234567Z","X":"x"}"#;
    let entity = decode_entity(json).unwrap();
    assert_eq!(entity.key().to_string(), "('p', 'r''')");
    assert_eq!(
        entity.etag().unwrap().to_string(),
        "W/\"datetime'2013-01-01T00%3A00%3A00.1234567Z'\""
    );
    assert_eq!(
        entity.timestamp().unwrap().to_string(),
        "2013-01-01T00:00:00.1234567Z"
    );
    assert_eq!(
        entity
            .properties()
            .iter()
            .map(|p| p.name())
            .collect::<Vec<_>>(),
        ["X"]
    );
}

#[test]
fn pages_contain_their_items() {
    let json = br#"{"odata.metadata":"m","value":[{"PartitionKey":"p","RowKey":"1"},{"PartitionKey":"p","RowKey":"2"}]}"#;
    let rows: Vec<_> = decode_entities(json)
        .unwrap()
        .iter()
        .map(|e| e.key().row().to_owned())
        .collect();
    assert_eq!(rows, ["1", "2"]);
    let tables = decode_table_names(br#"{"value":[{"TableName":"abc","odata.id":"x"}]}"#).unwrap();
    assert_eq!(tables[0].as_str(), "abc");
    assert!(decode_entities(b"{}").is_err());
    assert!(decode_entities(br#"{"value":[]} x"#).is_err());
}

/// The texts that the typed tests of `table-core` read by serde.
#[test]
fn entities_of_other_clients_are_read_like_serde_reads_them() {
    for json in [
        include_str!("../../../table-core/src/typed/tests/clients/node.json"),
        include_str!("../../../table-core/src/typed/tests/clients/python.json"),
        include_str!("../../../table-core/src/typed/tests/clients/dotnet.json"),
    ] {
        let by_serde: Entity = serde_json::from_str(json).unwrap();
        assert!(by_serde.properties().len() >= 6, "{json}");
        let page = format!(r#"{{"value":[{json},{json}]}}"#);
        let alone = decode_entity(json.as_bytes()).unwrap();
        for read in decode_entities(page.as_bytes())
            .unwrap()
            .iter()
            .chain([&alone])
        {
            assert_eq!(read, &by_serde, "{json}");
            assert_eq!(
                (read.etag(), read.timestamp()),
                (by_serde.etag(), by_serde.timestamp()),
                "{json}"
            );
        }
    }
}
