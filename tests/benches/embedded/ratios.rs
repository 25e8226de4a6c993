use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use table_core::model::Key;
use tokio::runtime::Runtime;

use crate::ROWS;
use crate::committer::Committer;
use crate::direct::{self, Direct};
use crate::flight::{CARRIERS, Flight, flight};
use crate::indexed::{PlainTrip, Requests, Trip, Trips, trip};
use crate::median::median;
use crate::ours::Ours;
use crate::rounds;

const KEYS: u32 = 20_000;
/// Inserts at once.
pub(crate) const TASKS: u32 = 64;
/// Inserts of each task in one round.
const EACH: u32 = 100;

/// A line of the table: the medians of the other side and of this library.
struct Row {
    what: &'static str,
    unit: &'static str,
    goal: &'static str,
    medians: (f64, f64),
}

impl Row {
    const fn new(
        what: &'static str,
        unit: &'static str,
        goal: &'static str,
        medians: (f64, f64),
    ) -> Self {
        Self {
            what,
            unit,
            goal,
            medians,
        }
    }

    /// The lines of writes: their rates and the 99th percentiles of their times.
    const fn of_writes(
        what: &'static str,
        goal: &'static str,
        [rates, p99]: [(f64, f64); 2],
    ) -> [Self; 2] {
        let times = Self::new("the same, 99th percentile of the time", "µs", "", p99);
        [Self::new(what, "per s", goal, rates), times]
    }
}

/// Measures both sides in alternating rounds and prints medians and their ratio.
pub(crate) fn print(runtime: &Runtime, direct: &Arc<Direct>, ours: &Ours) {
    print_line("| | other side | this library | ratio | goal | unit |\n|---|---|---|---|---|---|");
    for rows in [read_ratios, write_ratios, index_ratios] {
        for Row {
            what,
            unit,
            goal,
            medians: (other, library),
        } in rows(runtime, direct, ours)
        {
            let ratio = library / other;
            print_line(&format!(
                "| {what} | {other:.0} | {library:.0} | {ratio:.2} | {goal} | {unit} |"
            ));
        }
    }
}

#[expect(clippy::print_stdout, reason = "the result of the benchmark")]
fn print_line(line: &str) {
    println!("{line}");
}

fn read_ratios(runtime: &Runtime, direct: &Arc<Direct>, ours: &Ours) -> Vec<Row> {
    let keys = keys();
    let all = |carrier: &str| runtime.block_on(ours.scan(carrier));
    let pages = |carrier: &str| runtime.block_on(ours.scan_pages(carrier));
    let gets = point_gets(runtime, direct, ours, &keys);
    let shared = shared_gets(runtime, direct, ours, &keys);
    let blocking = runtime.block_on(ours.with_blocking_reads());
    let get_with = |side: &Ours| get_all(runtime, side, &keys);
    vec![
        Row::new("point get, a transaction each", "per s", "1.0", gets),
        Row::new("point get, one transaction for all", "per s", "", shared),
        Row::new(
            "point get on a blocking thread, against inline",
            "per s",
            "",
            compare(
                keys.len() as u32,
                |_| get_with(ours),
                |_| get_with(&blocking),
            ),
        ),
        Row::new("partition scan", "rows per s", "1.0", scans(direct, all)),
        Row::new(
            "partition scan, one page after another",
            "rows per s",
            "0.95",
            scans(direct, pages),
        ),
    ]
}

