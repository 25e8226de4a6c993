//! The Index Table pattern, second strategy: a table of references. Entries are small and change only with
//! the indexed value; customers are read one by one, concurrently.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase", partition_key = "customer", row_key = "{id:06}")]
#[index(town, table = "CustomersByTown", partition_key = "{town}", row_key = "{id:06}")]
struct Customer {
    id: u32,
    town: String,
    street: String,
}

/// Only the key, which every entry contains.
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
    let customers = IndexedTable::<Customer>::open(store, "Customers", IndexOptions::default()).await?;
    for id in 1..=3 {
        let (town, street) = ("Redmond".to_owned(), format!("{id} Main St"));
        customers.insert(&Customer { id, town, street }).await?;
    }

    customers.flush().await; // what follows the answers of the writes is not counted below
    let before = meter.total();
    let redmond = customers.by(Customer::by_town("Redmond"));
    assert_eq!((redmond.all().await?.len(), meter.total() - before), (3, 1 + 3));
    let before = meter.total();
    let ids = redmond.project::<Id>().all().await?;
    assert_eq!((ids.len(), meter.total() - before), (3, 1), "no customer is read");

    // The index does not contain the street, so a merge cannot make an entry stale. The merge costs 1 read,
    // because the entity may be moving, and 1 write. Under an ETag that was read it costs 1 request.
    let before = meter.total();
    let moved = Customer::patch().street("9 Oak St");
    customers.merge(Customer::key(2)?, &moved, IfMatch::Any).await?;
    assert_eq!(meter.total() - before, 2);
    Ok(())
}
