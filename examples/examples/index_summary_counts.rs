//! Counts, sums and maxima of a department's employees, in an entity of the same partition. They are exact, because
//! the group transaction of every write updates them. Writers of one summary take turns.
//!
//! Cost: a write 1 request more per summary, which is read first; a lookup 1.

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(office, row_key = "office_{office}", shape = summary(sum(salary), max(salary)))]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    office: String,
    salary: i64,
}

fn employee(id: u32, office: &str) -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id,
        office: office.to_owned(),
        salary: 1000 + i64::from(id),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Metered::new(MemoryStore::new(), meter.clone());
    let employees = Database::new(store).table::<Employee>("Employees")?;
    employees.declare().await?;

    let mut hired = employees.group(Employee::partition("Sales")?);
    for id in 0..60 {
        hired.insert(&employee(id, if id < 20 { "Oslo" } else { "Rome" }))?;
    }
    let (inserted, cost) = meter.measure(hired.commit()).await;
    inserted?;
    assert_eq!(cost.total(), 3, "two summaries read, one group");

    let raise = |employee: &mut Employee| {
        employee.salary = 5000;
        Ok(())
    };
    employees.update(Employee::key("Sales", 59)?, raise).await?;
    let of_rome = Employee::by_office("Sales").office("Rome");
    let (rome, cost) = meter.measure(employees.by(of_rome.clone()).summary()).await;
    let rome = rome?;
    assert_eq!(cost.total(), 1, "the employees are not read");
    assert_eq!(rome.count(), 40);
    assert_eq!(rome.max(Employee::SALARY)?, Some(5000));
    assert_eq!(
        rome.sum(Employee::SALARY)?,
        (1020..1059).sum::<i64>() + 5000
    );

    // The summary also knows the next largest salary, so the maximum stays right after a deletion.
    employees
        .delete_if_exists(Employee::key("Sales", 59)?)
        .await?;
    assert_eq!(
        employees
            .by(of_rome)
            .summary()
            .await?
            .max(Employee::SALARY)?,
        Some(1058)
    );
    // All offices together, and one by one.
    assert_eq!(
        employees
            .by(Employee::by_office("Sales"))
            .summary()
            .await?
            .count(),
        59
    );
    assert_eq!(
        employees
            .by(Employee::by_office("Sales"))
            .summaries()
            .await?
            .len(),
        2
    );
    Ok(())
}
