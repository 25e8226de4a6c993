//! Processor time and throughput of clients of the Table service, on one emulator, in alternating rounds.
//!
//! `bench-clients [rounds=N] [get] [insert] [group] [scan] [ours] [direct] [legacy] [node]`: without names, all
//! operations and all clients; 5 rounds.

#[path = "../../shared/base64_text.rs"]
mod base64_text;
mod direct;
mod employee;
mod legacy;
#[path = "../../shared/load.rs"]
mod load;
mod measure;
#[path = "../../shared/median.rs"]
mod median;
mod node;
mod ours;
mod report;
mod side;

use azurite::Azurite;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::direct::Direct;
use crate::employee::SALES;
use crate::legacy::Legacy;
use crate::measure::{Cost, LOADED, Operation, round};
use crate::node::Node;
use crate::ours::Ours;
use crate::report::{Costs, print};
use crate::side::Side;

const SIDES: [&str; 4] = ["ours", "direct", "legacy", "node"];

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let rounds = chosen
        .iter()
        .find_map(|a| a.strip_prefix("rounds=")?.parse().ok())
        .unwrap_or(5);
    let names: Vec<_> = Operation::ALL
        .iter()
        .map(name)
        .chain(SIDES.map(str::to_owned))
        .collect();
    let unknown: Vec<_> = chosen
        .iter()
        .filter(|a| !names.contains(a) && a.strip_prefix("rounds=").is_none())
        .collect();
    assert!(
        unknown.is_empty(),
        "unknown: {unknown:?}; the names are {names:?}, and rounds=N"
    );
    let operations = some_of(Operation::ALL.to_vec(), &chosen, name);
    let sides = some_of(SIDES.to_vec(), &chosen, |side| (*side).to_owned());
    let runtime = Runtime::new().unwrap();
    let mut clients = Clients::start(runtime, &sides);
    for operation in operations {
        let mut costs = Costs::new(&sides);
        // The first round opens connections and warms caches; its costs are not counted.
        for number in 0..=rounds {
            for (index, side) in sides.iter().enumerate() {
                let cost =
                    clients.round(side, operation, &format!("{operation:?}-{side}-{number}"));
                if number > 0 {
                    costs.add(index, cost);
                }
            }
        }
        print(operation, &costs);
    }
}

/// The name of an operation as an argument.
fn name(operation: &Operation) -> String {
    format!("{operation:?}").to_lowercase()
}

/// Returns the named values, or all values if no name is given.
fn some_of<T>(all: Vec<T>, chosen: &[String], name: impl Fn(&T) -> String) -> Vec<T> {
    let is_chosen = |item: &T| chosen.contains(&name(item));
    let any = all.iter().any(is_chosen);
    all.into_iter()
        .filter(|item| !any || is_chosen(item))
        .collect()
}

struct Clients {
    runtime: Runtime,
    ours: Ours,
    direct: Direct,
    legacy: Legacy,
    node: Option<Node>,
}

impl Clients {
    /// Creates all clients on one table, which holds the entities to read.
    fn start(runtime: Runtime, sides: &[&str]) -> Self {
        let emulator = Azurite::shared();
        let table = format!("T{}", Uuid::new_v4().simple());
        let ours = runtime.block_on(Ours::create(&emulator.connection_string(), &table));
        runtime.block_on(load(&ours));
        Self {
            runtime,
            ours,
            direct: Direct::new(emulator.tables(), emulator.account(), &table),
            legacy: Legacy::new(emulator.tables(), &table),
            node: sides
                .contains(&"node")
                .then(|| Node::start(emulator, &table)),
        }
    }

    fn round(&mut self, side: &str, operation: Operation, partition: &str) -> Cost {
        match side {
            "ours" => round(&self.runtime, &self.ours, operation, partition),
            "direct" => round(&self.runtime, &self.direct, operation, partition),
            "legacy" => round(&self.runtime, &self.legacy, operation, partition),
            _ => self
                .node
                .as_mut()
                .expect("Node was started")
                .round(operation, partition),
        }
    }
}

async fn load(ours: &Ours) {
    let rows: Vec<_> = (0..LOADED).map(|n| Ours::row(SALES, n)).collect();
    for group in rows.chunks(100) {
        ours.group(SALES, group).await;
    }
}
