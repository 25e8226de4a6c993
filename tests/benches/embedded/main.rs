//! Compares the embedded store with redb used directly, with postcard into the same struct and the same
//! durability.
//!
//! `cargo bench -p conformance --bench embedded -- ratios` prints medians of alternating rounds and their
//! ratios. `-- scans ours 20` and `-- scans direct 20` only scan a partition 20 times, for tools that count
//! instructions. Without these arguments, criterion measures each side.

mod direct;
mod flight;
mod ours;
mod ratios;
#[path = "../shared/rounds.rs"]
mod rounds;

use std::hint::black_box;
use std::path::Path;
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
    if let Some(["scans", side, times]) = arguments.first_chunk().map(|a| a.each_ref().map(String::as_str)) {
        return scan(directory.path(), &runtime, side, times.parse().unwrap());
    }
    let direct = Arc::new(Direct::create(directory.path()));
    let ours = runtime.block_on(Ours::create(directory.path()));
    CARRIERS.iter().for_each(|carrier| direct.load(carrier, ROWS));
    CARRIERS.iter().for_each(|carrier| runtime.block_on(ours.load(carrier, ROWS)));
    if arguments.iter().any(|argument| argument == "ratios") {
        ratios::print(&runtime, &direct, &ours);
    } else {
        measure(&mut Criterion::default().configure_from_args(), &runtime, &direct, &ours);
    }
}

/// Scans a partition `times` times with one side.
fn scan(directory: &Path, runtime: &Runtime, side: &str, times: u32) {
    let carrier = CARRIERS[3];
    if side == "direct" {
        let direct = Direct::create(directory);
        direct.load(carrier, ROWS);
        (0..times).for_each(|_| drop(black_box(direct.scan(carrier))));
    } else {
        let ours = runtime.block_on(Ours::create(directory));
        runtime.block_on(ours.load(carrier, ROWS));
        (0..times).for_each(|_| drop(black_box(runtime.block_on(ours.scan(carrier)))));
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
    group.bench_function("embedded", |b| b.iter(|| runtime.block_on(ours.scan(CARRIERS[3]))));
    group.finish();

    let mut numbers = 0u32..;
    let mut flights = |carrier: &str| -> Vec<_> {
        numbers.by_ref().take(100).map(|n| flight::flight(carrier, n)).collect()
    };
    let mut group = criterion.benchmark_group("group transaction of 100");
    group.throughput(criterion::Throughput::Elements(100));
    group.bench_function("redb", |b| b.iter(|| direct.insert(&flights("zz"))));
    group.bench_function("embedded", |b| {
        b.iter(|| runtime.block_on(ours.insert_group(&flights("zz"))));
    });
    group.finish();
}
