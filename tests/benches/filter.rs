//! The cost of a filter: its evaluation for each row of a scan, its parsing and its planning.
//!
//! `cargo bench -p conformance --bench filter`

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use table_core::model::Entity;
use table_core::query::{Filter, Query};

/// A flight with 19 properties. The filter reads the sixth and the ninth property.
fn flight() -> Entity {
    let entity = Entity::new("2013-01", "UA_1545_0101").expect("a key");
    let numbers = ["Year", "Month", "Day", "DepTime", "DepDelay"];
    let entity = numbers.iter().fold(entity, |e, name| e.with(name, 2013));
    let entity = entity
        .with("Origin", "LGA")
        .with("Dest", "IAH")
        .with("Carrier", "UA")
        .with("ArrDelay", 130);
    (0..10).fold(entity, |e, n| e.with(&format!("Other{n}"), f64::from(n)))
}

fn evaluate(c: &mut Criterion) {
    let entity = flight();
    for text in [
        "Origin eq 'LGA' and ArrDelay gt 120",
        "Origin eq 'JFK' and ArrDelay gt 120",
    ] {
        let filter: Filter = text.parse().expect("a filter");
        c.bench_function(text, |b| {
            b.iter(|| black_box(&filter).matches(black_box(&entity)));
        });
    }
    let keys: Filter = "PartitionKey eq '2013-01' and RowKey ge 'UA_' and RowKey lt 'UA`'"
        .parse()
        .expect("a filter");
    c.bench_function("a row range", |b| {
        b.iter(|| black_box(&keys).matches(black_box(&entity)));
    });
}

fn prepare(c: &mut Criterion) {
    let text = "PartitionKey eq '2013-01' and (RowKey eq 'a' or RowKey eq 'b') and ArrDelay gt 120";
    c.bench_function("parse", |b| b.iter(|| black_box(text).parse::<Filter>()));
    let query = Query::new().with_filter(text.parse().expect("a filter"));
    c.bench_function("print", |b| {
        b.iter(|| black_box(&query).filter.as_ref().map(ToString::to_string));
    });
    c.bench_function("access path", |b| {
        b.iter(|| black_box(&query).access_path());
    });
    c.bench_function("cheaper plan", |b| {
        b.iter(|| black_box(&query).cheaper_plan());
    });
}

criterion_group!(benches, evaluate, prepare);
criterion_main!(benches);
