//! Compares the embedded store with redb used directly, with postcard into the same struct and the same
//! durability.
//!
//! `cargo bench -p bench-embedded --bench embedded -- ratios` prints medians of alternating rounds and their
//! ratios. `-- count OPERATION SIDE ROUNDS` only repeats one operation of one side, for tools that count instructions: `get`, `scan`, `group` or
//! `insert` of the side `ours` or `direct`, or `pages`, `plain`, `indexed` or `requests` of the side `ours`. Without these arguments, criterion measures
//! each side.

mod committer;
mod count;
mod direct;
mod flight;
mod indexed;
#[path = "../shared/median.rs"]
mod median;
mod ours;
mod ratios;
#[path = "../shared/rounds.rs"]
mod rounds;

use std::hint::black_box;
use std::sync::Arc;

use criterion::Criterion;
use tokio::runtime::Runtime;

use crate::direct::Direct;
use crate::flight::CARRIERS;
use crate::ours::Ours;

const CACHE_BYTES: usize = 256 << 20;
const ROWS: u32 = 10_000;

fn main() {
    let runtime = Runtime::new().unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Some(["count", operation, side, rounds]) = arguments
        .first_chunk()
        .map(|a| a.each_ref().map(String::as_str))
    {
        return count::run(
            directory.path(),
            &runtime,
            (operation, side),
            rounds.parse().unwrap(),
        );
    }
    let direct = Arc::new(Direct::create(directory.path()));
    let ours = runtime.block_on(Ours::create(directory.path()));
    CARRIERS
        .iter()
        .for_each(|carrier| direct.load(carrier, ROWS));
    CARRIERS
        .iter()
        .for_each(|carrier| runtime.block_on(ours.load(carrier, ROWS)));
    if arguments.iter().any(|argument| argument == "ratios") {
        ratios::print(&runtime, &direct, &ours);
    } else {
        measure(
            &mut Criterion::default().configure_from_args(),
            &runtime,
            &direct,
            &ours,
        );
    }
}

fn measure(criterion: &mut Criterion, runtime: &Runtime, direct: &Direct, ours: &Ours) {
    let keys = ratios::keys();
    let mut next = (0..keys.len()).cycle();
    let mut key = || &keys[next.next().unwrap_or_default()];
    let mut group = criterion.benchmark_group("point get");
    group.bench_function("redb", |b| b.iter(|| black_box(direct.get(&key().1))));
    group.bench_function("embedded", |b| {
        b.iter(|| runtime.block_on(async { black_box(ours.get(&key().0).await) }));
    });
    group.finish();

    let mut group = criterion.benchmark_group("partition scan");
    group.throughput(criterion::Throughput::Elements(ROWS.into()));
    group.bench_function("redb", |b| b.iter(|| direct.scan(CARRIERS[3])));
    group.bench_function("embedded", |b| {
        b.iter(|| runtime.block_on(ours.scan(CARRIERS[3])));
    });
    group.finish();

    let mut numbers = 0u32..;
    let mut flights = |carrier: &str| -> Vec<_> {
        numbers
            .by_ref()
            .take(100)
            .map(|n| flight::flight(carrier, n))
            .collect()
    };
    let mut group = criterion.benchmark_group("group transaction of 100");
    group.throughput(criterion::Throughput::Elements(100));
    group.bench_function("redb", |b| b.iter(|| direct.insert(&flights("zz"))));
    group.bench_function("embedded", |b| {
        b.iter(|| runtime.block_on(ours.insert_group(&flights("zz"))));
    });
    group.finish();
}
