//! Typed values through the service's JSON: what a type writes, it reads, by the decoder of this crate and by serde.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use table_azure::wire::{decode_entity, encode_entity};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key};
use table_core::store::TableStore as _;
use table_core::typed::{FromEntity, Property, PropertyGroup, Serde, SerdeTable, TableEntity};

#[derive(Clone, Debug, PartialEq, Property)]
#[entity(rename_all = "lowercase")]
enum State {
    Open,
    #[entity(alias = "done")]
    Closed,
    #[entity(other)]
    Other(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Property)]
#[entity(integer)]
#[repr(i32)]
enum Level {
    Low = 1,
    High = 10,
    #[entity(other)]
    Other(i32),
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Address {
    #[entity(alias = "Town")]
    city: String,
    zip: Option<String>,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase", partition_key = "all", row_key = "{id}")]
struct Host {
    id: u32,
    state: State,
    level: Level,
    installed: NaiveDate,
    seen: Option<DateTime<Utc>>,
    uptime: Duration,
    #[entity(alias = "Years")]
    age: i64,
    load: f64,
    #[entity(json)]
    tags: Option<Vec<String>>,
    #[entity(flatten(prefix = "Home"))]
    home: Address,
    #[entity(flatten(prefix = "Work"))]
    work: Address,
    #[entity(split)]
    notes: String,
    #[entity(split)]
    picture: Option<Vec<u8>>,
}

/// The same rows by their former names, as an earlier program wrote them.
const FORMER_NAMES: [(&str, &str); 3] = [
    ("Age", "Years"),
    ("HomeCity", "HomeTown"),
    ("WorkCity", "WorkTown"),
];

fn state() -> impl Strategy<Value = State> {
    let other = "[A-Z]{0,8}".prop_map(State::Other);
    prop_oneof![Just(State::Open), Just(State::Closed), other]
}

fn level() -> impl Strategy<Value = Level> {
    let other = any::<i32>()
        .prop_filter("a known level", |n| ![1, 10].contains(n))
        .prop_map(Level::Other);
    prop_oneof![Just(Level::Low), Just(Level::High), other]
}

fn address() -> impl Strategy<Value = Address> {
    (any::<String>(), any::<Option<String>>()).prop_map(|(city, zip)| Address { city, zip })
}

/// The days and times of the service, from the year 1601 on.
fn day() -> impl Strategy<Value = NaiveDate> {
    (0..3_000_000_u64).prop_map(|days| {
        let first = NaiveDate::from_ymd_opt(1601, 1, 1).unwrap();
        first.checked_add_days(chrono::Days::new(days)).unwrap()
    })
}

/// The property has 100 nanoseconds of precision.
fn time() -> impl Strategy<Value = DateTime<Utc>> {
    (day(), 0..864_000_000_000_i64).prop_map(|(day, ticks)| {
        day.and_hms_opt(0, 0, 0).unwrap().and_utc() + TimeDelta::nanoseconds(ticks * 100)
    })
}

fn duration() -> impl Strategy<Value = Duration> {
    (0..i64::MAX as u64)
        .prop_map(|ticks| Duration::new(ticks / 10_000_000, (ticks % 10_000_000) as u32 * 100))
}

/// Texts of one and of several properties.
fn long() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        (30_000..100_000_usize, "[a\u{e9}\u{1F600}]").prop_map(|(n, c)| c.repeat(n / 4))
    ]
}

fn host() -> impl Strategy<Value = Host> {
    let first = (
        any::<u32>(),
        state(),
        level(),
        day(),
        proptest::option::of(time()),
        duration(),
        any::<i64>(),
    );
    let load = any::<f64>().prop_filter("NaN differs from itself", |load| !load.is_nan());
    let picture =
        proptest::option::of((0..150_000_usize, any::<u8>()).prop_map(|(n, byte)| vec![byte; n]));
    let second = (
        load,
        any::<Option<Vec<String>>>(),
        address(),
        address(),
        long(),
        picture,
    );
    (first, second).prop_map(|(first, second)| {
        let (id, state, level, installed, seen, uptime, age) = first;
        let (load, tags, home, work, notes, picture) = second;
        Host {
            id,
            state,
            level,
            installed,
            seen,
            uptime,
            age,
            load,
            tags,
            home,
            work,
            notes,
            picture,
        }
    })
}

