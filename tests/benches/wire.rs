//! JSON of the wire and entities, against `serde_json` and a struct of plain fields.
//!
//! `cargo bench -p conformance --bench wire`

use std::hint::black_box;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use criterion::{Criterion, criterion_group, criterion_main};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use table_azure::wire;
use table_core::model::Entity;
use uuid::Uuid;

/// Eleven properties of all eight types, with the keys and the etag, as `serde_json` would have it.
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
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    photo: Vec<u8>,
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = <&str>::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
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

fn entity() -> Entity {
    let plain = plain();
    Entity::new(plain.partition_key, plain.row_key)
        .expect("legal keys")
        .with("FirstName", plain.first_name)
        .with("LastName", plain.last_name)
        .with("Email", plain.email)
        .with("Age", plain.age)
        .with("Active", plain.active)
        .with("Salary", plain.salary)
        .with("Rating", plain.rating)
        .with("Visits", plain.visits)
        .with("Id", plain.id)
        .with("Hired", plain.hired)
        .with("Photo", plain.photo)
}

fn wire_json(c: &mut Criterion) {
    let (plain, entity) = (plain(), entity());
    let (plain_json, wire_json) =
        (serde_json::to_vec(&plain).expect("plain JSON"), wire::encode_entity(&entity));
    let mut group = c.benchmark_group("wire");
    group.bench_function("encode/plain serde_json", |b| b.iter(|| serde_json::to_vec(black_box(&plain))));
    group.bench_function("encode/entity", |b| b.iter(|| wire::encode_entity(black_box(&entity))));
    group.bench_function("decode/plain serde_json", |b| {
        b.iter(|| serde_json::from_slice::<Plain>(black_box(&plain_json)));
    });
    group.bench_function("decode/entity", |b| {
        b.iter(|| wire::decode_entity(black_box(&wire_json)));
    });
    group.finish();
}

criterion_group!(benches, wire_json);
criterion_main!(benches);
