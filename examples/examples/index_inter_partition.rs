//! The design guide's inter-partition secondary index: an entry per employee in the partition of the surname.
//! The write is committed with a journal row, and the entry follows; a crash in between is recovered.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedTable};
use table_patterns::journal::{Acknowledge, Entries};

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
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let mut options = IndexOptions::local();
    options.cache = Duration::from_secs(30);
    let employees = IndexedTable::<Employee>::open(store.clone(), "Employees", options.clone()).await?;
    let jones = |department: &str, id| Employee {
        department: department.to_owned(),
        id,
        last_name: "Jones".to_owned(),
    };

    let before = meter.total();
    let done = employees.insert(&jones("Sales", 152)).await?;
    // The group with the journal row, the entry, the employee again; behind the answer, the journal row.
    employees.flush().await;
    assert_eq!((done.entries, meter.total() - before), (Entries::Applied, 4));
    employees.insert(&jones("Marketing", 7)).await?;

    employees.flush().await;
    let before = meter.total();
    let found = employees.by(Employee::by_surname("Jones")).all().await?;
    assert_eq!((found.len(), meter.total() - before), (2, 1 + 2), "the entries, and each employee, at once");
    let in_sales = employees.by(Employee::by_surname("Jones").department("Sales"));
    assert_eq!(in_sales.count().await?, 1);

    // A writer that returns when the write is committed. A sweep or a worker applies the entry.
    options.acknowledge = Acknowledge::Committed;
    let quick = IndexedTable::<Employee>::open(store, "Employees", options).await?;
    let before = meter.total();
    let done = quick.insert(&jones("Sales", 153)).await?;
    assert_eq!((done.entries, meter.total() - before), (Entries::Pending, 1));
    assert_eq!(in_sales.count().await?, 1, "not yet");
    employees.entities().journal().sweep(&[], Duration::from_secs(86_400)).await?;
    assert_eq!(in_sales.count().await?, 2);
    employees.flush().await;
    Ok(())
}
