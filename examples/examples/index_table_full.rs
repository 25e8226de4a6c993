//! The Index Table pattern, first strategy: a second table has a complete copy of each customer under the
//! keys of another query. 1 request per page of customers; every write is doubled.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase", partition_key = "customer", row_key = "{id:06}")]
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
    let customers = IndexedTable::<Customer>::open(store, "Customers", IndexOptions::default()).await?;
    for (id, last_name) in [(1, "Smith"), (2, "Jones"), (3, "Robinson")] {
        let (last_name, town, street) = (last_name.to_owned(), "Redmond".to_owned(), format!("{id} Main St"));
        customers.insert(&Customer { id, last_name, town, street }).await?;
    }

    customers.flush().await; // what follows the answers of the writes is not counted below
    let before = meter.total();
    let redmond = customers.by(Customer::by_town("Redmond")).all().await?;
    let names: Vec<_> = redmond.iter().map(|c| c.last_name.as_str()).collect();
    assert_eq!((names, meter.total() - before), (vec!["Jones", "Robinson", "Smith"], 1), "whole, by name");
    let from_m = customers.by(Customer::by_town("Redmond").last_name_starting("R")).first().await?;
    assert_eq!(from_m.map(|c| c.street), Some("3 Main St".to_owned()));
    Ok(())
}
