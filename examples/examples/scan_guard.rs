//! Refuses expensive queries before they cost a request, with an error that names a cheaper query.

use table_core::adapter::{RequestMeter, ScanGuard, StoreBuilder};
use table_core::memory::MemoryStore;
use table_core::model::TableName;
use table_core::prelude::*;
use table_core::query::{AccessPath, Filter, Query};

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
    // The builder stacks adapters in the right order.
    let meter = RequestMeter::new();
    let guard = ScanGuard::new().refuse_in(TableName::new("Employees")?, AccessPath::PartitionScan);
    let store = StoreBuilder::new(MemoryStore::new()).meter(meter.clone()).scan_guard(guard).build();
    let employees = Table::<Employee>::new(store, "Employees")?;
    employees.create_if_missing().await?;
    for id in 0..3 {
        employees.insert(&Employee { department: "Sales".to_owned(), id, age: 30 + id as i32 }).await?;
    }
    let before = meter.total();

    // A filter without a key would read the whole table.
    let scan = employees.query().filter(Employee::AGE.gt(30)).all().await;
    assert!(scan.unwrap_err().to_string().contains("refused a table scan of 'Employees'"));

    // An `or` of two rows would read the whole partition. The error names the point reads.
    let rows = "RowKey eq '0000000000' or RowKey eq '0000000002'".parse()?;
    let query = Query::new().with_filter(Filter::eq("PartitionKey", "Sales").and(rows));
    let refused = employees.store().query(employees.name(), &query, None).await.unwrap_err();
    assert!(refused.to_string().contains("2 point reads"), "{refused}");
    assert_eq!(meter.total(), before, "a refused query costs no request");

    // The point reads: 2 concurrent requests.
    let found = employees.get_many([Employee::key("Sales", 0)?, Employee::key("Sales", 2)?]).await?;
    assert_eq!(found.iter().flatten().map(|employee| employee.age).collect::<Vec<_>>(), [30, 32]);
    assert_eq!(meter.total(), before + 2);
    Ok(())
}
