//! Tests of the small adapters and of the full stack.

mod builder;
mod failover;
mod guard;
mod limit;
mod rate;
mod recorder;
#[cfg(feature = "opentelemetry")]
mod telemetry;
mod trace;

use crate::model::{Entity, Key, TableName};
use crate::store::Operation;

fn table() -> TableName {
    TableName::new("Employees").unwrap()
}

fn key(row: &str) -> Key {
    Key::new("Sales", row).unwrap()
}

fn insert(row: &str) -> Operation {
    Operation::Insert(Entity::from(key(row)).with("Name", "Kenneth"))
}
