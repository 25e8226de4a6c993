//! Dynamic entities of more than 252 properties: stored in several rows of one partition, written by one group transaction and read by
//! one range query. A derived type declares `#[entity(wide)]` and uses `WideTable` (see `split_values`).
//!
//! Cost: get, insert and set 1 request each; update 2.

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;
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
    let (written, cost) = meter.measure(wide.insert(&year)).await;
    assert_eq!(written?.rows(), 3);
    assert_eq!(cost.total(), 1);

    // One range query reads all rows and checks that they belong together.
    let (read, cost) = meter.measure(wide.get(year.key())).await;
    let read = read?.expect("the entity exists");
    assert_eq!(read.properties().len(), 365);
    assert_eq!(cost.total(), 1);

    // Sets one property if the entity has not changed since the read: writes the property's row and the head row.
    let (set, cost) = meter.measure(wide.set(&read, "D100", 42)).await;
    set?;
    assert_eq!(cost.total(), 1);
    let error = wide.set(&read, "D101", 43).await.err();
    assert!(error.is_some_and(|error| error.is_precondition_failed()));

    // The rows are *system rows* (RowKeys that begin with `~~`): queries of other tables do not return them.
    assert_eq!(
        Database::new(store)
            .view::<Entity>(table)?
            .query()
            .count()
            .await?,
        0
    );
    Ok(())
}
