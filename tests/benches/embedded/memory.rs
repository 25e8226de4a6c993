//! The memory of a scan by number of rows. Each size is loaded and scanned in separate processes. The benchmark
//! prints the peak memory of the scan (`VmHWM`, Linux).
//!
//! `cargo bench -p bench-embedded --bench memory`; `-- 10000 100000` scans other sizes.

use std::path::Path;
use std::process::Command;
use std::time::Instant;
use table_patterns::{Database, Table};

use futures_util::TryStreamExt;
use table_core::typed::TableEntity;
use table_embedded::{Durability, EmbeddedStore};

const SIZES: [&str; 3] = ["10000", "100000", "1000000"];
/// The page cache: small compared with the largest file.
const CACHE_BYTES: usize = 32 << 20;

#[derive(Debug, TableEntity)]
struct Reading {
    #[partition_key]
    sensor: String,
    #[row_key]
    number: u32,
    celsius: f64,
    humidity: Option<i32>,
    remark: String,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", directory, rows] => load(Path::new(directory), rows.parse().unwrap()).await,
        ["scan", directory, rows] => scan(Path::new(directory), rows.parse().unwrap()).await,
        [] => run(&SIZES),
        ref sizes => run(sizes),
    }
}

#[expect(clippy::print_stdout, reason = "the result of the benchmark")]
fn run(sizes: &[&str]) {
    println!("| rows | file, MB | peak, MB | rows per s |\n|---|---|---|---|");
    for rows in sizes {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for task in ["load", "scan"] {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let status = command
                .arg(task)
                .arg(directory.path())
                .arg(rows)
                .status()
                .unwrap();
            assert!(status.success(), "{task} {rows}");
        }
    }
}

async fn open(directory: &Path) -> (EmbeddedStore, Table<Reading>) {
    let builder = EmbeddedStore::builder(directory).cache_bytes(CACHE_BYTES);
    let store = builder
        .durability(Durability::Relaxed)
        .open()
        .await
        .unwrap();
    let table = Database::new(store.clone()).table("Readings").unwrap();
    (store, table)
}

async fn load(directory: &Path, rows: u32) {
    let (store, table) = open(directory).await;
    table.declare().await.unwrap();
    for first in (0..rows).step_by(100) {
        let sensor = format!("{:03}", first / 1000 % 100);
        let mut group = table.group(Reading::partition(sensor.as_str()).unwrap());
        for number in first..rows.min(first + 100) {
            group.insert(&reading(sensor.clone(), number)).unwrap();
        }
        group.commit().await.unwrap();
    }
    store.close().await.unwrap();
}

fn reading(sensor: String, number: u32) -> Reading {
    Reading {
        sensor,
        number,
        celsius: f64::from(number % 400) / 10.0,
        humidity: (!number.is_multiple_of(7)).then_some(40),
        remark: format!("reading {number} of a sensor that has nothing else to tell"),
    }
}

#[expect(clippy::print_stdout, reason = "the result of the benchmark")]
async fn scan(directory: &Path, rows: u32) {
    let (store, table) = open(directory).await;
    let started = Instant::now();
    let count = table
        .query()
        .stream()
        .try_fold(0, async |count, _| Ok(count + 1))
        .await
        .unwrap();
    let rate = f64::from(rows) / started.elapsed().as_secs_f64();
    assert_eq!(count, rows);
    let file = std::fs::metadata(directory.join("tables.redb"))
        .unwrap()
        .len()
        >> 20;
    store.close().await.unwrap();
    println!("| {rows} | {file} | {} | {rate:.0} |", peak_kib() >> 10);
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or_default()
}
