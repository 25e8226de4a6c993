//! A list of references per value in another partition: one row per surname of the whole company. The list is written after the employee;
//! after a crash, a worker or a sweep completes it. Until then the list misses the employee.
//!
//! Cost: an insert 5 requests with one list; a lookup of n employees 1 + n.

use std::time::Duration;

use table_core::adapter::{CrashPoint, FaultInjector, Faulty, Metered, RequestMeter};
use table_patterns::index::IndexOptions;
use table_patterns::prelude::*;

/// How long a sweep keeps abort rows: longer than any writer can be paused.
const KEEP_ABORT_ROWS: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(surname, partition_key = "surname_{last_name}", row_key = "employees", shape = list)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    last_name: String,
}

fn jones(department: &str, id: u32) -> Employee {
    Employee {
        department: department.to_owned(),
        id,
        last_name: "Jones".to_owned(),
    }
}

fn open(store: impl TableStore) -> table_core::Result<Table<Employee>> {
    // Short leases, for a store in this process. On a service use IndexOptions::default().
    Database::with_options(store, IndexOptions::local()).table("Employees")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let (store, meter) = (MemoryStore::new(), RequestMeter::new());
    let employees = open(Metered::new(store.clone(), meter.clone()))?;
    employees.declare().await?;
    let insert = async {
        employees.insert(&jones("Sales", 152)).await?;
        employees.flush().await;
        Ok::<_, table_core::Error>(())
    };
    let (inserted, cost) = meter.measure(insert).await;
    inserted?;
    assert_eq!(cost.total(), 5);
    employees.insert(&jones("Marketing", 7)).await?;
    employees.flush().await;
    let by_surname = employees.by(Employee::by_surname("Jones"));
    let departments: Vec<_> = by_surname
        .all()
        .await?
        .into_iter()
        .map(|found| found.department)
        .collect();
    assert_eq!(departments, ["Marketing", "Sales"]);

    // A program crashes after the group that writes the employee and before the list.
    let faults = FaultInjector::new(0);
    let crashing = open(Faulty::new(store, faults.clone()))?;
    crashing.declare().await?;
    // The first request, the group, takes effect; then every request fails, as if the program had crashed.
    faults.crash_at(1, CrashPoint::After);
    crashing.insert(&jones("Sales", 9)).await.unwrap_err();
    assert_eq!(by_surname.count().await?, 2);

    // The group contained the journal row. Another program finds it and completes the write, after the lease of the crashed program:
    // 1 second here. &[]: this table has no unique index in another partition or table.
    let report = employees
        .entities()
        .await?
        .journal()
        .sweep(&[], KEEP_ABORT_ROWS)
        .await?;
    assert_eq!(report.applied, 1);
    assert_eq!(by_surname.count().await?, 3);
    employees.flush().await;
    Ok(())
}
