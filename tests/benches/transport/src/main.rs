//! The Azure store compared with a client written by hand on `reqwest`. The server is a process of its own on this machine; it answers
//! every get after a delay.
//!
//! `cargo run --release` in this folder prints the client's processor time for a get, with 32 gets in flight and no delay, and
//! gets per second with 1,000 in flight and 20 ms delay; `-- 9` sets the number of rounds. `-- count SIDE GETS` only gets, one
//! after another, for tools that count instructions; `-- load SIDE GETS` gets with 32 in flight, for profilers.

#[path = "../../shared/base64_text.rs"]
mod base64_text;
#[allow(dead_code, reason = "bench-clients also uses the writes")]
#[path = "../../azurite/src/direct.rs"]
mod direct;
#[allow(dead_code, reason = "bench-clients also uses the writes")]
#[path = "../../azurite/src/employee.rs"]
mod employee;
#[path = "../../shared/load.rs"]
mod load;
#[path = "../../shared/median.rs"]
mod median;
mod server;
#[allow(dead_code, reason = "bench-clients also uses the writes")]
#[path = "../../azurite/src/side.rs"]
mod side;

use std::time::{Duration, Instant};

use table_azure::{AzureTableStore, AzureTableStoreOptions};
use table_core::typed::PlainTable;
use tokio::runtime::Runtime;

use crate::direct::Direct;
use crate::employee::{Employee, SALES};
use crate::load::processor_time;
use crate::median::median;
use crate::server::Server;
use crate::side::Side as _;

/// The public account of the emulators.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const SIDES: [&str; 2] = ["this store", "by hand on reqwest"];

#[derive(Clone)]
enum Side {
    Store(PlainTable<Employee>),
    Direct(Direct),
}

impl Side {
    async fn get(&self, number: u32) {
        match self {
            Self::Store(table) => {
                let read = table
                    .get(Employee::key(SALES, number).unwrap())
                    .await
                    .unwrap()
                    .unwrap();
                assert_eq!(read.number, number);
            }
            Self::Direct(direct) => direct.get(number).await,
        }
    }
}

fn open(server: &Server) -> [Side; 2] {
    let endpoint = format!("http://127.0.0.1:{}/{ACCOUNT}", server.port);
    let connection = format!(
        "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={endpoint};"
    );
    let mut options = AzureTableStoreOptions::default();
    options.max_in_flight = 1000;
    let store = AzureTableStore::from_connection_string(&connection, Some(options)).unwrap();
    let table = PlainTable::new(store, "Employees").unwrap();
    [
        Side::Store(table),
        Side::Direct(Direct::new(&endpoint, (ACCOUNT, KEY), "Employees")),
    ]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = Runtime::new().unwrap();
    match arguments[..] {
        ["serve", delay] => {
            runtime.block_on(server::serve(Duration::from_millis(delay.parse().unwrap())))
        }
        ["count", side, gets] => {
            let server = Server::start(0);
            let side = open(&server)[side.parse::<usize>().unwrap()].clone();
            let gets: u32 = gets.parse().unwrap();
            let all = async move {
                for number in 0..gets {
                    side.get(number).await;
                }
            };
            runtime.block_on(runtime.spawn(all)).unwrap();
        }
        ["load", side, gets] => {
            let server = Server::start(0);
            let sides = open(&server);
            let (before, gets) = (processor_time(), gets.parse().unwrap());
            in_flight(&runtime, &sides[side.parse::<usize>().unwrap()], 32, gets);
            println!(
                "{:.1} µs",
                (processor_time() - before).as_secs_f64() * 1e6 / f64::from(gets)
            );
        }
        [] => print(&runtime, 5),
        [rounds] => print(&runtime, rounds.parse().unwrap()),
        _ => panic!("unknown arguments: {arguments:?}"),
    }
}

fn print(runtime: &Runtime, rounds: usize) {
    println!("| | {} |\n|---|---|---|", SIDES.join(" | "));
    for (what, delay, tasks, gets) in [
        ("32 in flight, no delay", 0, 32, 20_000),
        ("1,000 in flight, 20 ms", 20, 1000, 20_000),
    ] {
        let server = Server::start(delay);
        let sides = open(&server);
        let (mut cpu, mut rate) = (vec![Vec::new(); SIDES.len()], vec![Vec::new(); SIDES.len()]);
        for _ in 0..rounds {
            for (n, side) in sides.iter().enumerate() {
                let (before, started) = (processor_time(), Instant::now());
                in_flight(runtime, side, tasks, gets);
                cpu[n].push((processor_time() - before).as_secs_f64() * 1e6 / f64::from(gets));
                rate[n].push(f64::from(gets) / started.elapsed().as_secs_f64());
            }
        }
        for (unit, figures) in [
            ("µs of processor time for a get", cpu),
            ("gets per second", rate),
        ] {
            let cells: Vec<_> = figures
                .into_iter()
                .map(|figures| format!("{:.1}", median(figures)))
                .collect();
            println!("| {what}, {unit} | {} |", cells.join(" | "));
        }
    }
}

/// Gets in concurrent tasks.
fn in_flight(runtime: &Runtime, side: &Side, tasks: u32, gets: u32) {
    let side = side.clone();
    let get = move |number| {
        let side = side.clone();
        async move { side.get(number).await }
    };
    runtime.block_on(load::in_flight(tasks, gets, get));
}
