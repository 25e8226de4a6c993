//! The Index Table pattern (design guide), strategy 3 of 3: entries contain the fields that queries mostly need. A change of such a field
//! changes the entry too. A lookup may return an earlier state for a moment; `.verified()` reads the customers and never does.
//!
//! Cost: a query of these fields 1 request; other fields 1 more per customer.

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
    row_key = "{last_name}_{id:06}",
    payload = fields(last_name, phone)
)]
struct Customer {
    id: u32,
    last_name: String,
    town: String,
    phone: Option<String>,
    notes: String,
}

/// The fields that an entry contains.
#[derive(Debug, PartialEq, TableEntity)]
#[entity(projection_of = Customer, rename_all = "PascalCase")]
struct Contact {
    last_name: String,
    phone: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let customers = Database::new(store).table::<Customer>("Customers")?;
    customers.declare().await?;
    for (id, last_name) in [(1, "Smith"), (2, "Jones")] {
        let customer = Customer {
            id,
            last_name: last_name.to_owned(),
            town: "Redmond".to_owned(),
            phone: Some(format!("555-000{id}")),
            notes: "long".to_owned(),
        };
        customers.insert(&customer).await?;
    }

    let redmond = || customers.by(Customer::by_town("Redmond"));
    // After a write has returned, a background task deletes its journal row (1 request). Wait for it, so that only the lookup is counted.
    customers.flush().await;
    let (contacts, cost) = meter.measure(redmond().project::<Contact>().all()).await;
    let contacts = contacts?;
    assert_eq!(contacts.len(), 2);
    assert_eq!(
        contacts[0],
        Contact {
            last_name: "Jones".to_owned(),
            phone: Some("555-0002".to_owned())
        }
    );
    assert_eq!(cost.total(), 1);
    let (found, cost) = meter.measure(redmond().all()).await;
    assert_eq!(found?.len(), 2);
    assert_eq!(cost.total(), 1 + 2, "the entries do not contain the notes");

    // `Customer::patch()` has no `phone`, because entries contain the field: a merge would leave them stale. `update` changes the customer
    // and the entry.
    let new_number = |jones: &mut Customer| {
        jones.phone = Some("555-9999".to_owned());
        Ok(())
    };
    customers.update(Customer::key(2)?, new_number).await?;
    let first = redmond().project::<Contact>().first().await?;
    assert_eq!(
        first.and_then(|jones| jones.phone).as_deref(),
        Some("555-9999")
    );
    customers.flush().await;
    Ok(())
}
