//! The Index Table pattern, third strategy: entries contain the fields that queries mostly need. A query of
//! these fields costs 1 request; other fields cost 1 more per customer.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase", partition_key = "customer", row_key = "{id:06}")]
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
    let customers = IndexedTable::<Customer>::open(store, "Customers", IndexOptions::default()).await?;
    for (id, last_name) in [(1, "Smith"), (2, "Jones")] {
        let (last_name, town, phone) =
            (last_name.to_owned(), "Redmond".to_owned(), Some(format!("555-000{id}")));
        customers.insert(&Customer { id, last_name, town, phone, notes: "long".to_owned() }).await?;
    }

    let redmond = || customers.by(Customer::by_town("Redmond"));
    customers.flush().await; // what follows the answers of the writes is not counted below
    let before = meter.total();
    let contacts = redmond().project::<Contact>().all().await?;
    assert_eq!(contacts[0], Contact { last_name: "Jones".to_owned(), phone: Some("555-0002".to_owned()) });
    assert_eq!((contacts.len(), meter.total() - before), (2, 1));
    let before = meter.total();
    assert_eq!(
        (redmond().all().await?.len(), meter.total() - before),
        (2, 1 + 2),
        "the entries do not contain the notes"
    );

    // The patch has no phone, because entries contain it. An update changes the entry too.
    let new_number = |jones: &mut Customer| {
        jones.phone = Some("555-9999".to_owned());
        Ok(())
    };
    customers.update(Customer::key(2)?, new_number).await?;
    let first = redmond().project::<Contact>().first().await?;
    assert_eq!(first.and_then(|jones| jones.phone).as_deref(), Some("555-9999"));
    customers.flush().await;
    Ok(())
}
