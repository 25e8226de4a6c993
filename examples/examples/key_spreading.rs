//! Key spreading: `PartitionWatch` finds a hot partition; a table with spread keys divides the load of one PartitionKey over 16 buckets
//! and reads them as one partition. (Spreading existing data is a migration: see `SpreadTable`.)
//!
//! Cost: a point read or write 1 request; a whole partition at least 1 request per bucket, in parallel.

use std::sync::Arc;
use std::time::Duration;

use table_patterns::prelude::*;
use table_patterns::spread::{PartitionWatch, SpreadTable, Watched};

#[derive(Debug, TableEntity)]
struct Event {
    #[partition_key(spread = 16)]
    day: String,
    #[row_key(format = "{:06}")]
    number: u32,
}

/// Returns a store that counts the requests of each partition in the last minute.
fn watched_store() -> (Arc<dyn TableStore>, PartitionWatch) {
    let watch = PartitionWatch::new(Duration::from_secs(60));
    (
        Arc::new(Watched::new(MemoryStore::new(), watch.clone())),
        watch,
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    // With a plain key, all entities of a day go to one partition.
    let (store, watch) = watched_store();
    let plain = TableName::new("PlainEvents")?;
    store.create_table(&plain).await?;
    for number in 0..100 {
        store
            .write(
                &plain,
                Operation::Insert(Entity::new("2013-01-01", format!("{number:06}"))?),
            )
            .await?;
    }
    // partitions with more than 20 % of the requests
    let hot = watch.hot(0.2);
    assert_eq!(hot[0].partition.as_str(), "2013-01-01");
    assert_eq!(hot[0].requests, 100);
    assert!(hot[0].to_string().contains("#[partition_key(spread = 16)]"));

    // With spread keys, the load is divided, a point read still takes 1 request, and the day is read in order.
    let (store, watch) = watched_store();
    let events = SpreadTable::<Event>::new(store, "Events")?;
    events.create_if_missing().await?;
    for number in 0..1_000 {
        events
            .insert(&Event {
                day: "2013-01-01".to_owned(),
                number,
            })
            .await?;
    }
    assert!(watch.hot(0.2).is_empty());
    assert!(events.get(Event::key("2013-01-01", 7)?).await?.is_some());
    let first = events
        .query()
        .partition(Event::partition("2013-01-01")?)
        .limit(3)
        .all()
        .await?;
    assert!(first.iter().map(|event| event.number).eq(0..3));
    let all: Vec<_> = events
        .query()
        .partition(Event::partition("2013-01-01")?)
        .all()
        .await?;
    assert!(all.iter().map(|event| event.number).eq(0..1_000));
    Ok(())
}
