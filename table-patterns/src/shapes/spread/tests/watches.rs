use std::time::Duration;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, Result, TableStore};

use crate::spread::{PartitionWatch, Watched};

async fn watched(window: Duration) -> Result<(Watched<MemoryStore>, PartitionWatch, TableName)> {
    let watch = PartitionWatch::new(window);
    let (store, table) = (
        Watched::new(MemoryStore::new(), watch.clone()),
        TableName::new("Events")?,
    );
    store.create_table(&table).await?;
    Ok((store, watch, table))
}

#[tokio::test(start_paused = true)]
async fn the_window_moves_on() -> Result<()> {
    let (store, watch, table) = watched(Duration::from_secs(60)).await?;
    let get = async |partition: &str| store.get(&table, &Key::new(partition, "r")?, None).await;
    for _ in 0..9 {
        get("hot").await?;
    }
    get("cold").await?;
    let hot = watch.hot(0.2);
    assert_eq!(hot.len(), 1);
    assert_eq!(hot[0].requests, 9);
    assert_eq!(hot[0].reads, 9);
    assert_eq!(hot[0].share, 0.9);
    assert!(hot[0].to_string().contains("cache"), "{}", hot[0]);

    tokio::time::advance(Duration::from_secs(31)).await;
    get("cold").await?;
    assert_eq!(
        watch.hot(0.5)[0].partition,
        "hot",
        "the half before still counts"
    );
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(watch.hot(0.5)[0].partition, "cold");
    tokio::time::advance(Duration::from_secs(200)).await;
    assert_eq!(watch.hot(0.0), []);
    Ok(())
}

#[tokio::test]
async fn writes_queries_and_scans_are_told_apart() -> Result<()> {
    let (store, watch, table) = watched(Duration::from_secs(60)).await?;
    for row in ["1", "2"] {
        store
            .write(&table, Operation::Insert(Entity::new("p", row)?))
            .await?;
    }
    let partition = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, "p"));
    store.query(&table, &partition, None).await?.into_page()?;
    store
        .query(&table, &Query::new(), None)
        .await?
        .into_page()?;
    let hot = watch.hot(0.0);
    assert_eq!(hot.len(), 1);
    assert_eq!(hot[0].requests, 3);
    assert_eq!(hot[0].reads, 1);
    assert!(hot[0].to_string().contains("spread = 16"));
    Ok(())
}

#[tokio::test]
async fn memory_is_bounded_and_the_hottest_is_not_missed() -> Result<()> {
    let (store, watch, table) = watched(Duration::from_secs(600)).await?;
    for n in 0..20_000 {
        let partition = if n % 10 == 0 {
            "hot".to_owned()
        } else {
            format!("p{n}")
        };
        store.get(&table, &Key::new(partition, "r")?, None).await?;
    }
    let all = watch.hot(0.0);
    assert_eq!(all.len(), 1024);
    let hot = watch.hot(0.05);
    assert_eq!(hot.len(), 1);
    assert!(
        (2000..=2000 + 20_000 / 1024).contains(&hot[0].requests),
        "{}",
        hot[0].requests
    );
    Ok(())
}
