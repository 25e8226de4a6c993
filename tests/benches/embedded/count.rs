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
use crate::ratios::{self, TASKS};

/// Repeats one operation of one side: gets of 20,000 keys, a scan of 10,000 rows, a group of 100 rows, or 64 inserts at once.
pub(crate) fn run(
    directory: &Path,
    runtime: &Runtime,
    (operation, side): (&str, &str),
    rounds: u32,
) {
    let reads = matches!(operation, "get" | "scan" | "pages");
    let loaded = if reads { ROWS } else { 100 };
    match side {
        "direct" => {
            let direct = Arc::new(Direct::create(directory));
            direct.load(CARRIERS[3], loaded);
            redb(&direct, runtime, operation, rounds);
        }
        "ours" => {
            let ours = runtime.block_on(Ours::create(directory));
            runtime.block_on(ours.load(CARRIERS[3], loaded));
            runtime.block_on(library(&ours, operation, rounds));
        }
        _ => panic!("no such side: {side}"),
    }
}

fn redb(direct: &Arc<Direct>, runtime: &Runtime, operation: &str, rounds: u32) {
    let committer = Committer::start(direct);
    let keys = ratios::keys_of(&CARRIERS[3..4]);
    for round in 0..rounds {
        match operation {
            "get" => keys
                .iter()
                .for_each(|(_, key)| drop(black_box(direct.get(key)))),
            "scan" => drop(black_box(direct.scan(CARRIERS[3]))),
            "group" => direct.insert(&flights(round, 100)),
            "insert" => {
                let flights = flights(round, TASKS);
                runtime.block_on(join_all(
                    flights.iter().map(|flight| committer.insert(flight)),
                ));
            }
            _ => panic!("no such operation of redb: {operation}"),
        }
    }
}

async fn library(ours: &Ours, operation: &str, rounds: u32) {
    let keys = ratios::keys_of(&CARRIERS[3..4]);
    let (trips, requests) = (
        Trips::open(ours.store()).await,
        Requests::open(ours.store()).await,
    );
    for round in 0..rounds {
        match operation {
            "get" => {
                for (key, _) in &keys {
                    black_box(ours.get(key).await);
                }
            }
            "scan" => drop(black_box(ours.scan(CARRIERS[3]).await)),
            "pages" => drop(black_box(ours.scan_pages(CARRIERS[3]).await)),
            "group" => ours.insert_group(&flights(round, 100)).await,
            "insert" => drop(
                join_all(
                    flights(round, TASKS)
                        .iter()
                        .map(|flight| ours.insert(flight)),
                )
                .await,
            ),
            "plain" => {
                let batch: Vec<PlainTrip> = batch(round).map(Into::into).collect();
                try_join_all(batch.iter().map(|trip| trips.plain.insert(trip)))
                    .await
                    .unwrap();
            }
            "indexed" => {
                let batch: Vec<_> = batch(round).collect();
                try_join_all(batch.iter().map(|trip| trips.indexed.insert(trip)))
                    .await
                    .unwrap();
            }
            "requests" => {
                let batch: Vec<_> = batch(round).collect();
                join_all(batch.iter().map(|trip| requests.insert(trip))).await;
            }
            _ => panic!("no such operation: {operation}"),
        }
    }
}

fn batch(round: u32) -> impl Iterator<Item = Trip> {
    (round * TASKS..(round + 1) * TASKS).map(trip)
}

fn flights(round: u32, count: u32) -> Vec<Flight> {
    (round * count..(round + 1) * count)
        .map(|n| flight("zz", n))
        .collect()
}
