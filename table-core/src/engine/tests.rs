use std::ops::RangeBounds;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::error::ErrorKind;
use crate::model::{Entity, Key, Properties, TableName, Ticks};
use crate::profile::ServiceProfile;
use crate::query::{Continuation, Filter, Position, Query};

/// The formula by hand for each type: `8 + 2 * name + value`, plus `4 + 2 * keys`.
#[test]
fn sizes_follow_the_documented_formula() {
    let size = |entity: Entity| entity_size(entity.key(), entity.properties());
    let empty = |partition, row| Entity::new(partition, row).unwrap();
    assert_eq!(size(empty("", "")), 4);
    assert_eq!(size(empty("Sales", "1")), 4 + 2 * 6);
    assert_eq!(size(empty("\u{1F600}", "é")), 4 + 2 * 3);
    let one = |entity: Entity| size(entity) - 4;
    let none = || empty("", "");
    assert_eq!(one(none().with("A", vec![1u8, 2, 3])), 8 + 2 + 4 + 3);
    assert_eq!(one(none().with("A", true)), 8 + 2 + 1);
    assert_eq!(one(none().with("A", Ticks::MIN)), 8 + 2 + 8);
    assert_eq!(one(none().with("A", 1.0)), 8 + 2 + 8);
    assert_eq!(one(none().with("A", Uuid::nil())), 8 + 2 + 16);
    assert_eq!(one(none().with("A", 1)), 8 + 2 + 4);
    assert_eq!(one(none().with("A", 1i64)), 8 + 2 + 8);
    assert_eq!(one(none().with("A", "")), 8 + 2 + 4);
    assert_eq!(
        one(none().with("Größe", "a\u{1F600}")),
        8 + 2 * 5 + 4 + 2 * 3
    );
    let both = empty("Sales", "empid_000223")
        .with("FirstName", "Ken")
        .with("Age", 41);
    assert_eq!(
        size(both),
        4 + 2 * 17 + (8 + 2 * 9 + 4 + 2 * 3) + (8 + 2 * 3 + 4)
    );
}

proptest! {
    #[test]
    fn records_survive_a_round_trip(version in any::<u64>(), ticks in 0..=Ticks::MAX.get(), text in ".*") {
        let stamp = Stamp { version, time: Ticks::new(ticks).unwrap() };
        let record = Record { stamp, properties: Properties::from_iter([("Text", text)]) };
        prop_assert_eq!(Record::from_bytes(&record.to_bytes()).unwrap(), record);
    }

    /// Bytes that are not a record are an error; all others survive a round trip.
    #[test]
    fn damaged_records_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        match Record::from_bytes(&bytes) {
            Ok(record) => prop_assert_eq!(record.to_bytes(), bytes),
            Err(error) => prop_assert!(matches!(error.kind(), ErrorKind::Storage(_)), "{error}"),
        }
    }
}

/// A filter can contain U+0000, a key cannot. Stored keys use it as a separator, so such a bound must neither
/// hide rows of its partition nor show rows of another.
#[test]
fn bounds_with_characters_that_no_key_has_are_correct() {
    let keys = ["", "a", "a!", "b"].map(|partition| Key::new(partition, "row").unwrap());
    for literal in ["a\0", "a\0z", "\0", "a\0row"] {
        for filter in [
            Filter::lt("PartitionKey", literal),
            Filter::le("PartitionKey", literal),
            Filter::gt("PartitionKey", literal),
            Filter::ge("PartitionKey", literal),
            Filter::eq("PartitionKey", literal),
            Filter::eq("PartitionKey", "a").and(Filter::lt("RowKey", "row\0")),
            Filter::eq("PartitionKey", "a").and(Filter::ge("RowKey", "\0")),
        ] {
            let matches = |key: &&Key| filter.matches_parts(key, None, &Properties::new());
            let expected: Vec<_> = keys.iter().filter(matches).collect();
            let query = Query::new().with_filter(filter.clone());
            let visited: Vec<_> = keys.iter().filter(|key| visits(&query, key)).collect();
            assert!(
                expected.iter().all(|key| visited.contains(key)),
                "{filter}: {visited:?}"
            );
        }
    }
}

/// Whether a scan visits the row.
fn visits(query: &Query, key: &Key) -> bool {
    let table = TableName::new("Table").unwrap();
    let scan = Scan::new(&ServiceProfile::LOCAL, &table, query, None).unwrap();
    let key = key.to_sortable();
    scan.range()
        .is_some_and(|range| RangeBounds::<[u8]>::contains::<[u8]>(&range, &key))
}

/// A continuation token is external input: a forged one is refused or starts somewhere within the query's
/// range.
#[test]
fn forged_continuations_are_refused_or_harmless() {
    let table = TableName::new("Table").unwrap();
    let query = Query::new().with_filter(Filter::eq("PartitionKey", "b"));
    let scan = |first: &str| {
        let position = Position {
            first: first.to_owned(),
            second: None,
        };
        let from = Continuation::new(&ServiceProfile::LOCAL, &table, &query, position);
        Scan::new(&ServiceProfile::LOCAL, &table, &query, Some(&from))
            .map(|scan| scan.range().is_some())
    };
    let error = scan("a/b").unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidContinuation(_)),
        "{error}"
    );
    assert!(!scan("c").unwrap(), "no row follows the partition");
    let position = Position {
        first: "a".to_owned(),
        second: None,
    };
    let before = Continuation::new(&ServiceProfile::LOCAL, &table, &query, position);
    let scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, Some(&before)).unwrap();
    let (hidden, shown) = (Key::new("a", "secret").unwrap(), Key::new("b", "").unwrap());
    let range = scan.range().unwrap();
    let visits = |key: &Key| RangeBounds::<[u8]>::contains::<[u8]>(&range, &key.to_sortable());
    assert!(!visits(&hidden) && visits(&shown), "{range:?}");
}
