//! Key spreading: finds a hot partition, spreads it over buckets, and reads it as one.

use std::sync::Arc;
use std::time::Duration;

use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_patterns::spread::{PartitionWatch, SpreadTable, Watched};

#[derive(Debug, TableEntity)]
struct Event {
    #[partition_key(spread = 16)]
    day: String,
    #[row_key(format = "{:06}")]
    number: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let watch = PartitionWatch::new(Duration::from_secs(60));
    let store: Arc<dyn TableStore> = Arc::new(Watched::new(MemoryStore::new(), watch.clone()));

    // With a plain key, all of today's entities go to one partition.
    let today = TableName::new("Plain")?;
    store.create_table(&today).await?;
    for number in 0..100 {
        store.write(&today, Operation::Insert(Entity::new("2013-01-01", format!("{number:06}"))?)).await?;
    }
    let hot = watch.hot(0.2);
    assert_eq!(hot[0].partition.as_str(), "2013-01-01");
    assert_eq!(hot[0].requests, 100);
    assert!(hot[0].to_string().contains("#[partition_key(spread = 16)]"));

    // With spread keys, the load is divided, a point read still takes 1 request, and the day is read in
    // order.
    let watch = PartitionWatch::new(Duration::from_secs(60));
    let store: Arc<dyn TableStore> = Arc::new(Watched::new(MemoryStore::new(), watch.clone()));
    let events = SpreadTable::<Event>::new(store, "Events")?;
    events.create_if_missing().await?;
    for number in 0..1000 {
        events.insert(&Event { day: "2013-01-01".to_owned(), number }).await?;
    }
    assert!(watch.hot(0.2).is_empty());
    assert!(events.get(Event::key("2013-01-01", 7u32)?).await?.is_some());
    let first = events.query().partition(Event::partition("2013-01-01")?).limit(3).all().await?;
    assert!(first.iter().map(|event| event.number).eq(0..3));
    let all: Vec<_> = events.query().partition(Event::partition("2013-01-01")?).all().await?;
    assert!(all.iter().map(|event| event.number).eq(0..1000));
    Ok(())
}
