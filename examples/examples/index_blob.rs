//! Index entities, option 1 of the design guide: a blob of references per surname. Blobs never change; a row refers to the current blob. Use
//! it for very long lists that change rarely; lists with overflow (`index_list_overflow`) are usually better.
//!
//! Cost of a lookup of n employees: 1 + n requests, and 1 to the blob store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_patterns::index::IndexOptions;
use table_patterns::prelude::*;

/// How long a sweep keeps abort rows: longer than any writer can be paused.
const KEEP_ABORT_ROWS: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(surname, partition_key = "surname_{last_name}", row_key = "employees", shape = blob)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    last_name: String,
}

fn jones(id: u32) -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id,
        last_name: "Jones".to_owned(),
    }
}

fn open(store: impl TableStore, blobs: Arc<InMemory>) -> table_core::Result<Table<Employee>> {
    // Short leases, for a store in this process. On a service use IndexOptions::default().
    let mut options = IndexOptions::local();
    options.blobs = Some(blobs);
    Database::with_options(store, options).table("Employees")
}

async fn count(blobs: &InMemory) -> usize {
    blobs
        .list(None)
        .try_collect::<Vec<_>>()
        .await
        .expect("blobs in memory")
        .len()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let (store, blobs) = (MemoryStore::new(), Arc::new(InMemory::new()));
    let employees = open(store.clone(), blobs.clone())?;
    employees.declare().await?;
    for id in 0..10 {
        employees.insert(&jones(id)).await?;
    }
    let by_surname = employees.by(Employee::by_surname("Jones"));
    assert_eq!(by_surname.all().await?.len(), 10);
    assert_eq!(count(&blobs).await, 1, "the earlier blobs are deleted");

    // A program crashes between the new blob and the row that would refer to it. Its table requests are: (1) the group, (2) reading the
    // list's row, (3) writing the list's row; the crash comes before (3).
    let faults = FaultInjector::new(0);
    let crashing = open(Faulty::new(store, faults.clone()), blobs.clone())?;
    crashing.declare().await?;
    faults.crash_at(3, CrashPoint::Before);
    let crashed = crashing.insert(&jones(10)).await;
    assert!(faults.is_crashed(), "{crashed:?}");
    assert_eq!(by_surname.all().await?.len(), 10);
    // The sweep finds the journal row of the crashed write, and writes the list. The other writes remove their journal rows first.
    employees.flush().await;
    let report = employees
        .entities()
        .await?
        .journal()
        .sweep(&[], KEEP_ABORT_ROWS)
        .await?;
    assert_eq!(report.applied, 1);
    assert_eq!(by_surname.all().await?.len(), 11);

    // `collect_blobs` deletes the blob that no row refers to. It first waits for the longest lease of all writers.
    employees.entities().await?.collect_blobs("surname").await?;
    assert_eq!(count(&blobs).await, 1);
    employees.flush().await;
    Ok(())
}
