//! The Index Table pattern (design guide), strategy 2 of 3: a table of references. Entries are small and change only with the indexed
//! value.
//!
//! Cost: a lookup of n customers 1 + n requests, the customers in parallel; an insert 4.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    rename_all = "PascalCase",
    partition_key = "customer",
    row_key = "{id:06}"
)]
#[index(
    town,
    table = "CustomersByTown",
    partition_key = "{town}",
    row_key = "{id:06}"
)]
struct Customer {
    id: u32,
    town: String,
    street: String,
}

/// A projection with parts of the key only. Every entry contains the key, so no customer is read.
#[derive(Debug, PartialEq, TableEntity)]
#[entity(projection_of = Customer)]
struct Id {
    #[row_key]
    id: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let customers = Database::new(store).table::<Customer>("Customers")?;
    customers.declare().await?;
    for id in 1..=3 {
        let customer = Customer {
            id,
            town: "Redmond".to_owned(),
            street: format!("{id} Main St"),
        };
        customers.insert(&customer).await?;
    }

    // After a write has returned, a background task deletes its journal row (1 request). Wait for it, so that only the lookup is counted.
    customers.flush().await;
    let redmond = customers.by(Customer::by_town("Redmond"));
    let (found, cost) = meter.measure(redmond.all()).await;
    assert_eq!(found?.len(), 3);
    assert_eq!(cost.total(), 1 + 3);
    let (ids, cost) = meter.measure(redmond.project::<Id>().all()).await;
    assert_eq!(ids?.len(), 3);
    assert_eq!(cost.total(), 1, "no customer is read");

    // The index does not contain the street, so merging the street changes no entry: 2 requests in any version (the read finds a move of
    // the entity that is under way), 1 under an ETag.
    let new_street = Customer::patch().street("9 Oak St");
    let merge = customers.merge(Customer::key(2)?, &new_street, IfMatch::Any);
    let (merged, cost) = meter.measure(merge).await;
    merged?;
    assert_eq!(cost.total(), 2);
    Ok(())
}
