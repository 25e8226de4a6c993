//! A list of references per value (*index entities*, option 2 of the design guide): one row per surname of a department lists its
//! employees. The list changes in the group transaction of the employee.
//!
//! Cost: a write 2 requests; a lookup of n employees 1 + n, the employees in parallel.

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(surname, row_key = "surname_{last_name}", shape = list)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    last_name: String,
}

fn employee(id: u32, last_name: &str) -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id,
        last_name: last_name.to_owned(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Metered::new(MemoryStore::new(), meter.clone());
    let employees = Database::new(store).table::<Employee>("Employees")?;
    employees.declare().await?;
    for (id, last_name) in [(152, "Jones"), (7, "Jones"), (223, "Kwok")] {
        let (inserted, cost) = meter
            .measure(employees.insert(&employee(id, last_name)))
            .await;
        inserted?;
        assert_eq!(cost.total(), 2, "reads the list, writes the group");
    }

    let jones = Employee::by_surname("Sales").last_name("Jones");
    let (found, cost) = meter.measure(employees.by(jones.clone()).all()).await;
    assert_eq!(
        found?
            .iter()
            .map(|employee| employee.id)
            .collect::<Vec<_>>(),
        [7, 152]
    );
    assert_eq!(
        cost.total(),
        1 + 2,
        "the list, and each employee in parallel"
    );

    // A new surname changes three rows in one group transaction: the employee, the old list and the new list.
    employees.upsert(&employee(7, "Kwok")).await?;
    assert_eq!(employees.by(jones).count().await?, 1);
    assert_eq!(
        employees
            .by(Employee::by_surname("Sales").last_name("Kwok"))
            .count()
            .await?,
        2
    );
    Ok(())
}
