//! Loads many entities of 300 bytes into an embedded store while a reader gets random ones of them. Prints memory, entities
//! per second and the times of the point reads, and draws them.
//!
//! `cargo bench -p bench-embedded --bench load -- 10000000 "$PWD/docs/load.svg"`: a relative path starts at the folder of this
//! file, and without a path it draws nothing. The directory of the store is below the target directory, and removed at the end.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use table_patterns::{Database, Table};

use plotters::prelude::*;
use table_core::typed::TableEntity;
use table_embedded::EmbeddedStore;

/// Tasks that write groups of 100, each durable.
const WRITERS: u64 = 8;
const GROUP: u64 = 100;
/// Entities of a partition: its ten groups are written at different times.
const PARTITION: u64 = 1000;
/// The next point read is due after this time, whether the one before has ended or not.
const READ_EVERY: Duration = Duration::from_millis(2);
const WINDOW: Duration = Duration::from_secs(1);

#[derive(Debug, TableEntity)]
struct Reading {
    #[partition_key(format = "sensor_{:08}")]
    sensor: u64,
    #[row_key(format = "{:08}")]
    number: u64,
    celsius: f64,
    humidity: Option<i32>,
    station: String,
    remark: String,
}

/// What one window of the load measured.
struct Sample {
    seconds: f64,
    loaded: u64,
    per_second: f64,
    memory_mb: f64,
    reads: Vec<Duration>,
}

/// The groups that each writer has loaded.
struct Progress {
    groups: [AtomicU64; WRITERS as usize],
    done: AtomicBool,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let entities = arguments
        .first()
        .map_or(1_000_000, |count| count.parse().unwrap());
    if let Some(folder) = arguments.get(1).and_then(|path| Path::new(path).parent()) {
        assert!(
            folder.as_os_str().is_empty() || folder.is_dir(),
            "no such folder for the drawing: {}",
            folder.display()
        );
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = EmbeddedStore::open(directory.path()).await.unwrap();
    let table = Database::new(store.clone())
        .table::<Reading>("Readings")
        .unwrap();
    table.declare().await.unwrap();
    let progress = Arc::new(Progress {
        groups: Default::default(),
        done: AtomicBool::new(false),
    });

    let groups = entities / GROUP;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(table.clone(), writer, groups, Arc::clone(&progress))))
        .collect();
    let reads = tokio::spawn(read(table, Arc::clone(&progress), entities));
    for writer in writers {
        writer.await.unwrap();
    }
    progress.done.store(true, Ordering::Release);
    let samples = reads.await.unwrap();
    let file = std::fs::metadata(directory.path().join("tables.redb"))
        .unwrap()
        .len();
    store.close().await.unwrap();
    print(&samples, entities, file);
    if let Some(path) = arguments.get(1) {
        draw(Path::new(path), &samples).unwrap();
    }
}

/// Returns partition and rows of a group. Successive groups are in different partitions, in scattered order.
fn place(group: u64, groups: u64) -> (u64, Range<u64>) {
    let partitions = (groups * GROUP / PARTITION).max(1);
    let scattered = (group % partitions).wrapping_mul(0x9E37_79B9) % partitions.next_power_of_two();
    let first = group / partitions * GROUP;
    (scattered, first..first + GROUP)
}

async fn write(table: Table<Reading>, writer: u64, groups: u64, progress: Arc<Progress>) {
    for group in (writer..groups).step_by(WRITERS as usize) {
        let (sensor, numbers) = place(group, groups);
        let mut batch = table.group(Reading::partition(sensor).unwrap());
        for number in numbers {
            batch.insert(&reading(sensor, number)).unwrap();
        }
        batch.commit().await.unwrap();
        progress.groups[writer as usize].fetch_add(1, Ordering::Release);
    }
}

/// An entity of about 300 bytes stored: 240 bytes of text, and numbers and names.
fn reading(sensor: u64, number: u64) -> Reading {
    Reading {
        sensor,
        number,
        celsius: (number % 400) as f64 / 10.0,
        humidity: (!number.is_multiple_of(7)).then_some(40),
        station: format!("station {:06} at the river", sensor % 9973),
        remark: format!(
            "{number:08} {sensor:08} {}",
            "a remark of the observer ".repeat(8)
        ),
    }
}

