use std::convert::Infallible;

use crate::model::{EdmValue, INDEX_NAME, PackBuffer, Properties, PropertyDictionary};
use proptest::prelude::*;

fn packed(properties: &Properties, dictionary: &mut PropertyDictionary) -> Vec<u8> {
    let mut row = Vec::new();
    let mut number = |entry: &[u8]| {
        Ok::<_, Infallible>(dictionary.number(entry).or_else(|| dictionary.add(entry)))
    };
    let mut rest = properties.as_packed();
    while PropertyDictionary::pack_next(&mut rest, &mut row, &mut number).unwrap() {}
    row
}

fn unpacked(row: &[u8], dictionary: &PropertyDictionary) -> Option<Vec<u8>> {
    let mut out = PackBuffer::default();
    let unpacked = dictionary
        .unpack(row, &mut out)
        .map(|()| out.as_bytes().to_vec());
    assert_eq!(
        dictionary.unpacked_len(row),
        unpacked.as_ref().map(Vec::len)
    );
    unpacked
}

fn value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(EdmValue::Binary),
        any::<bool>().prop_map(EdmValue::Boolean),
        any::<f64>().prop_map(EdmValue::Double),
        any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(uuid::Uuid::from_bytes(bytes))),
        any::<i32>().prop_map(EdmValue::Int32),
        any::<i64>().prop_map(EdmValue::Int64),
        "\\PC{0,300}".prop_map(EdmValue::String),
    ]
}

proptest! {
    #[test]
    fn rows_survive_a_round_trip(
        rows in proptest::collection::vec(proptest::collection::vec(("[a-e]{1,2}|IndexName|\\PC{1,60}", value(), any::<bool>()), 0..12), 1..8),
        before in prop_oneof![Just(0), Just(120), Just(PropertyDictionary::MAX_ENTRIES - 5)],
    ) {
        let mut dictionary = PropertyDictionary::default();
        for n in 0..before {
            dictionary.add(format!("\x05\x04\0{n:04}").as_bytes()).unwrap();
        }
        for row in rows {
            let mut properties = Properties::new();
            row.iter().for_each(|(name, value, mark)| properties.put(name, value.as_ref(), *mark));
            let stored = packed(&properties, &mut dictionary);
            prop_assert_eq!(unpacked(&stored, &dictionary).unwrap(), properties.as_packed());
            for name in row.iter().map(|(name, ..)| name.as_str()).chain(["absent"]) {
                let (found, value) = (dictionary.value_of(&stored, name), properties.get(name));
                prop_assert_eq!(format!("{found:?}"), format!("{value:?}"));
            }
            let (found, value) = (dictionary.index_name(&stored), properties.get(INDEX_NAME));
            prop_assert_eq!(format!("{found:?}"), format!("{value:?}"));
        }
        prop_assert!(dictionary.iter().count() <= PropertyDictionary::MAX_ENTRIES);
    }

    #[test]
    fn any_bytes_are_unpacked_or_refused(row in any::<Vec<u8>>()) {
        let mut dictionary = PropertyDictionary::default();
        packed(&[("Name", EdmValue::from("x")), ("Age", EdmValue::from(5))].into_iter().collect(), &mut dictionary);
        unpacked(&row, &dictionary);
    }
}

#[test]
fn a_row_contains_numbers_instead_of_names() {
    let mut dictionary = PropertyDictionary::default();
    let properties: Properties = [
        ("Delay", EdmValue::from(2)),
        ("Dest", EdmValue::from("IAH")),
    ]
    .into_iter()
    .collect();
    assert_eq!(
        packed(&properties, &mut dictionary),
        b"\x01\x02\0\0\0\x02\x03IAH"
    );
}

#[test]
fn invalid_entries_get_no_number() {
    let mut dictionary = PropertyDictionary::default();
    for damaged in [
        &b""[..],
        b"\x07",
        b"\x07\x02\0a",
        b"\x08\x01\0a",
        b"\x07\x01\0ab",
        b"\x07\x01\0\xFF",
    ] {
        assert_eq!(dictionary.add(damaged), None);
    }
    assert_eq!(dictionary.add(b"\x87\x01\0a"), Some(1));
}
