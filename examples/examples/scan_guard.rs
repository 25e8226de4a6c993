//! Refuses expensive queries before they cost a request, with an error that names a cheaper query. Use it in tests and in
//! production against accidental table scans.
//!
//! Cost: none; a refused query costs no request.

use table_core::adapter::{RequestMeter, ScanGuard, StoreBuilder};
use table_patterns::prelude::*;

#[derive(Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    age: i32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    // Table scans are refused anyway; in this table partition scans too.
    let guard = ScanGuard::new().refuse_in(TableName::new("Employees")?, AccessPath::PartitionScan);
    let store = StoreBuilder::new(MemoryStore::new())
        .meter(meter.clone())
        .scan_guard(guard)
        .build();
    let employees = Database::new(store).table::<Employee>("Employees")?;
    employees.declare().await?;
    for (id, age) in [(0, 30), (1, 31), (2, 32)] {
        employees
            .insert(&Employee {
                department: "Sales".to_owned(),
                id,
                age,
            })
            .await?;
    }
    let before = meter.total();

    // A filter without a key would read the whole table.
    let scan = employees.query().filter(Employee::AGE.gt(30)).all().await;
    assert!(
        scan.unwrap_err()
            .to_string()
            .contains("refused a table scan of 'Employees'")
    );

    // An `or` of two rows would read the whole partition. The error names the point reads.
    // A filter that a user types arrives as text.
    let rows: Filter = "RowKey eq '0000000000' or RowKey eq '0000000002'".parse()?;
    let query = Query::new().with_filter(Filter::eq("PartitionKey", "Sales").and(rows));
    let refused = employees
        .store()
        .query(employees.name(), &query, None)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("2 point reads"), "{refused}");
    assert_eq!(meter.total(), before, "a refused query costs no request");

    // The point reads: 2 concurrent requests.
    let keys = [Employee::key("Sales", 0)?, Employee::key("Sales", 2)?];
    let (found, cost) = meter.measure(employees.get_many(keys)).await;
    let ages: Vec<_> = found?
        .into_iter()
        .flatten()
        .map(|employee| employee.age)
        .collect();
    assert_eq!(ages, [30, 32]);
    assert_eq!(cost.total(), 2);
    Ok(())
}
