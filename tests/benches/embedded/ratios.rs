use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use table_core::model::Key;
use tokio::runtime::Runtime;

use crate::committer::Committer;
use crate::direct::{self, Direct};
use crate::flight::{CARRIERS, Flight, flight};
use crate::indexed::{PlainTrip, Requests, Trip, Trips, trip};
use crate::ours::Ours;
use crate::rounds;

const ROWS: u32 = 10_000;
const KEYS: u32 = 20_000;
const TASKS: u32 = 64;
/// Inserts of each task in one round.
const EACH: u32 = 100;

/// Measures both sides in alternating rounds and prints medians and their ratio.
#[expect(clippy::print_stdout, reason = "the result of the benchmark")]
pub(crate) fn print(runtime: &Runtime, direct: &Arc<Direct>, ours: &Ours) {
    let row = |what: &str, unit: &str, goal: &str, (theirs, mine): (f64, f64)| {
        println!("| {what} | {theirs:.0} | {mine:.0} | {:.2} | {goal} | {unit} |", mine / theirs);
    };
    println!("| | other side | this library | ratio | goal | unit |\n|---|---|---|---|---|---|");
    let keys = keys();
    row("point get, a transaction each", "per s", "1.0", point_gets(runtime, direct, ours, &keys));
    row("point get, one transaction for all", "per s", "", shared_gets(runtime, direct, ours, &keys));
    let all = |carrier: &str| runtime.block_on(ours.scan(carrier));
    row("partition scan", "rows per s", "1.0", scans(direct, all));
    let pages = |carrier: &str| runtime.block_on(ours.scan_pages(carrier));
    row("partition scan, one page after another", "rows per s", "0.95", scans(direct, pages));
    row("group transactions of 100", "rows per s", "1.0", groups(runtime, direct, ours));

    let pair = |what: &str, goal: &str, [rates, slow]: [(f64, f64); 2]| {
        row(what, "per s", goal, rates);
        row("the same, 99th percentile of the time", "µs", "", slow);
    };
    let of = |carrier: &'static str| move |round, n| flight(carrier, fresh(round, n));
    let insert = {
        let ours = ours.clone();
        move |flight: Flight| {
            let ours = ours.clone();
            async move { ours.insert(&flight).await }
        }
    };
    let mine = tasks(runtime, of("zi"), insert.clone());
    pair(
        "durable inserts, 64 at once, against a commit each",
        "5",
        writes(&threads(direct, of("zi")), &mine),
    );
    let committer = Arc::new(Committer::start(direct));
    let by_hand = move |flight: Flight| {
        let committer = Arc::clone(&committer);
        async move { committer.insert(&flight).await }
    };
    let (theirs, mine) = (tasks(runtime, of("zh"), by_hand), tasks(runtime, of("zh"), insert));
    pair("durable inserts, 64 at once, against group commit by hand", "0.9", writes(&theirs, &mine));

    let Trips { plain, indexed } = runtime.block_on(Trips::open(ours.store()));
    let requests = runtime.block_on(Requests::open(ours.store()));
    let theirs = tasks(
        runtime,
        |round, n| PlainTrip::from(trip(fresh(round, n))),
        move |trip: PlainTrip| {
            let plain = plain.clone();
            async move { drop(plain.insert(&trip).await.unwrap()) }
        },
    );
    let by_hand = tasks(
        runtime,
        |round, n| trip(fresh(round, n)),
        move |trip: Trip| {
            let requests = requests.clone();
            async move { requests.insert(&trip).await }
        },
    );
    let indexed_from = |first: u32| {
        let indexed = indexed.clone();
        tasks(
            runtime,
            move |round, n| trip(first + fresh(round, n)),
            move |trip: Trip| {
                let indexed = indexed.clone();
                async move { drop(indexed.insert(&trip).await.unwrap()) }
            },
        )
    };
    let mine = indexed_from(0);
    pair("inserts with an entry in another partition, against plain ones", "0.5", writes(&theirs, &mine));
    let mine = indexed_from(10_000_000);
    pair("the same, against their requests alone", "", writes(&by_hand, &mine));

    let blocking = runtime.block_on(ours.with_blocking_reads());
    let get_with = |side: &Ours| get_all(runtime, side, &keys);
    let rates = compare(keys.len() as u32, |_| get_with(ours), |_| get_with(&blocking));
    row("point get on a blocking thread, against inline", "per s", "", rates);
}

