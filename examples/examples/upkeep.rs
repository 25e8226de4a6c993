//! What runs beside a program with entries in other partitions: a worker, and a sweep by the day, until it ends.

use std::sync::Arc;
use std::time::Duration;

use table_core::prelude::*;
use table_core::queue::WorkQueue;
use table_patterns::index::{IndexOptions, IndexedTable};
use table_patterns::journal::{Acknowledge, Entries, Recovery};
use table_patterns::queue::TableQueue;

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

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Brings entries into step until `stop` is ready: those of writes that died, or that did not wait for them.
async fn upkeep(
    employees: &IndexedTable<Employee>,
    queue: &dyn WorkQueue,
    stop: impl Future<Output = ()>,
) -> table_core::Result<()> {
    let journal = employees.entities().journal();
    let worker = Recovery::new(queue, vec![journal]);
    let work = worker.run(16, Duration::from_millis(50), stop);
    let sweeps = async {
        let mut daily = tokio::time::interval(DAY);
        loop {
            daily.tick().await;
            // The tables that hold unique entries; the entities' own, if an index is unique in other partitions.
            let unique: [TableName; 0] = [];
            match journal.sweep(&unique, 7 * DAY).await {
                Ok(report) => eprintln!("swept: {report:?}"),
                Err(error) => eprintln!("a sweep did not end; the next one goes on: {error}"),
            }
        }
    };
    tokio::select! { done = work => done, () = sweeps => Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let store = MemoryStore::new().into_shared();
    let queue: Arc<dyn WorkQueue> = Arc::new(TableQueue::open(store.clone(), "Work", "employees").await?);
    let mut options = IndexOptions::local();
    options.queue = Some(queue.clone());
    options.acknowledge = Acknowledge::Committed;
    let employees = IndexedTable::<Employee>::open(store, "Employees", options).await?;

    let (department, last_name) = ("Sales".to_owned(), "Jones".to_owned());
    let done = employees.insert(&Employee { department, id: 152, last_name }).await?;
    assert_eq!(done.entries, Entries::Pending, "it is safe, its entry follows");

    // A program stops for a signal; this one, once the entry is there.
    let follows = async {
        while !matches!(employees.by(Employee::by_surname("Jones")).count().await, Ok(1)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    upkeep(&employees, &*queue, follows).await?;
    assert_eq!(employees.by(Employee::by_surname("Jones")).count().await?, 1);
    Ok(())
}
