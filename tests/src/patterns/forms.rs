//! Forms of values and of names on every store: enums, days, durations, text, prefixes, former names.

use std::net::IpAddr;
use std::time::Duration;

use crate::open_table;
use bigdecimal::BigDecimal;
use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};
use futures_util::TryStreamExt as _;
use semver::Version;
use table_core::model::{Entity, IfMatch, Key, Properties};
use table_core::prelude::*;
use table_core::store::Operation;
use table_patterns::index::{IndexOptions, ScrubMode};
use table_patterns::{Database, Table};
use url::Url;

use crate::Harness;

#[derive(Clone, Debug, PartialEq, Property)]
#[entity(rename_all = "lowercase")]
enum State {
    Open,
    #[entity(alias = "done")]
    Closed,
    #[entity(other)]
    Other(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Property, KeyPart)]
#[entity(integer)]
enum Level {
    Low = 1,
    High = 10,
}

/// Numbers that the program does not know.
#[derive(Clone, Copy, Debug, PartialEq, Property)]
#[entity(integer)]
#[repr(i32)]
enum Grade {
    Good = 1,
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
#[entity(rename_all = "PascalCase")]
struct Host {
    #[partition_key]
    site: String,
    #[row_key]
    id: u32,
    state: State,
    level: Level,
    installed: NaiveDate,
    uptime: Duration,
    #[entity(text)]
    address: IpAddr,
    #[entity(text)]
    gateway: Option<IpAddr>,
    #[entity(json)]
    tags: Option<Vec<String>>,
    #[entity(alias = "Years")]
    age: i64,
    #[entity(default)]
    retries: i32,
    load: f64,
    grade: Grade,
    seen: DateTime<Utc>,
    local: NaiveDateTime,
    drift: TimeDelta,
    #[entity(text)]
    price: BigDecimal,
    #[entity(text)]
    home_page: Url,
    #[entity(text)]
    firmware: Version,
    #[entity(flatten(prefix = "Home"))]
    home: Address,
    #[entity(flatten(prefix = "Work"))]
    work: Address,
    #[etag]
    etag: Option<ETag>,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Visit", rename_all = "PascalCase")]
#[index(day, row_key = "day_{day}_{id}")]
#[index(level, row_key = "level_{level}_{id}")]
#[index(state, row_key = "state_{state}_{id}")]
struct Visit {
    #[partition_key]
    site: String,
    #[row_key(format = "visit_{}")]
    id: u32,
    day: NaiveDate,
    level: Level,
    state: Kind,
}

#[derive(Clone, Debug, PartialEq, Property, KeyPart)]
#[entity(rename_all = "lowercase")]
enum Kind {
    Open,
    #[entity(other)]
    Other(String),
}

fn day(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2013, 1, day).expect("a day")
}

fn host(id: u32) -> Host {
    let address = |city: &str| Address {
        city: city.to_owned(),
        zip: None,
    };
    Host {
        site: "london".to_owned(),
        id,
        state: State::Closed,
        level: Level::High,
        installed: day(31),
        uptime: Duration::from_millis(1500),
        address: IpAddr::from([10, 0, 0, 7]),
        gateway: Some(IpAddr::from([10, 0, 0, 1])),
        tags: Some(vec!["a".to_owned()]),
        age: 3,
        retries: 2,
        load: 0.25,
        grade: Grade::Good,
        // A time of `Utc::now()` has nanoseconds, which the service does not store.
        seen: Ticks::now().into(),
        local: day(2).and_hms_milli_opt(3, 4, 5, 678).expect("a time"),
        drift: TimeDelta::microseconds(-1_500),
        price: "12.50".parse().expect("a decimal number"),
        home_page: "https://example.com/a?b=c".parse().expect("an address"),
        firmware: "1.2.3-rc.1".parse().expect("a version"),
        home: address("Oslo"),
        work: Address {
            zip: Some("1".to_owned()),
            ..address("Bergen")
        },
        etag: None,
    }
}

async fn hosts(h: &Harness) -> Table<Host> {
    let hosts = Database::new(h.store().clone())
        .table::<Host>(h.unused_name())
        .expect("a table");
    hosts.declare().await.expect("a new table");
    hosts
}

fn key(id: u32) -> Key {
    Host::key("london", id).expect("a legal key").into_key()
}

async fn merge(hosts: &Table<Host>, id: u32, with: impl FnOnce(Entity) -> Entity) {
    let row = with(Entity::from(key(id)));
    hosts
        .store()
        .write(hosts.name(), Operation::Merge(row, IfMatch::Any))
        .await
        .expect("the row");
}

/// Every form is stored, read back, and found by a filter.
pub(crate) async fn every_form_is_stored_and_found(h: &Harness) {
    let hosts = hosts(h).await;
    let mut first = host(1);
    hosts
        .insert(&first)
        .await
        .expect("a new host")
        .renew(&mut first);
    let none = Host {
        gateway: None,
        tags: None,
        ..host(2)
    };
    hosts.insert(&none).await.expect("a new host");
    assert_eq!(hosts.get_existing(key(1)).await.expect("the host"), first);
    let found = async |condition| {
        let query = hosts
            .query()
            .partition(Host::partition("london").expect("a legal key"));
        query
            .filter(condition)
            .all()
            .await
            .expect("hosts")
            .iter()
            .map(|host| host.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found(Host::INSTALLED.ge(day(31)).and(Host::LEVEL.eq(Level::High))).await,
        [1, 2]
    );
    assert_eq!(found(Host::UPTIME.gt(Duration::from_secs(2))).await, [0; 0]);
    assert_eq!(
        found(
            Host::STATE
                .eq(State::Closed)
                .and(Host::WORK.field(Address::CITY).eq("Bergen"))
        )
        .await,
        [1, 2]
    );
    assert_eq!(
        found(Host::HOME.field(Address::CITY).eq("Bergen")).await,
        [0; 0]
    );
    assert_eq!(found(Host::GATEWAY.is_absent()).await, [2]);
    assert_eq!(found(!Host::TAGS.is_absent()).await, [1]);
    assert_eq!(
        found(Host::GRADE.eq(Grade::Good).and(Host::LOAD.lt(0.5))).await,
        [1, 2]
    );
    assert_eq!(found(Host::SEEN.eq(first.seen)).await, [1]);
    assert_eq!(
        found(
            Host::DRIFT
                .lt(TimeDelta::zero())
                .and(Host::LOCAL.eq(first.local))
        )
        .await,
        [1, 2]
    );

    first.state = State::Other("paused".to_owned());
    hosts
        .replace(&first)
        .await
        .expect("no other writer")
        .renew(&mut first);
    let patch = Host::patch()
        .gateway(IpAddr::from([10, 0, 0, 2]))
        .level(Level::Low);
    hosts
        .merge(key(1), &patch, IfMatch::Any)
        .await
        .expect("the host");
    let read = hosts.get_existing(key(1)).await.expect("the host");
    assert_eq!(read.state, State::Other("paused".to_owned()));
    assert_eq!(read.level, Level::Low);
    assert_eq!(read.gateway, Some(IpAddr::from([10, 0, 0, 2])));
}

/// A row under former names, with narrow numbers and an unknown state, is read. An update writes the present names.
pub(crate) async fn a_row_of_an_earlier_program_is_read_and_rewritten(h: &Harness) {
    let hosts = hosts(h).await;
    let first = host(1);
    let (mut old, old_seen) = (first.to_entity().expect("a row"), first.seen);
    for name in ["Age", "HomeCity", "Retries"] {
        old.properties_mut().remove(name);
    }
    let old = old
        .with("Years", 41)
        .with("HomeTown", "Oslo")
        .with("State", "done")
        .with("Uptime", 5);
    let old = old.with("Load", 3).with("Grade", 99);
    hosts
        .store()
        .write(hosts.name(), Operation::Insert(old))
        .await
        .expect("a new row");
    hosts.insert(&host(2)).await.expect("a new host");
    merge(&hosts, 2, |row| row.with("Level", 7)).await;

    let read = hosts.get_existing(key(1)).await.expect("the host");
    assert_eq!(read.age, 41);
    assert_eq!(&*read.home.city, "Oslo");
    assert_eq!(&read.state, &State::Closed);
    assert_eq!(read.uptime, Duration::from_nanos(500));
    assert_eq!(
        (read.retries, read.load, read.grade),
        (0, 3.0, Grade::Other(99))
    );
    assert_eq!(read.seen, old_seen);
    let page = hosts.query().readable_page(None).await.expect("a page");
    assert_eq!(page.page.items.len(), 1);
    assert_eq!(
        page.unreadable
            .iter()
            .map(|row| row.key.clone())
            .collect::<Vec<_>>(),
        [key(2)]
    );
    let rows: Vec<_> = hosts
        .query()
        .stream_readable()
        .try_collect()
        .await
        .expect("a stream that goes on");
    let ids: Vec<_> = rows
        .iter()
        .map(|row| {
            row.as_ref()
                .map(|host| host.id)
                .map_err(|row| row.key.clone())
        })
        .collect();
    assert_eq!(ids, [Ok(1), Err(key(2))]);
    let diff = hosts.schema_diff().await.expect("a comparison");
    assert_eq!(diff.rows, 2);
    assert_eq!(diff.unreadable, 1);
    assert_eq!(diff.properties["Age"].under_alias, 1);

    let older = |host: &mut Host| {
        host.age += 1;
        Ok(())
    };
    hosts.update(key(1), older).await.expect("an update");
    let rows = hosts.view::<Entity>().expect("the rows");
    let stored = rows.get_existing(key(1)).await.expect("the row");
    assert_eq!(stored.get("Age"), Some(ValueRef::Int64(42)));
    assert_eq!(
        stored.get("Grade"),
        Some(ValueRef::Int32(99)),
        "the unknown number is written back"
    );
    assert_eq!(stored.get("HomeCity"), Some(ValueRef::String("Oslo")));
    assert_eq!(stored.get("Years"), None);
    assert_eq!(stored.get("HomeTown"), None);
}

/// The error of a group counts its operations from one, and says what was written: nothing.
pub(crate) async fn errors_of_groups_name_the_operation(h: &Harness) {
    let hosts = hosts(h).await;
    hosts.insert(&host(2)).await.expect("a new host");
    let mut group = hosts.group(Host::partition("london").expect("a legal key"));
    group
        .insert(&host(1))
        .expect("a change")
        .insert(&host(2))
        .expect("a change");
    let error = group.commit().await.expect_err("the second host exists");
    assert!(error.to_string().contains("operation 2"), "{error}");
    assert!(!error.to_string().contains("operation 1 "), "{error}");
    assert!(
        hosts.get(key(1)).await.expect("a read").is_none(),
        "nothing was written"
    );
}

/// Programs with and without the Rust types compute the same entries of days, numbers and unknown texts.
pub(crate) async fn indexes_of_days_and_enums_are_in_step(h: &Harness) {
    let store = h.store().clone();
    let visits = open_table::<Visit>(store.clone(), h.unused_name(), IndexOptions::default()).await;
    let visits = visits.expect("an indexed table");
    let visit = |id, level, state| Visit {
        site: "london".to_owned(),
        id,
        day: day(id),
        level,
        state,
    };
    visits
        .insert(&visit(1, Level::Low, Kind::Open))
        .await
        .expect("a new visit");
    visits
        .insert(&visit(2, Level::High, Kind::Other("paused".to_owned())))
        .await
        .expect("a new visit");
    let ids = |found: Vec<Visit>| found.iter().map(|visit| visit.id).collect::<Vec<_>>();
    let on = visits
        .by(Visit::by_day("london").day(day(2)))
        .all()
        .await
        .expect("visits");
    assert_eq!(ids(on), [2]);
    let level = visits
        .by(Visit::by_level("london").level(Level::Low))
        .all()
        .await
        .expect("visits");
    assert_eq!(ids(level), [1]);
    let state = Visit::by_state("london").state(Kind::Other("paused".to_owned()));
    assert_eq!(ids(visits.by(state).all().await.expect("visits")), [2]);
    for index in ["day", "level", "state"] {
        let definition = Visit::SCHEMA
            .indexes
            .iter()
            .find(|definition| definition.name == index);
        assert!(!definition.expect("an index").is_opaque(), "{index}");
        let scrub = visits
            .entities()
            .await
            .expect("an open table")
            .scrub(index, ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(scrub.entries, 2, "{index}");
        assert_eq!(scrub.dangling, 0, "{index}");
        assert_eq!(scrub.missing, 0, "{index}");
    }
}

/// An entity that a store returns is the same after serde's JSON, and so are its properties.
pub(crate) async fn the_wire_and_serde_agree(h: &Harness) {
    let hosts = hosts(h).await;
    hosts.insert(&host(1)).await.expect("a new host");
    merge(&hosts, 1, |row| {
        row.with("Whole", 1.0)
            .with("Big", 1_i64 << 60)
            .with("Bytes", vec![0_u8, 255])
            .with("Id", uuid::Uuid::from_u128(7))
    })
    .await;
    let stored = hosts
        .view::<Entity>()
        .expect("the rows")
        .get_existing(key(1))
        .await
        .expect("the row");
    let json = serde_json::to_string(&stored).expect("JSON");
    assert_eq!(
        serde_json::from_str::<Entity>(&json).expect("an entity"),
        stored
    );
    assert_eq!(
        &serde_json::from_str::<Properties>(&json).expect("properties"),
        stored.properties()
    );
    let read = serde_json::from_str::<Entity>(&json).expect("an entity");
    assert_eq!(
        Host::from_entity(read).expect("a host"),
        hosts.get_existing(key(1)).await.expect("the host")
    );
}
