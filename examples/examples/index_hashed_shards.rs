//! An index spread over shards by a hash, so that no partition is hot. A lookup knows the shard of its value; a range reads all shards in
//! parallel and merges them in order.
//!
//! Cost: a value 1 request; a range 1 per shard and page.

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::index::{IndexQuery, Trust};
use table_patterns::prelude::*;

/// An employee. `{email#8}` is one of 8 shards, chosen by a hash of the address; the RowKey of an entry has the address and the employee's
/// key, so that entries are distinct.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(
    email,
    partition_key = "email_{email#8}",
    row_key = "{email}_{department}_{id:06}",
    payload = full
)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    email: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Metered::new(MemoryStore::new(), meter.clone());
    let employees = Database::new(store).table::<Employee>("Employees")?;
    employees.declare().await?;
    for id in 0..40 {
        let email = format!("{:02}@contoso.com", 40 - id);
        employees
            .insert(&Employee {
                department: "Sales".to_owned(),
                id,
                email,
            })
            .await?;
    }
    // After a write has returned, a background task deletes its journal row (1 request). Wait for it, so that only the lookup is counted.
    employees.flush().await;

    let (found, cost) = meter
        .measure(employees.by(Employee::by_email("17@contoso.com")).all())
        .await;
    assert_eq!(
        found?
            .iter()
            .map(|employee| employee.id)
            .collect::<Vec<_>>(),
        [23]
    );
    assert_eq!(cost.total(), 1, "the shard is known");

    // A range of addresses in all shards. The partition of the query is ignored: `all_merged` reads the given partitions.
    // `Trust::Entry` returns the properties of the entry, which may be stale for a moment; `Trust::Entity` reads the entity too.
    let shards = Employee::email_shards()?;
    let range = IndexQuery::partition("").range("10", "20");
    let entities = employees.entities().await?;
    let merged = entities.all_merged("email", &shards, &range, Trust::Entry);
    let (found, cost) = meter.measure(merged).await;
    let found: Vec<_> = found?
        .into_iter()
        .map(Employee::from_entity)
        .collect::<table_core::Result<_>>()?;
    assert_eq!(found.len(), 10);
    assert_eq!(found[0].email, "10@contoso.com");
    assert!(found.is_sorted_by_key(|employee| &employee.email));
    assert_eq!(cost.total(), 8, "a request for each shard");
    Ok(())
}
