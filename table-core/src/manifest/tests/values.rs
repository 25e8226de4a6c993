//! Every encoding and transform, against the key parts that derived code writes.

use std::cmp::Reverse;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use proptest::prelude::*;
use uuid::Uuid;

use crate::manifest::{IndexDefinition, Placement, lowercase};
use crate::model::{
    EdmValue, Entity, Hour, Key, KeyBuilder, KeyPart, PartFormat, Properties, ReverseKeyPart,
    Shards, Ticks, key_order,
};
use crate::typed::{Property, PropertySink};

fn entity(property: &impl Property) -> Entity {
    let mut properties = Properties::new();
    property
        .write(PropertySink::new(&mut properties, "V", false))
        .unwrap();
    Entity::from_parts(Key::new("p", "r").unwrap(), properties)
}

/// The RowKey that a template gives.
fn evaluated(template: &str, entity: &Entity) -> String {
    let index = IndexDefinition::keyed(
        "i",
        Placement::SamePartition,
        None,
        template.parse().unwrap(),
    );
    let index = IndexDefinition::from_json(&index.to_json()).unwrap();
    index.entry_keys(entity).unwrap()[0].row().to_owned()
}

/// The text that derived code writes for a part with text before and after it.
fn written(part: &impl KeyPart, width: Option<usize>) -> String {
    let key = KeyBuilder::new("RowKey", "").literal("a_");
    key.part(
        "v",
        part,
        PartFormat {
            width,
            separator: Some('_'),
        },
    )
    .unwrap()
    .literal("_b")
    .finish()
}

/// A declared part as itself and in descending order.
fn check_turned<P: Property + ReverseKeyPart + Copy>(value: P, word: &str) {
    let entity = entity(&value);
    assert_eq!(
        evaluated(&format!("a_{{V:{word}}}_b"), &entity),
        written(&value, None),
        "{word}"
    );
    assert_eq!(
        evaluated(&format!("a_{{V:{word}:desc}}_b"), &entity),
        written(&Reverse(value), None),
        "{word}"
    );
}

fn check_unsigned<P: Property + ReverseKeyPart + Copy>(value: P, word: &str) {
    check_turned(value, word);
    let entity = entity(&value);
    assert_eq!(
        evaluated(&format!("a_{{V:{word}:020}}_b"), &entity),
        written(&value, Some(20)),
        "{word}"
    );
    let turned = written(&Reverse(value), Some(20));
    assert_eq!(
        evaluated(&format!("a_{{V:{word}:desc:020}}_b"), &entity),
        turned,
        "{word}"
    );
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".*",
        "[A-Za-z_~/#İΣßǅ]{0,12}",
        "[\u{0}-\u{1F}\u{7F}-\u{A0}]{1,4}"
    ]
}

fn time() -> impl Strategy<Value = DateTime<Utc>> {
    (0..=Ticks::MAX.get()).prop_map(|ticks| Ticks::new(ticks).unwrap().to_datetime())
}

