//! Builders whose last steps take longer than a lease.

use std::sync::Arc;
use std::time::Duration;

use futures_util::join;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{OperationKind, Result, TableStore, TableStoreExt as _};
use tokio::time::sleep;

use crate::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement, ScrubMode};

const PEOPLE: usize = 40;

/// A quarter of the lease is a request. One request at a time.
fn options() -> IndexOptions {
    IndexOptions {
        concurrency: 1,
        cache: Duration::from_millis(500),
        ..IndexOptions::local()
    }
}

async fn open(store: impl TableStore, indexes: Vec<Index>) -> Result<IndexedEntities> {
    IndexedEntities::open(
        store.into_shared(),
        TableName::new("People")?,
        indexes,
        options(),
    )
    .await
}

/// A table that other processes write too, with people, and the requests of the slow process.
async fn people() -> Result<(MemoryStore, FaultInjector)> {
    let (store, faults) = (MemoryStore::new(), FaultInjector::new(1));
    store
        .context()
        .local_writers()
        .expect("one process")
        .serve();
    store.create_table(&TableName::new("People")?).await?;
    let people = open(store.clone(), Vec::new()).await?;
    for n in 0..PEOPLE {
        people
            .insert(
                Entity::new("p", format!("{n:04}"))?
                    .with("City", "oslo")
                    .with("Name", n.to_string()),
            )
            .await?;
    }
    Ok((store, faults))
}

/// A second builder that waits for a lease while the first is slow in `kind` finds the first at work, and leaves it.
async fn assert_that_one_builds(index: Index, kind: OperationKind) -> Result<()> {
    let (store, faults) = people().await?;
    let slow = open(
        Faulty::new(Arc::new(store.clone()), faults.clone()),
        vec![index.clone()],
    )
    .await?;
    let other = open(store.clone(), vec![index.clone()]).await?;
    faults.add(FaultRule::new(Fault::Delay(Duration::from_millis(100))).on(kind));
    let second = async {
        while other
            .declared()
            .await?
            .iter()
            .all(|stored| stored.state != IndexState::Building)
            || faults.injected().len() < 2
        {
            sleep(Duration::from_millis(10)).await;
        }
        let before = faults.injected().len();
        let built = other.build(index.name())?.run().await;
        Ok::<_, table_core::Error>((built, faults.injected().len() - before))
    };
    let (first, second) = join!(slow.build(index.name())?.run(), second);
    let (second, meanwhile) = second?;
    let error = second
        .expect_err("the first builder is at work")
        .to_string();
    assert!(error.contains("another process builds"), "{error}");
    assert!(
        meanwhile >= 10,
        "the first builder was slow for longer than a lease: {meanwhile}"
    );
    assert_eq!(first?.state, IndexState::Readable);
    other.refresh().await?;
    let found = other.scrub(index.name(), ScrubMode::Report).await?;
    assert_eq!(found.entries, PEOPLE);
    assert_eq!(found.dangling, 0);
    assert_eq!(found.missing, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn that_remove_what_dangles_are_not_replaced() -> Result<()> {
    let by_city = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
    assert_that_one_builds(by_city, OperationKind::Get).await
}

#[tokio::test(start_paused = true)]
async fn that_reserve_values_are_not_replaced() -> Result<()> {
    let by_name = Index::keyed("name", Placement::OtherPartition, "name_{Name}", "name")?
        .unique_within_table();
    assert_that_one_builds(by_name, OperationKind::Insert).await
}
