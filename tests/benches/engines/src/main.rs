//! The embedded store compared with engines that a program could use instead, with the same operations and the same durability: SQLite
//! (WAL, synchronous=FULL, a typed mapping by serde), fjall and redb, both with postcard.
//!
//! `cargo run --release` in this folder prints medians of alternating rounds; `-- 9` sets the number of rounds.

#[path = "../../embedded/committer.rs"]
mod committer;
#[path = "../../embedded/direct.rs"]
#[allow(
    dead_code,
    reason = "the benchmark of the embedded store uses more of it"
)]
mod direct;
#[path = "../../embedded/flight.rs"]
mod flight;
mod lsm;
#[path = "../../shared/median.rs"]
mod median;
#[path = "../../embedded/ours.rs"]
#[allow(
    dead_code,
    reason = "the benchmark of the embedded store uses more of it"
)]
mod ours;
mod sides;
mod sqlite;

use std::time::{Duration, Instant};

use crate::flight::{CARRIERS, Flight, flight};
use crate::median::median;
use crate::sides::Side;

const CACHE_BYTES: usize = 256 << 20;
/// Rows of each of the ten partitions.
const ROWS: u32 = 10_000;
const GETS: usize = 20_000;
const GROUPS: u32 = 30;
const TASKS: u32 = 64;
/// Durable inserts of each task in one round.
const EACH: u32 = 10;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .map_or(5, |rounds| rounds.parse().unwrap());
    let directory = tempfile::tempdir_in(".").unwrap();
    let sides = sides::open(directory.path());
    for side in &sides {
        for carrier in CARRIERS {
            let all: Vec<_> = (0..ROWS).map(|n| flight(carrier, n)).collect();
            all.chunks(100).for_each(|group| side.group(group));
        }
    }
    let names: Vec<_> = sides.iter().map(|side| side.name()).collect();
    println!(
        "| operation, per second | {} |\n|---|{}",
        names.join(" | "),
        "---|".repeat(names.len())
    );

    let keys = random_flights();
    let get = |side: &dyn Side, _| {
        side.get_all(&keys);
        (keys.len(), Vec::new())
    };
    row("point get, a transaction each", rounds, &sides, get);
    row(
        "scan of a partition of 10,000, rows",
        rounds,
        &sides,
        |side, round| {
            let carrier = CARRIERS[round % CARRIERS.len()];
            assert_eq!(side.scan(carrier).len(), ROWS as usize, "{}", side.name());
            (ROWS as usize, Vec::new())
        },
    );
    row("groups of 100, rows", rounds, &sides, |side, round| {
        let from = round as u32 * GROUPS * 100;
        let all: Vec<_> = (from..from + GROUPS * 100)
            .map(|n| flight("zg", n))
            .collect();
        all.chunks(100).for_each(|group| side.group(group));
        (all.len(), Vec::new())
    });
    row(
        "durable inserts, 64 at once",
        rounds,
        &sides,
        |side, round| {
            let from = round as u32 * TASKS * EACH;
            let all: Vec<_> = (from..from + TASKS * EACH)
                .map(|n| flight("zi", n))
                .collect();
            let times = side.insert_at_once(&all, EACH as usize);
            (all.len(), times)
        },
    );
}

/// Prints the medians of all sides, and of the 99th percentiles if the operation returns the times of its parts.
fn row(
    what: &str,
    rounds: usize,
    sides: &[Box<dyn Side>],
    operation: impl Fn(&dyn Side, usize) -> (usize, Vec<Duration>),
) {
    let (mut rates, mut slow) = (vec![Vec::new(); sides.len()], vec![Vec::new(); sides.len()]);
    for round in 0..rounds {
        for (n, side) in sides.iter().enumerate() {
            let started = Instant::now();
            let (count, mut times) = operation(&**side, round);
            rates[n].push(count as f64 / started.elapsed().as_secs_f64());
            times.sort();
            if times.len() > 100 {
                slow[n].push(times[times.len() * 99 / 100].as_secs_f64() * 1e3);
            }
        }
    }
    let print = |what: &str, all: Vec<Vec<f64>>, digits: usize| {
        let cells: Vec<_> = all
            .into_iter()
            .map(|figures| format!("{:.digits$}", median(figures)))
            .collect();
        println!("| {what} | {} |", cells.join(" | "));
    };
    print(what, rates, 0);
    if !slow[0].is_empty() {
        print("their 99th percentile, ms", slow, 1);
    }
}

fn random_flights() -> Vec<Flight> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..GETS)
        .map(|_| flight(CARRIERS[random.usize(..CARRIERS.len())], random.u32(..ROWS)))
        .collect()
}
