//! Background maintenance: `Upkeep` finishes the writes that crashed, works on queue messages (*tickets*), sweeps every 10 minutes and
//! scrubs every 30 days. It needs only the names of the tables: their manifests describe the indexes. Run it in every deployment that
//! has indexes in other partitions or tables.
//!
//! Cost without work: 2 requests per round and table (more for tables of more than 1,000 rows and for tables of unique entries), and 1
//! request per second for the queue.

use std::sync::Arc;
use std::time::Duration;

use table_core::queue::WorkQueue;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Acknowledge;
use table_patterns::prelude::*;
use table_patterns::queue::TableQueue;
use table_patterns::upkeep::Upkeep;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(
    surname,
    partition_key = "surname_{last_name}",
    row_key = "{department}_{id:06}"
)]
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
    let queue: Arc<dyn WorkQueue> =
        Arc::new(TableQueue::open(store.clone(), "Work", "employees").await?);
    // Short leases, for a store in this process. On a service use IndexOptions::default().
    let mut options = IndexOptions::local();
    options.queue = Some(queue);
    // A write returns after its commit; the entry is left to the worker, so that this example has work for it.
    options.acknowledge = Acknowledge::Committed;
    let employees =
        Database::with_options(store.clone(), options.clone()).table::<Employee>("Employees")?;
    employees.declare().await?;

    let jones = Employee {
        department: "Sales".to_owned(),
        id: 152,
        last_name: "Jones".to_owned(),
    };
    let done = employees.insert(&jones).await?;
    assert!(done.pending, "the write is committed and its entry follows");

    // A program stops on a signal; this one stops once the entry exists.
    let entry_exists = async {
        while employees
            .by(Employee::by_surname("Jones"))
            .count()
            .await
            .expect("a lookup")
            != 1
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let upkeep = Upkeep::new(store)
        .tables(["Employees"])
        .with_options(options);
    // 16 tickets at a time; asks an empty queue every 50 ms (by default every second).
    let report = upkeep
        .with_tickets(16, Duration::from_millis(50))
        .run(entry_exists)
        .await?;
    // A program reports each (table, part, due): work that Upkeep cannot do.
    assert_eq!(report.due().count(), 0);
    assert_eq!(report.errors().count(), 0);
    assert_eq!(
        employees.by(Employee::by_surname("Jones")).count().await?,
        1
    );
    employees.flush().await;
    Ok(())
}
