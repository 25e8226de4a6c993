//! An index in other partitions (the design guide's inter-partition secondary index): an entry per employee in the partition of the
//! surname. The write is committed with a journal row, and the entry follows; after a crash in between, a worker or a sweep finishes the
//! write. Use it for questions across partitions. Between the commit and the entry, a lookup can miss the employee.
//!
//! Cost: insert 4 requests; a lookup of n employees 1 + n.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::index::IndexOptions;
use table_patterns::journal::Acknowledge;
use table_patterns::prelude::*;

/// How long a sweep keeps abort rows: longer than any writer can be paused.
const KEEP_ABORT_ROWS: Duration = Duration::from_secs(24 * 3600);

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
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    // Short leases, for a store in this process. On a service use IndexOptions::default().
    let mut options = IndexOptions::local();
    // The manifest is not read again during the example, which would be counted.
    options.cache = Duration::from_secs(30);
    let employees =
        Database::with_options(store.clone(), options.clone()).table::<Employee>("Employees")?;
    employees.declare().await?;
    let jones = |department: &str, id| Employee {
        department: department.to_owned(),
        id,
        last_name: "Jones".to_owned(),
    };

    // (1) The group with the employee and a journal row commits the write. (2) The entry is written. (3) The employee is read again, in
    // case it has changed. (4) After `insert` has returned, a background task deletes the journal row; `flush` waits for it.
    let insert = async {
        let done = employees.insert(&jones("Sales", 152)).await?;
        employees.flush().await;
        Ok::<_, table_core::Error>(done)
    };
    let (done, cost) = meter.measure(insert).await;
    assert!(!done?.pending, "the entry is written");
    assert_eq!(cost.total(), 4);
    employees.insert(&jones("Marketing", 7)).await?;
    employees.flush().await;

    let (found, cost) = meter
        .measure(employees.by(Employee::by_surname("Jones")).all())
        .await;
    assert_eq!(found?.len(), 2);
    assert_eq!(
        cost.total(),
        1 + 2,
        "1 request for the entries, and 1 for each employee, in parallel"
    );
    let in_sales = employees.by(Employee::by_surname("Jones").department("Sales"));
    assert_eq!(in_sales.count().await?, 1);

    // `Acknowledge::Committed`: the insert returns after 1 request, and the entry does not exist yet. A worker (with a queue) or a sweep
    // writes it later.
    options.acknowledge = Acknowledge::Committed;
    let quick = Database::with_options(store, options).table::<Employee>("Employees")?;
    quick.declare().await?;
    let (done, cost) = meter.measure(quick.insert(&jones("Sales", 153))).await;
    assert!(done?.pending);
    assert_eq!(cost.total(), 1);
    assert_eq!(in_sales.count().await?, 1, "the entry does not exist yet");
    // &[]: this table has no unique index in another partition or table.
    employees
        .entities()
        .await?
        .journal()
        .sweep(&[], KEEP_ABORT_ROWS)
        .await?;
    assert_eq!(in_sales.count().await?, 2);
    employees.flush().await;
    Ok(())
}
