use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use tokio::runtime::Runtime;

use crate::ROWS;
use crate::committer::Committer;
use crate::direct::Direct;
use crate::flight::{CARRIERS, Flight, flight};
use crate::indexed::{PlainTrip, Requests, Trip, Trips, trip};
use crate::ours::Ours;
use crate::ratios;

/// Inserts at once.
const TASKS: u32 = 64;

/// Repeats one work of one side: gets of 20,000 keys, a scan of 10,000 rows, a group of 100 rows, or 64 inserts at once.
pub(crate) fn run(directory: &Path, runtime: &Runtime, (work, side): (&str, &str), times: u32) {
    let reads = matches!(work, "get" | "scan" | "pages");
    let loaded = if reads { ROWS } else { 100 };
    if side == "direct" {
        let direct = Arc::new(Direct::create(directory));
        direct.load(CARRIERS[3], loaded);
        theirs(&direct, runtime, work, times);
    } else {
        let ours = runtime.block_on(Ours::create(directory));
        runtime.block_on(ours.load(CARRIERS[3], loaded));
        runtime.block_on(mine(&ours, work, times));
    }
}

fn theirs(direct: &Arc<Direct>, runtime: &Runtime, work: &str, times: u32) {
    let committer = Committer::start(direct);
    let keys = ratios::keys_of(&CARRIERS[3..4]);
    for time in 0..times {
        match work {
            "get" => keys.iter().for_each(|(_, key)| drop(black_box(direct.get(key)))),
            "scan" | "pages" => drop(black_box(direct.scan(CARRIERS[3]))),
            "group" => direct.insert(&flights(time, 100)),
            _ => {
                let flights = flights(time, TASKS);
                runtime.block_on(join_all(flights.iter().map(|flight| committer.insert(flight))));
            }
        }
    }
}

async fn mine(ours: &Ours, work: &str, times: u32) {
    let keys = ratios::keys_of(&CARRIERS[3..4]);
    let (trips, requests) = (Trips::open(ours.store()).await, Requests::open(ours.store()).await);
    for time in 0..times {
        match work {
            "get" => {
                for (key, _) in &keys {
                    black_box(ours.get(key).await);
                }
            }
            "scan" => drop(black_box(ours.scan(CARRIERS[3]).await)),
            "pages" => drop(black_box(ours.scan_pages(CARRIERS[3]).await)),
            "group" => ours.insert_group(&flights(time, 100)).await,
            "insert" => drop(join_all(flights(time, TASKS).iter().map(|flight| ours.insert(flight))).await),
            "plain" => {
                let batch: Vec<PlainTrip> = batch(time).map(Into::into).collect();
                try_join_all(batch.iter().map(|trip| trips.plain.insert(trip))).await.unwrap();
            }
            "indexed" => {
                let batch: Vec<_> = batch(time).collect();
                try_join_all(batch.iter().map(|trip| trips.indexed.insert(trip))).await.unwrap();
            }
            "requests" => {
                let batch: Vec<_> = batch(time).collect();
                join_all(batch.iter().map(|trip| requests.insert(trip))).await;
            }
            _ => panic!("no such work: {work}"),
        }
    }
}

fn batch(time: u32) -> impl Iterator<Item = Trip> {
    (time * TASKS..(time + 1) * TASKS).map(trip)
}

fn flights(time: u32, count: u32) -> Vec<Flight> {
    (time * count..(time + 1) * count).map(|n| flight("zz", n)).collect()
}