fn write_ratios(runtime: &Runtime, direct: &Arc<Direct>, ours: &Ours) -> Vec<Row> {
    let of = |carrier: &'static str| move |round, n| flight(carrier, unused_number(round, n));
    let library = ours.clone();
    let insert = move |flight: Flight| {
        let library = library.clone();
        async move { library.insert(&flight).await }
    };
    let single = writes(
        &threads(direct, of("zi")),
        &tasks(runtime, of("zi"), insert.clone()),
    );
    let committer = Arc::new(Committer::start(direct));
    let group_commit = move |flight: Flight| {
        let committer = Arc::clone(&committer);
        async move { committer.insert(&flight).await }
    };
    let together = writes(
        &tasks(runtime, of("zh"), group_commit),
        &tasks(runtime, of("zh"), insert),
    );
    let groups = Row::new(
        "group transactions of 100",
        "rows per s",
        "1.0",
        groups(runtime, direct, ours),
    );
    let single = Row::of_writes(
        "durable inserts, 64 at once, against a commit each",
        "5",
        single,
    );
    let together = Row::of_writes(
        "durable inserts, 64 at once, against group commit by hand",
        "0.9",
        together,
    );
    [groups].into_iter().chain(single).chain(together).collect()
}

fn index_ratios(runtime: &Runtime, _: &Arc<Direct>, ours: &Ours) -> Vec<Row> {
    let Trips { plain, indexed } = runtime.block_on(Trips::open(ours.store()));
    let requests = runtime.block_on(Requests::open(ours.store()));
    let insert_plain = move |trip: PlainTrip| {
        let plain = plain.clone();
        async move { drop(plain.insert(&trip).await.unwrap()) }
    };
    let insert_requests = move |trip: Trip| {
        let requests = requests.clone();
        async move { requests.insert(&trip).await }
    };
    let insert_indexed = move |trip: Trip| {
        let indexed = indexed.clone();
        async move { drop(indexed.insert(&trip).await.unwrap()) }
    };
    let new_trip = |first: u32| move |round, n| trip(first + unused_number(round, n));
    let plain = writes(
        &tasks(
            runtime,
            |round, n| PlainTrip::from(trip(unused_number(round, n))),
            insert_plain,
        ),
        &tasks(runtime, new_trip(0), insert_indexed.clone()),
    );
    let alone = writes(
        &tasks(runtime, new_trip(0), insert_requests),
        &tasks(runtime, new_trip(10_000_000), insert_indexed),
    );
    let plain = Row::of_writes(
        "inserts with an entry in another partition, against plain ones",
        "0.5",
        plain,
    );
    let alone = Row::of_writes("the same, against their requests alone", "", alone);
    plain.into_iter().chain(alone).collect()
}

/// Returns the medians of both sides, in operations per second.
fn compare(count: u32, other: impl FnMut(usize), library: impl FnMut(usize)) -> (f64, f64) {
    let (other, library) = rounds::medians(other, library);
    (
        f64::from(count) / other.as_secs_f64(),
        f64::from(count) / library.as_secs_f64(),
    )
}

/// Keys of random rows of all partitions, in the forms of both sides.
pub(crate) fn keys() -> Vec<(Key, Vec<u8>)> {
    keys_of(&CARRIERS)
}

/// Keys of random rows of some partitions.
pub(crate) fn keys_of(carriers: &[&str]) -> Vec<(Key, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut key = || {
        let flight = flight(carriers[random.usize(..carriers.len())], random.u32(..ROWS));
        let key = Key::from_sortable(&direct::key(&flight)).unwrap();
        (key.clone(), key.to_sortable())
    };
    (0..KEYS).map(|_| key()).collect()
}

fn point_gets(
    runtime: &Runtime,
    direct: &Direct,
    ours: &Ours,
    keys: &[(Key, Vec<u8>)],
) -> (f64, f64) {
    let redb = |_| {
        keys.iter()
            .for_each(|(_, key)| drop(black_box(direct.get(key))));
    };
    compare(keys.len() as u32, redb, |_| get_all(runtime, ours, keys))
}

fn shared_gets(
    runtime: &Runtime,
    direct: &Direct,
    ours: &Ours,
    keys: &[(Key, Vec<u8>)],
) -> (f64, f64) {
    let redb = |_| {
        let table = direct.table();
        keys.iter()
            .for_each(|(_, key)| drop(black_box(direct::get(&table, key))));
    };
    compare(keys.len() as u32, redb, |_| get_all(runtime, ours, keys))
}

fn get_all(runtime: &Runtime, ours: &Ours, keys: &[(Key, Vec<u8>)]) {
    runtime.block_on(async {
        for (key, _) in keys {
            black_box(ours.get(key).await);
        }
    });
}