/// Returns the medians of both sides, in operations per second.
fn compare(count: u32, theirs: impl FnMut(usize), mine: impl FnMut(usize)) -> (f64, f64) {
    let (theirs, mine) = rounds::medians(theirs, mine);
    (f64::from(count) / theirs.as_secs_f64(), f64::from(count) / mine.as_secs_f64())
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

fn point_gets(runtime: &Runtime, direct: &Direct, ours: &Ours, keys: &[(Key, Vec<u8>)]) -> (f64, f64) {
    let theirs = |_| keys.iter().for_each(|(_, key)| drop(black_box(direct.get(key))));
    compare(keys.len() as u32, theirs, |_| get_all(runtime, ours, keys))
}

fn shared_gets(runtime: &Runtime, direct: &Direct, ours: &Ours, keys: &[(Key, Vec<u8>)]) -> (f64, f64) {
    let theirs = |_| {
        let table = direct.table();
        keys.iter().for_each(|(_, key)| drop(black_box(direct::get(&table, key))));
    };
    compare(keys.len() as u32, theirs, |_| get_all(runtime, ours, keys))
}

fn get_all(runtime: &Runtime, ours: &Ours, keys: &[(Key, Vec<u8>)]) {
    runtime.block_on(async {
        for (key, _) in keys {
            black_box(ours.get(key).await);
        }
    });
}

fn scans(direct: &Direct, ours: impl Fn(&str) -> Vec<Flight>) -> (f64, f64) {
    let theirs = |round: usize| assert_eq!(direct.scan(CARRIERS[round % 10]).len(), ROWS as usize);
    let mine = |round: usize| assert_eq!(ours(CARRIERS[round % 10]).len(), ROWS as usize);
    compare(ROWS, theirs, mine)
}

fn groups(runtime: &Runtime, direct: &Direct, ours: &Ours) -> (f64, f64) {
    let batch = |round: usize| -> Vec<_> {
        let from = round as u32 * 5000;
        (from..from + 5000).map(|n| flight("zg", n)).collect()
    };
    let theirs = |round: usize| batch(round).chunks(100).for_each(|group| direct.insert(group));
    let mine = |round: usize| {
        let flights = batch(round);
        runtime.block_on(async {
            for group in flights.chunks(100) {
                ours.insert_group(group).await;
            }
        });
    };
    compare(5000, theirs, mine)
}

/// Returns a number that no other round has.
fn fresh(round: usize, n: u32) -> u32 {
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
            let items: Vec<_> = (task * EACH..(task + 1) * EACH).map(|n| item(round, n)).collect();
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
            let running: Vec<_> = (0..TASKS).map(|task| scope.spawn(move || write(task))).collect();
            running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    })
}

/// Rates and 99th percentiles of the rounds of a side.
#[derive(Default)]
struct Runs {
    per_second: Vec<f64>,
    slow: Vec<f64>,
}

impl Runs {
    fn add(&mut self, side: &Side<'_>, round: usize) {
        let started = Instant::now();
        let mut times = side(round);
        self.per_second.push(times.len() as f64 / started.elapsed().as_secs_f64());
        times.sort();
        self.slow.push(times[times.len() * 99 / 100].as_secs_f64() * 1e6);
    }
}

/// Returns the medians of writes per second, and of the 99th percentiles of their times in microseconds.
fn writes(theirs: &Side<'_>, mine: &Side<'_>) -> [(f64, f64); 2] {
    let (mut a, mut b) = (Runs::default(), Runs::default());
    rounds::medians(|round| a.add(theirs, round), |round| b.add(mine, round));
    [(median(a.per_second), median(b.per_second)), (median(a.slow), median(b.slow))]
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