/// Reads a random loaded entity every two milliseconds. The time of a read counts from the moment at which it was due, so that a
/// stall counts for every read that it delays.
async fn read(table: Table<Reading>, progress: Arc<Progress>, entities: u64) -> Vec<Sample> {
    let (groups, mut random) = (entities / GROUP, fastrand::Rng::with_seed(7));
    let (started, mut samples) = (Instant::now(), Vec::new());
    let (mut due, mut window, mut before) = (started, started, 0);
    let mut reads = Vec::new();
    while !progress.done.load(Ordering::Acquire) {
        due += READ_EVERY;
        tokio::time::sleep_until(due.into()).await;
        let writer = random.u64(..WRITERS);
        let loaded = progress.groups[writer as usize].load(Ordering::Acquire);
        if loaded > 0 {
            let (sensor, numbers) = place(random.u64(..loaded) * WRITERS + writer, groups);
            let key = Reading::key(sensor, random.u64(numbers)).unwrap();
            assert!(table.get(&key).await.unwrap().is_some(), "{key:?}");
            reads.push(due.elapsed());
        }
        if window.elapsed() >= WINDOW {
            let loaded = GROUP
                * progress
                    .groups
                    .iter()
                    .map(|n| n.load(Ordering::Acquire))
                    .sum::<u64>();
            let per_second = (loaded - before) as f64 / window.elapsed().as_secs_f64();
            (window, before) = (Instant::now(), loaded);
            let seconds = started.elapsed().as_secs_f64();
            let reads = std::mem::take(&mut reads);
            samples.push(Sample {
                seconds,
                loaded,
                per_second,
                memory_mb: memory_mb(),
                reads,
            });
        }
    }
    samples
}

/// Resident memory without the pages of files.
fn memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: Option<f64> = line.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or_default() / 1024.0
}

/// A percentile in milliseconds; `share` of 1 is the slowest.
fn slowest(times: &[Duration], share: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    let at = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

#[expect(clippy::print_stdout, reason = "the result of the benchmark")]
fn print(samples: &[Sample], entities: u64, file: u64) {
    println!(
        "| loaded | seconds | entities per s | memory, MB | reads | 99.9th percentile, ms | slowest, ms |"
    );
    println!("|---|---|---|---|---|---|---|");
    let (parts, mut before) = (10, (0.0, 0));
    for part in samples.chunks(samples.len().div_ceil(parts).max(1)) {
        let (Some(last), reads) = (part.last(), all(part)) else {
            continue;
        };
        let rate = (last.loaded - before.1) as f64 / (last.seconds - before.0);
        let memory = part
            .iter()
            .map(|sample| sample.memory_mb)
            .fold(0.0, f64::max);
        println!(
            "| {} | {:.0} | {rate:.0} | {memory:.0} | {} | {:.1} | {:.1} |",
            last.loaded,
            last.seconds,
            reads.len(),
            slowest(&reads, 0.999),
            slowest(&reads, 1.0)
        );
        before = (last.seconds, last.loaded);
    }
    let reads = all(samples);
    println!(
        "\n{entities} entities, a file of {} MB; {} reads: median {:.2} ms, 99.9th percentile {:.1} ms, slowest {:.1} ms; \
         peak memory {:.0} MB",
        file >> 20,
        reads.len(),
        slowest(&reads, 0.5),
        slowest(&reads, 0.999),
        slowest(&reads, 1.0),
        samples
            .iter()
            .map(|sample| sample.memory_mb)
            .fold(0.0, f64::max)
    );
}

fn all(samples: &[Sample]) -> Vec<Duration> {
    samples
        .iter()
        .flat_map(|sample| sample.reads.iter().copied())
        .collect()
}

/// Title, colour and value of a curve.
type Curve = (&'static str, RGBColor, fn(&Sample) -> f64);

/// Draws three curves over time, one below the other.
fn draw(path: &Path, samples: &[Sample]) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(path, (900, 780)).into_drawing_area();
    root.fill(&WHITE)?;
    let curves: [Curve; 3] = [
        ("entities per second", RGBColor(31, 119, 180), |sample| {
            sample.per_second
        }),
        (
            "memory of the process, MB",
            RGBColor(44, 160, 44),
            |sample| sample.memory_mb,
        ),
        (
            "99.9th percentile of point reads, ms, per second",
            RGBColor(214, 39, 40),
            |sample| slowest(&sample.reads, 0.999),
        ),
    ];
    let end = samples.last().map_or(1.0, |sample| sample.seconds);
    for (area, (title, colour, of)) in root.split_evenly((3, 1)).iter().zip(curves) {
        let points: Vec<_> = samples
            .iter()
            .map(|sample| (sample.seconds, of(sample)))
            .collect();
        let top = points.iter().map(|point| point.1).fold(1.0, f64::max) * 1.1;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(title, ("sans-serif", 16))
            .x_label_area_size(30)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("seconds")
            .draw()?;
        chart.draw_series(LineSeries::new(points, &colour))?;
    }
    root.present()?;
    Ok(())
}