fn scans(direct: &Direct, ours: impl Fn(&str) -> Vec<Flight>) -> (f64, f64) {
    let redb = |round: usize| assert_eq!(direct.scan(CARRIERS[round % 10]).len(), ROWS as usize);
    let library = |round: usize| assert_eq!(ours(CARRIERS[round % 10]).len(), ROWS as usize);
    compare(ROWS, redb, library)
}

fn groups(runtime: &Runtime, direct: &Direct, ours: &Ours) -> (f64, f64) {
    let batch = |round: usize| -> Vec<_> {
        let from = round as u32 * 5000;
        (from..from + 5000).map(|n| flight("zg", n)).collect()
    };
    let redb = |round: usize| {
        batch(round)
            .chunks(100)
            .for_each(|group| direct.insert(group));
    };
    let library = |round: usize| {
        let flights = batch(round);
        runtime.block_on(async {
            for group in flights.chunks(100) {
                ours.insert_group(group).await;
            }
        });
    };
    compare(5000, redb, library)
}

/// Returns a number that no other round has.
fn unused_number(round: usize, n: u32) -> u32 {
    round as u32 * TASKS * EACH + n
}

/// Writes a round and returns the time of each write.
type Side<'a> = Box<dyn Fn(usize) -> Vec<Duration> + 'a>;

/// 64 tasks, each of which writes one item after another.
fn tasks<'a, T, F>(
    runtime: &'a Runtime,
    item: impl Fn(usize, u32) -> T + 'a,
    write: impl Fn(T) -> F + Clone + Send + 'static,
) -> Side<'a>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send,
{
    Box::new(move |round| {
        let start = |task: u32| {
            let items: Vec<_> = (task * EACH..(task + 1) * EACH)
                .map(|n| item(round, n))
                .collect();
            let write = write.clone();
            runtime.spawn(async move {
                let mut times = Vec::with_capacity(items.len());
                for item in items {
                    let started = Instant::now();
                    write(item).await;
                    times.push(started.elapsed());
                }
                times
            })
        };
        let running: Vec<_> = (0..TASKS).map(start).collect();
        runtime.block_on(async {
            let mut times = Vec::new();
            for task in running {
                times.extend(task.await.unwrap());
            }
            times
        })
    })
}

/// 64 threads, each of which commits one flight after another: a tenth of the flights of a round.
fn threads<'a>(direct: &'a Direct, item: impl Fn(usize, u32) -> Flight + Sync + 'a) -> Side<'a> {
    Box::new(move |round| {
        let write = |task: u32| {
            let numbers = (task * EACH..(task + 1) * EACH).step_by(10);
            let timed = |n| {
                let started = Instant::now();
                direct.insert(&[item(round, n)]);
                started.elapsed()
            };
            numbers.map(timed).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let write = &write;
            let running: Vec<_> = (0..TASKS)
                .map(|task| scope.spawn(move || write(task)))
                .collect();
            running
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        })
    })
}

/// Rates and 99th percentiles of the rounds of a side.
#[derive(Default)]
struct Runs {
    per_second: Vec<f64>,
    p99: Vec<f64>,
}

impl Runs {
    fn add(&mut self, side: &Side<'_>, round: usize) {
        let started = Instant::now();
        let mut times = side(round);
        self.per_second
            .push(times.len() as f64 / started.elapsed().as_secs_f64());
        times.sort();
        self.p99
            .push(times[times.len() * 99 / 100].as_secs_f64() * 1e6);
    }
}

/// Returns the medians of writes per second, and of the 99th percentiles of their times in microseconds.
fn writes(other: &Side<'_>, library: &Side<'_>) -> [(f64, f64); 2] {
    let (mut a, mut b) = (Runs::default(), Runs::default());
    rounds::medians(|round| a.add(other, round), |round| b.add(library, round));
    [
        (median(a.per_second), median(b.per_second)),
        (median(a.p99), median(b.p99)),
    ]
}