proptest! {
    #[test]
    fn numbers(a in any::<u8>(), b in any::<u16>(), c in any::<u32>(), d in 0..=i64::MAX as u64,
               e in any::<i8>(), f in any::<i16>(), g in any::<i32>(), h in any::<i64>()) {
        check_unsigned(a, "u8");
        check_unsigned(b, "u16");
        check_unsigned(c, "u32");
        check_unsigned(d, "u64");
        check_turned(e, "i8");
        check_turned(f, "i16");
        check_turned(g, "i32");
        check_turned(h, "i64");
    }

    #[test]
    fn doubles_flags_and_ids(a in any::<f64>().prop_filter("NaN has no key", |v| !v.is_nan()), b in any::<bool>(), c in any::<u128>()) {
        check_turned(a, "f64");
        prop_assert_eq!(evaluated("a_{V:bool}_b", &entity(&b)), written(&b, None));
        let id = Uuid::from_u128(c);
        prop_assert_eq!(evaluated("a_{V:uuid}_b", &entity(&id)), written(&id, None));
    }

    #[test]
    fn times(at in time()) {
        check_turned(at, "time");
        check_turned(at.naive_utc(), "time");
        let (ticks, stored) = (Ticks::from(at), entity(&at));
        check_turned(ticks, "time");
        prop_assert_eq!(evaluated("a_{V:time:date}_b", &stored), written(&at.date_naive(), None));
        prop_assert_eq!(evaluated("a_{V:date}_b", &stored), written(&NaiveDateTime::date(&at.naive_utc()), None));
        prop_assert_eq!(evaluated("a_{V:time:hour}_b", &stored), written(&Hour::of(ticks), None));
        prop_assert_eq!(evaluated("{V:hour}", &stored), at.format("%Y-%m-%dT%H").to_string());
    }

    #[test]
    fn texts(value in text(), count in 1u32..6, shards in 1u16..=1000) {
        let stored = entity(&value);
        prop_assert_eq!(evaluated("a_{V:text}_b", &stored), written(&value, None));
        prop_assert_eq!(evaluated("a_{V}_b", &stored), written(&value, None));
        let lower = lowercase(&value);
        prop_assert_eq!(evaluated("a_{V:lower}_b", &stored), written(&lower, None));
        let prefix: String = value.chars().take(count as usize).collect();
        prop_assert_eq!(evaluated(&format!("a_{{V:text:prefix({count})}}_b"), &stored), written(&prefix, None));
        // Each character alone: the order of the two does not matter.
        let both = written(&lowercase(&prefix), None);
        prop_assert_eq!(&evaluated(&format!("a_{{V:lower:prefix({count})}}_b"), &stored), &both);
        prop_assert_eq!(&evaluated(&format!("a_{{V:prefix({count}):lower}}_b"), &stored), &both);
        let shard = Shards::new(shards).unwrap();
        prop_assert_eq!(evaluated(&format!("{{V#{shards}}}"), &stored), shard.partition("", &value));
        prop_assert_eq!(evaluated(&format!("{{V:lower#{shards}}}"), &stored), shard.partition("", &lower));
    }

    /// A value that another client has stored as a narrower type gets the key of the declared type.
    #[test]
    fn stored_integers_are_widened(value in any::<i32>()) {
        let stored = Entity::new("p", "r").unwrap().with("V", EdmValue::Int32(value));
        prop_assert_eq!(evaluated("a_{V:i64}_b", &stored), written(&i64::from(value), None));
        if let Ok(unsigned) = u32::try_from(value) {
            prop_assert_eq!(evaluated("a_{V:u32}_b", &stored), written(&unsigned, None));
            prop_assert_eq!(evaluated("a_{V:010}_b", &stored), written(&unsigned, None));
        }
        prop_assert_eq!(evaluated("a_{V}_b", &stored), written(&value, None));
    }

    #[test]
    fn lists(tags in proptest::collection::vec(text(), 0..6), numbers in proptest::collection::vec(any::<u32>(), 0..6)) {
        let stored = Entity::new("p", "r").unwrap()
            .with("Tags", serde_json::to_string(&tags).unwrap())
            .with("Numbers", serde_json::to_string(&numbers).unwrap());
        let keys = |template: &str| {
            let index = IndexDefinition::keyed("i", Placement::SamePartition, None, template.parse().unwrap());
            let keys = index.entry_keys(&stored).unwrap().into_iter().map(|key| key.row().to_owned());
            keys.collect::<Vec<_>>()
        };
        let mut wanted: Vec<String> = Vec::new();
        for key in tags.iter().map(|tag| written(&lowercase(tag), None)) {
            if !wanted.contains(&key) { wanted.push(key) }
        }
        prop_assert_eq!(keys("a_{Tags[]:text:lower}_b"), wanted);
        let mut wanted: Vec<String> = Vec::new();
        for key in numbers.iter().map(|n| written(&Reverse(*n), None)) {
            if !wanted.contains(&key) { wanted.push(key) }
        }
        prop_assert_eq!(keys("a_{Numbers[]:u32:desc}_b"), wanted);
    }

    #[test]
    fn doubles_sort_and_read_back(a in any::<f64>(), b in any::<f64>()) {
        prop_assume!(!a.is_nan() && !b.is_nan());
        let (x, y) = (written(&a, None), written(&b, None));
        prop_assert_eq!(Some(key_order::compare(&x, &y)), a.partial_cmp(&b));
        let (x, y) = (written(&Reverse(a), None), written(&Reverse(b), None));
        prop_assert_eq!(Some(key_order::compare(&y, &x)), a.partial_cmp(&b));
    }
}

#[test]
fn hours_and_days_are_in_utc() {
    let at = DateTime::UNIX_EPOCH + TimeDelta::minutes(59);
    assert_eq!(evaluated("{V:hour}", &entity(&at)), "1970-01-01T00");
    assert_eq!(
        evaluated("{V:date}", &entity(&(at - TimeDelta::hours(1)))),
        "1969-12-31"
    );
}
