//! Conversion of wire JSON to and from derived structs and entities, compared with `serde_json` and a struct of
//! plain fields.
//!
//! `cargo bench -p conformance --bench wire -- ratios` prints medians of alternating rounds and their ratios.
//! Without `ratios`, criterion measures each side.

#[path = "shared/base64_text.rs"]
mod base64_text;
#[path = "shared/median.rs"]
mod median;
#[path = "shared/rounds.rs"]
mod rounds;
#[path = "shared/visitor.rs"]
mod visitor;

use std::hint::black_box;

use chrono::{DateTime, Utc};
use criterion::Criterion;
use serde::{Deserialize, Serialize};
use table_azure::wire;
use table_core::model::{Entity, Ticks};
use table_core::typed::{FromEntity, TableEntity};
use uuid::Uuid;

/// Conversions per round.
const CODINGS: usize = 20_000;

/// Keys, ETag and eleven properties of all eight types, as `serde_json` reads them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Plain {
    partition_key: String,
    row_key: String,
    first_name: String,
    last_name: String,
    email: String,
    age: i32,
    active: bool,
    salary: f64,
    rating: f64,
    visits: i64,
    id: Uuid,
    hired: DateTime<Utc>,
    #[serde(with = "base64_text")]
    photo: Vec<u8>,
}

fn plain() -> Plain {
    Plain {
        partition_key: "Sales".into(),
        row_key: "empid_000223".into(),
        first_name: "Ken".into(),
        last_name: "Kwok".into(),
        email: "ken.kwok@example.com".into(),
        age: 41,
        active: true,
        salary: 84_250.75,
        rating: 4.0,
        visits: 9_007_199_254_740_993,
        id: Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8),
        hired: DateTime::from_timestamp(1_357_017_300, 123_456_700).unwrap_or_default(),
        photo: (0..32).collect(),
    }
}

/// The same entity as this library reads it.
#[derive(TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    partition: String,
    #[row_key]
    row: String,
    first_name: String,
    last_name: String,
    email: String,
    age: i32,
    active: bool,
    salary: f64,
    rating: f64,
    visits: i64,
    id: Uuid,
    hired: Ticks,
    photo: Vec<u8>,
}

fn employee() -> Employee {
    let plain = plain();
    Employee {
        partition: plain.partition_key,
        row: plain.row_key,
        first_name: plain.first_name,
        last_name: plain.last_name,
        email: plain.email,
        age: plain.age,
        active: plain.active,
        salary: plain.salary,
        rating: plain.rating,
        visits: plain.visits,
        id: plain.id,
        hired: plain.hired.into(),
        photo: plain.photo,
    }
}

fn encode(employee: &Employee) -> Vec<u8> {
    wire::encode_entity(&employee.to_entity().expect("a legal entity"))
}

fn decode(json: &[u8]) -> Employee {
    Employee::from_entity(wire::decode_entity(json).expect("wire JSON")).expect("an employee")
}

fn decode_plain(json: &[u8]) -> Plain {
    serde_json::from_slice(json).expect("plain JSON")
}

/// The same entity by `serde_json` and a visitor.
fn decode_visited(json: &[u8]) -> Entity {
    let visitor::Visited(entity) = serde_json::from_slice(json).expect("wire JSON");
    entity
}

fn main() {
    if std::env::args().any(|argument| argument == "ratios") {
        ratios();
    } else {
        measure(&mut Criterion::default().configure_from_args());
    }
}

#[expect(clippy::print_stdout, reason = "the result of the benchmark")]
fn ratios() {
    let (plain, employee, entity) = (
        plain(),
        employee(),
        employee().to_entity().expect("an entity"),
    );
    let (plain_json, json) = (
        serde_json::to_vec(&plain).expect("plain JSON"),
        encode(&employee),
    );
    let row = |what: &str, target: &str, theirs: &dyn Fn(), ours: &dyn Fn()| {
        let repeat = |work: &dyn Fn()| (0..CODINGS).for_each(|_| work());
        let (theirs, ours) = rounds::medians(|_| repeat(theirs), |_| repeat(ours));
        let each = |time: std::time::Duration| time.as_nanos() / CODINGS as u128;
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "| {what} | {} | {} | {ratio:.2} | {target} |",
            each(theirs),
            each(ours)
        );
    };
    println!("| | serde_json, ns | this library, ns | ratio | target |\n|---|---|---|---|---|");
    let encode_plain = || drop(black_box(serde_json::to_vec(black_box(&plain))));
    let decode_plain = || drop(black_box(decode_plain(black_box(&plain_json))));
    row("derived struct to JSON", "1.5", &encode_plain, &|| {
        drop(black_box(encode(black_box(&employee))));
    });
    row("JSON to derived struct", "1.25", &decode_plain, &|| {
        drop(black_box(decode(black_box(&json))));
    });
    let encode_entity = || drop(black_box(wire::encode_entity(black_box(&entity))));
    row("entity to JSON", "", &encode_plain, &encode_entity);
    let decode_entity = || drop(black_box(wire::decode_entity(black_box(&json))));
    row("JSON to entity", "", &decode_plain, &decode_entity);
    let read = decode_visited(&json);
    assert_eq!(
        read,
        wire::decode_entity(&json).expect("wire JSON"),
        "both readers read the same"
    );
    let visit = || drop(black_box(decode_visited(black_box(&json))));
    row(
        "JSON to entity, compared with a visitor of `serde_json`",
        "",
        &visit,
        &decode_entity,
    );
}

fn measure(c: &mut Criterion) {
    let (plain, employee, entity) = (
        plain(),
        employee(),
        employee().to_entity().expect("an entity"),
    );
    let (plain_json, json) = (
        serde_json::to_vec(&plain).expect("plain JSON"),
        encode(&employee),
    );
    let mut group = c.benchmark_group("wire");
    group.bench_function("encode/plain serde_json", |b| {
        b.iter(|| serde_json::to_vec(black_box(&plain)));
    });
    group.bench_function("encode/entity", |b| {
        b.iter(|| wire::encode_entity(black_box(&entity)));
    });
    group.bench_function("encode/derived", |b| {
        b.iter(|| encode(black_box(&employee)));
    });
    group.bench_function("decode/plain serde_json", |b| {
        b.iter(|| decode_plain(black_box(&plain_json)));
    });
    group.bench_function("decode/entity", |b| {
        b.iter(|| wire::decode_entity(black_box(&json)));
    });
    group.bench_function("decode/derived", |b| b.iter(|| decode(black_box(&json))));
    group.finish();
}