/// A type of serde alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Plain {
    partition_key: String,
    row_key: String,
    count: u64,
    small: i8,
    share: f64,
    name: Option<String>,
    tags: Vec<String>,
    shape: Shape,
    is_new: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle { radius: i32 },
    Text(String),
}

fn plain() -> impl Strategy<Value = Plain> {
    let key = || "[a-z0-9_]{0,12}";
    let shape = prop_oneof![
        Just(Shape::Point),
        any::<i32>().prop_map(|radius| Shape::Circle { radius }),
        any::<String>().prop_map(Shape::Text)
    ];
    // The service has no unsigned 64-bit numbers.
    let count = 0..=i64::MAX as u64;
    let share = any::<f64>().prop_filter("NaN differs from itself", |share| !share.is_nan());
    let first = (key(), key(), count, any::<i8>(), share);
    let second = (
        any::<Option<String>>(),
        any::<Vec<String>>(),
        shape,
        any::<bool>(),
    );
    (first, second).prop_map(|((partition_key, row_key, count, small, share), second)| {
        let (name, tags, shape, is_new) = second;
        Plain {
            partition_key,
            row_key,
            count,
            small,
            share,
            name,
            tags,
            shape,
            is_new,
        }
    })
}

/// Returns the entity that a table of the type writes.
fn stored(plain: &Plain) -> Entity {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let table = SerdeTable::<Plain>::new(MemoryStore::new(), "Plain").unwrap();
        table.create_if_missing().await.unwrap();
        table.insert(plain).await.unwrap();
        let key = Key::new(plain.partition_key.as_str(), plain.row_key.as_str()).unwrap();
        table
            .store()
            .get(table.name(), &key, None)
            .await
            .unwrap()
            .unwrap()
    })
}

/// The entity after each way through JSON.
fn through_json(entity: &Entity) -> [Entity; 3] {
    let by_wire = encode_entity(entity);
    let by_serde = serde_json::to_vec(entity).unwrap();
    [
        decode_entity(&by_wire).unwrap(),
        decode_entity(&by_serde).unwrap(),
        serde_json::from_slice(&by_wire).unwrap(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_form_of_a_type_survives(host in host()) {
        let entity = host.to_entity().unwrap();
        prop_assert_eq!(&Host::from_entity(entity.clone()).unwrap(), &host);
        for read in through_json(&entity) {
            prop_assert_eq!(&Host::from_entity(read).unwrap(), &host);
        }
    }

    #[test]
    fn former_names_and_narrow_numbers_are_read(host in host(), age in any::<i32>()) {
        let host = Host { age: i64::from(age), load: f64::from(age), ..host };
        let entity = host.to_entity().unwrap();
        let mut former = Entity::from(entity.key().clone());
        for property in entity.properties() {
            let names = FORMER_NAMES.iter().find(|(name, _)| *name == property.name());
            let name = names.map_or(property.name(), |(_, former)| former);
            match property.name() {
                // JavaScript writes whole numbers as Int32.
                "Age" | "Load" => former.properties_mut().set(name, age),
                _ => former.properties_mut().set(name, property.value().to_owned()),
            };
        }
        for read in through_json(&former) {
            prop_assert_eq!(&Host::from_entity(read).unwrap(), &host);
        }
    }

    #[test]
    fn a_type_of_serde_survives(plain in plain()) {
        let entity = stored(&plain);
        for read in through_json(&entity) {
            prop_assert_eq!(&Serde::<Plain>::from_entity(read).unwrap().into_inner(), &plain);
        }
    }
}
