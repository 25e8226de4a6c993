//! Runs maintenance for programs with indexes until it is stopped. It needs only the names of their tables;
//! the manifests describe the rest.

use std::sync::Arc;
use std::time::Duration;

use table_core::prelude::*;
use table_core::queue::WorkQueue;
use table_patterns::index::{IndexOptions, IndexedTable};
use table_patterns::journal::{Acknowledge, Entries};
use table_patterns::queue::TableQueue;
use table_patterns::upkeep::Upkeep;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(surname, partition_key = "surname_{last_name}", row_key = "{department}_{id:06}")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    last_name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let store = MemoryStore::new().into_shared();
    let queue: Arc<dyn WorkQueue> = Arc::new(TableQueue::open(store.clone(), "Work", "employees").await?);
    let mut options = IndexOptions::local();
    options.queue = Some(queue);
    options.acknowledge = Acknowledge::Committed;
    let employees = IndexedTable::<Employee>::open(store.clone(), "Employees", options.clone()).await?;

    let (department, last_name) = ("Sales".to_owned(), "Jones".to_owned());
    let done = employees.insert(&Employee { department, id: 152, last_name }).await?;
    assert_eq!(done.entries, Entries::Pending, "the write is committed and its entry follows");

    // A real program would stop on a signal; this one stops once the entry exists.
    let follows = async {
        while !matches!(employees.by(Employee::by_surname("Jones")).count().await, Ok(1)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let upkeep = Upkeep::new(store).tables(["Employees"]).with_options(options);
    let report = upkeep.with_tickets(16, Duration::from_millis(50)).run(follows).await?;
    for (table, part, due) in report.due() {
        eprintln!("{table}: {part}: {due:?}");
    }
    assert_eq!(report.due().count(), 0);
    assert_eq!(report.errors().count(), 0);
    assert_eq!(employees.by(Employee::by_surname("Jones")).count().await?, 1);
    Ok(())
}
