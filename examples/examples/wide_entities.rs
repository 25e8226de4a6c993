//! An entity of more than 252 properties: several rows that are written and read as one.

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::wide::WideEntities;

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Metered::new(MemoryStore::new(), meter.clone()).into_shared();
    let table = TableName::new("Messages")?;
    let wide = WideEntities::new(store.clone(), table.clone());
    wide.create_if_missing().await?;

    // A count per day of a year.
    let mut year = Entity::new("Sales", "empid_000223_2013")?;
    for day in 1..=365 {
        year = year.with(&format!("D{day:03}"), day % 7);
    }
    meter.reset();
    let written = wide.insert(&year).await?;
    assert_eq!(written.rows(), 3);
    assert_eq!(meter.total(), 1);

    // One range query reads all rows and checks that they belong together.
    let read =
        wide.get(year.key()).await?.ok_or_else(|| table_core::Error::invalid_request("it was deleted"))?;
    assert_eq!(read.properties().len(), 365);
    assert_eq!(meter.total(), 2);

    // Sets one property: its row and the first row, in one group transaction, in the version that was read.
    wide.set(&read, "D100", 42).await?;
    assert_eq!(meter.total(), 3);
    let error = wide.set(&read, "D101", 43).await.err();
    assert!(error.is_some_and(|error| error.is_precondition_failed()));

    // The rows belong to the pattern; typed tables do not return them.
    assert_eq!(Table::<Entity>::new(store, table)?.query().count().await?, 0);
    Ok(())
}
