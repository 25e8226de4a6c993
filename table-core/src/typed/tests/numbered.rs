//! Numbered rows, which a store with a property dictionary returns, are decoded like packed rows.

use std::sync::Arc;

use crate::engine::{Scan, Stamp};
use crate::model::{Entity, PropertyDictionary, TableName, Ticks};
use crate::query::Query;
use crate::store::ServiceProfile;
use crate::typed::{FromEntity, TableEntity};

const LONG: &str = "APropertyWithANameThatIsLongerThanABlock";

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Reading", rename_all = "PascalCase")]
struct Reading {
    #[partition_key]
    sensor: String,
    #[row_key]
    number: u32,
    celsius: f64,
    humidity: Option<i32>,
    #[entity(rename = "APropertyWithANameThatIsLongerThanABlock")]
    long: i64,
    #[encrypt]
    remark: String,
}

fn reading() -> Entity {
    Entity::new("a", "0000000001")
        .unwrap()
        .with("EntityType", "Reading")
        .with("Celsius", 20.5)
        .with("Humidity", 40)
        .with(LONG, 7i64)
        .with_encrypted("Remark", "x".repeat(200).as_str())
}

/// Returns the entity as a numbered row of a page. With `before` earlier dictionary entries, its numbers take two bytes,
/// or some properties get no number because the dictionary is full.
fn numbered(entity: &Entity, before: usize) -> Entity {
    let mut dictionary = PropertyDictionary::default();
    for n in 0..before {
        dictionary
            .add(format!("\x05\x04\0{n:04}").as_bytes())
            .unwrap();
    }
    let (stamp, mut row) = (
        Stamp {
            version: 1,
            time: Ticks::MIN,
        },
        Vec::new(),
    );
    stamp.push_bytes(&mut row);
    let mut number =
        |entry: &[u8]| Ok::<_, ()>(dictionary.number(entry).or_else(|| dictionary.add(entry)));
    let mut rest = entity.properties().as_packed();
    while PropertyDictionary::pack_next(&mut rest, &mut row, &mut number).unwrap() {}
    let (table, query) = (TableName::new("Readings").unwrap(), Query::new());
    let mut scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, None).unwrap();
    scan.offer_numbered(&entity.key().to_sortable(), &row, &Arc::new(dictionary))
        .unwrap();
    scan.finish().items.remove(0)
}

#[test]
fn numbered_rows_are_decoded_like_packed_rows() {
    let mut without = reading();
    without.properties_mut().remove("Humidity");
    let mut later = reading();
    later.properties_mut().remove("Celsius");
    let newer = reading().with("Later", "added by a newer program");
    let cases = [
        reading(),
        without,
        later.clone(),
        later.with("Celsius", 1.0),
        newer,
        reading().with("Humidity", "dry"),
        reading().with("Remark", "not encrypted"),
        reading().with("EntityType", "Other"),
    ];
    for case in cases {
        let plain = Reading::from_entity(case.clone()).map_err(|e| e.to_string());
        for before in [
            0,
            126,
            PropertyDictionary::MAX_ENTRIES - 2,
            PropertyDictionary::MAX_ENTRIES,
        ] {
            let read = Reading::from_entity(numbered(&case, before)).map_err(|e| e.to_string());
            assert_eq!(read, plain, "{before} earlier dictionary entries");
        }
    }
    assert_eq!(
        Reading::from_entity(numbered(&reading(), 0))
            .unwrap()
            .humidity,
        Some(40)
    );
}

#[test]
fn they_can_be_changed() {
    let mut entity = numbered(&reading(), 0);
    entity.properties_mut().set("Celsius", 21.5);
    let (mut expected, copy) = (reading(), entity.clone());
    expected.properties_mut().set("Celsius", 21.5);
    assert_eq!(copy.properties(), expected.properties());
    assert_eq!(
        numbered(&reading(), 0).detached().properties(),
        reading().properties()
    );
}
