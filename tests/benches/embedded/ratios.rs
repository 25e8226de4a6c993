use std::hint::black_box;
use std::sync::Arc;

use table_core::model::Key;
use tokio::runtime::Runtime;

use crate::direct::{self, Direct};
use crate::flight::{CARRIERS, Flight, flight};
use crate::ours::Ours;
use crate::rounds;

const ROWS: u32 = 10_000;
const TASKS: u32 = 64;

/// Measures both sides in alternating rounds and prints medians and their ratio.
#[expect(clippy::print_stdout, reason = "the result of the benchmark")]
pub(crate) fn print(runtime: &Runtime, direct: &Arc<Direct>, ours: &Ours) {
    let row = |what: &str, unit: &str, target: &str, (theirs, mine): (f64, f64)| {
        println!("| {what} | {theirs:.0} | {mine:.0} | {:.2} | {target} | {unit} |", mine / theirs);
    };
    println!("| | redb + postcard | this library | ratio | target | unit |\n|---|---|---|---|---|---|");
    let keys = keys();
    row("point get, a transaction each", "per s", "0.8", point_gets(runtime, direct, ours, &keys));
    row("point get, one transaction for all", "per s", "", shared_gets(runtime, direct, ours, &keys));
    let all = |carrier: &str| runtime.block_on(ours.scan(carrier));
    row("partition scan", "rows per s", "0.7", scans(direct, all));
    let pages = |carrier: &str| runtime.block_on(ours.scan_pages(carrier));
    row("partition scan, one page after another", "rows per s", "", scans(direct, pages));
    row("group transactions of 100", "rows per s", "0.8", groups(runtime, direct, ours));
    row("durable inserts, 64 at once", "per s", "5", inserts(runtime, direct, ours));
    let blocking = runtime.block_on(ours.with_blocking_reads());
    row("point get, a blocking thread each", "per s", "", point_gets(runtime, direct, &blocking, &keys));
}

/// Returns the medians of both sides, in operations per second.
fn compare(count: u32, theirs: impl FnMut(usize), mine: impl FnMut(usize)) -> (f64, f64) {
    let (theirs, mine) = rounds::medians(theirs, mine);
    (f64::from(count) / theirs.as_secs_f64(), f64::from(count) / mine.as_secs_f64())
}

/// Keys of random rows of all partitions, in the forms of both sides.
pub(crate) fn keys() -> Vec<(Key, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut key = || {
        let flight = flight(CARRIERS[random.usize(..CARRIERS.len())], random.u32(..ROWS));
        let key = Key::from_sortable(&direct::key(&flight)).unwrap();
        (key.clone(), key.to_sortable())
    };
    (0..20_000).map(|_| key()).collect()
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
    let batch = |round: usize| fresh("zg", round, 5000);
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

/// Flights that no other round writes.
fn fresh(carrier: &str, round: usize, count: u32) -> Vec<Flight> {
    let from = round as u32 * count;
    (from..from + count).map(|n| flight(carrier, n)).collect()
}

fn inserts(runtime: &Runtime, direct: &Arc<Direct>, ours: &Ours) -> (f64, f64) {
    let each = |round: usize, per_task: u32| {
        let flights = fresh("zi", round, TASKS * per_task);
        flights.chunks(per_task as usize).map(<[Flight]>::to_vec).collect::<Vec<_>>()
    };
    let theirs = |round: usize| {
        std::thread::scope(|scope| {
            for flights in each(round, 10) {
                scope.spawn(move || flights.iter().for_each(|f| direct.insert(std::slice::from_ref(f))));
            }
        });
    };
    let mine = |round: usize| {
        runtime.block_on(async {
            let insert = |flights: Vec<Flight>| {
                let ours = ours.clone();
                tokio::spawn(async move {
                    for flight in &flights {
                        ours.insert(flight).await;
                    }
                })
            };
            for task in each(round, 100).into_iter().map(insert).collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
    };
    let (theirs, mine) = compare(TASKS * 10, theirs, mine);
    (theirs, mine * 10.0)
}
