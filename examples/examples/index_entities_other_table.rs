//! A list of references per value in another table, built over existing employees, and compared with them (scrub). (Writers may continue
//! during a build: see `online_index_build`.)
//!
//! Cost of the build: 1 request per page of employees, 1 per group of lists, and the requests of the state changes; a lookup of n employees 1 + n.

use table_patterns::index::{IndexState, ScrubMode};
use table_patterns::prelude::*;

/// An employee as the earlier version of the program declares it: without an index.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct EmployeeWithoutIndex {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    last_name: String,
}

/// An employee as the new version of the program declares it.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(surname, table = "Surnames", partition_key = "{last_name}", row_key = "employees", shape = list)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    last_name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let db = Database::new(MemoryStore::new());
    let without_index = db.table::<EmployeeWithoutIndex>("Employees")?;
    without_index.declare().await?;
    for id in 0..250 {
        let last_name = if id % 50 == 0 { "Jones" } else { "Smith" }.to_owned();
        let employee = EmployeeWithoutIndex {
            department: "Sales".to_owned(),
            id,
            last_name,
        };
        without_index.insert(&employee).await?;
    }

    // A new index of a table with entities is absent until it is built; writers do not maintain it yet.
    let employees = db.table::<Employee>("Employees")?;
    let entities = employees.entities().await?; // declares the type with its index
    assert_eq!(entities.state("surname"), IndexState::Absent);
    let built = entities.build("surname")?.run().await?;
    assert_eq!(built.entities, 250);
    assert_eq!(built.entries, 250);
    assert_eq!(built.groups, 2, "one group for each surname");

    assert_eq!(
        employees
            .by(Employee::by_surname("Jones"))
            .all()
            .await?
            .len(),
        5
    );
    let scrub = entities.scrub("surname", ScrubMode::Report).await?;
    assert_eq!(scrub.entries, 250);
    assert_eq!(scrub.dangling, 0, "every entry has its employee");
    assert_eq!(scrub.missing, 0, "every employee has its entry");

    // The earlier version of the program reads the index from the manifest, and maintains it too.
    let first = EmployeeWithoutIndex::key("Sales", 0)?;
    without_index.delete(first, IfMatch::Any).await?;
    without_index.flush().await;
    let jones = employees.by(Employee::by_surname("Jones"));
    assert_eq!(jones.count().await?, 4);
    Ok(())
}
