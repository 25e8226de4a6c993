//! A list that is longer than one row (nearly 1 MiB) continues in further rows (*chunks*) or in a blob. When it becomes shorter, it is one
//! row again.
//!
//! Cost of a lookup: 1 request, and 1 per chunk, in parallel, or 1 to the blob store; and 1 per employee.

use std::sync::Arc;

use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_patterns::index::IndexOptions;
use table_patterns::prelude::*;

const MEMBERS: u32 = 900;

/// Two indexes by surname. The lists have at most 1 KiB per row instead of nearly 1 MiB, so that they overflow soon.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(rows, row_key = "rows_{last_name}", shape = list(bytes = 1024))]
#[index(blobs, row_key = "blobs_{last_name}", shape = list(bytes = 1024, overflow = blob))]
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Metered::new(MemoryStore::new(), meter.clone());
    let mut options = IndexOptions::default();
    options.blobs = Some(Arc::new(InMemory::new()));
    let employees = Database::with_options(store, options).table::<Employee>("Employees")?;
    employees.declare().await?;
    let all: Vec<_> = (0..MEMBERS).map(jones).collect();
    // A group has at most 100 operations: 50 employees, the lists and their chunks.
    for members in all.chunks(50) {
        let mut group = employees.group(Employee::partition("Sales")?);
        for member in members {
            group.insert(member)?;
        }
        group.commit().await?;
    }

    // `count` reads the references only.
    let in_rows = employees.by(Employee::by_rows("Sales").last_name("Jones"));
    let in_blob = employees.by(Employee::by_blobs("Sales").last_name("Jones"));
    let (count, cost) = meter.measure(in_rows.count()).await;
    assert_eq!(count?, MEMBERS as usize);
    assert!(
        cost.total() > 4,
        "1 request for the list's row and 1 for each chunk: {}",
        cost.total()
    );
    let (count, cost) = meter.measure(in_blob.count()).await;
    assert_eq!(count?, MEMBERS as usize);
    assert_eq!(cost.total(), 1, "the blob is not a request to the table");

    for id in 1..MEMBERS {
        employees
            .delete_if_exists(Employee::key("Sales", id)?)
            .await?;
    }
    for short in [in_rows, in_blob] {
        let (count, cost) = meter.measure(short.count()).await;
        assert_eq!(count?, 1);
        assert_eq!(cost.total(), 1, "one row again");
    }
    Ok(())
}
