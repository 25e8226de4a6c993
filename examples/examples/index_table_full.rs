//! The Index Table pattern (design guide), strategy 1 of 3: a second table has a complete copy of each customer under the keys of another
//! query. (Strategy 2: `index_table_reference`, 3: `index_table_fields`.) The copy follows the customer: a lookup may miss it for a moment.
//!
//! Cost: a lookup 1 request per page of customers; an insert 4.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    rename_all = "PascalCase",
    partition_key = "customer",
    row_key = "{id:06}"
)]
#[index(town, table = "CustomersByTown", partition_key = "{town}", row_key = "{last_name}_{id:06}", payload = full)]
struct Customer {
    id: u32,
    last_name: String,
    town: String,
    street: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let customers = Database::new(store).table::<Customer>("Customers")?;
    customers.declare().await?;
    for (id, last_name) in [(1, "Smith"), (2, "Jones"), (3, "Robinson")] {
        let customer = Customer {
            id,
            last_name: last_name.to_owned(),
            town: "Redmond".to_owned(),
            street: format!("{id} Main St"),
        };
        customers.insert(&customer).await?;
    }

    // After a write has returned, a background task deletes its journal row (1 request). Wait for it, so that only the lookup is counted.
    customers.flush().await;
    let (redmond, cost) = meter
        .measure(customers.by(Customer::by_town("Redmond")).all())
        .await;
    let names: Vec<_> = redmond?
        .into_iter()
        .map(|customer| customer.last_name)
        .collect();
    assert_eq!(
        names,
        ["Jones", "Robinson", "Smith"],
        "in the order of names"
    );
    assert_eq!(cost.total(), 1, "the entries have all properties");
    let starting_with_r = customers
        .by(Customer::by_town("Redmond").last_name_starting("R"))
        .first()
        .await?;
    assert_eq!(
        starting_with_r.map(|customer| customer.street).as_deref(),
        Some("3 Main St")
    );

    let lee = Customer {
        id: 4,
        last_name: "Lee".to_owned(),
        town: "Bergen".to_owned(),
        street: "1 Bryggen".to_owned(),
    };
    let insert = async {
        customers.insert(&lee).await?;
        customers.flush().await;
        Ok::<_, table_core::Error>(())
    };
    let (inserted, cost) = meter.measure(insert).await;
    inserted?;
    assert_eq!(cost.total(), 4);
    Ok(())
}
