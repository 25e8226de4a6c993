//! Costs of maintenance in requests and memory.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{Error, Result, TableStore};

use crate::index::bulk::windows;
use crate::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};

async fn people(indexes: Vec<Index>) -> Result<(IndexedEntities, RequestMeter)> {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let table = TableName::new("People")?;
    store.create_table(&table).await?;
    Ok((
        IndexedEntities::open(store, table, indexes, IndexOptions::local()).await?,
        meter,
    ))
}

fn by_city() -> Result<Index> {
    Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")
}

fn large(id: usize) -> Result<Entity> {
    Ok(Entity::new("p", format!("{id:04}"))?
        .with("City", "oslo")
        .with("Face", vec![0u8; 60_000]))
}

#[tokio::test(start_paused = true)]
async fn a_drop_costs_the_documented_requests() -> Result<()> {
    let (people, meter) = people(vec![by_city()?]).await?;
    for id in 0..250 {
        let city = ["oslo", "rome"][id % 2];
        people
            .insert(Entity::new("p", format!("{id:04}"))?.with("City", city))
            .await?;
    }
    let before = meter.total();
    people.drop_index("city").await?;
    let manifest = 1 + 2 * 3 + 1; // Read the states; two changes of state; read the states.
    let rows = 1 + 1 + 2 * 2; // Check the manifest; a page; two partitions of 125.
    assert_eq!(
        meter.total() - before,
        manifest + rows + 2,
        "and its place, and a look at the states"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_build_limits_the_bytes_of_a_window() -> Result<()> {
    let (people, _) = people(vec![]).await?;
    for id in 0..400 {
        people.insert(large(id)?).await?;
    }
    let (store, table) = (people.store().clone(), people.table().clone());
    let people =
        IndexedEntities::open(store, table, vec![by_city()?], IndexOptions::local()).await?;
    let mut windows = Vec::new();
    let build = people.build("city")?.on_progress(|progress| {
        if progress.state == IndexState::Building && progress.entities > 0 {
            windows.push(progress.entities);
        }
    });
    assert_eq!(build.run().await?.entries, 400);
    assert!(
        windows.len() == 1 && (270..400).contains(&windows[0]),
        "24 MB in {windows:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_bulk_insert_limits_the_bytes_of_a_window() {
    let sizes = |windows: Vec<(Vec<Entity>, Option<Error>)>| {
        windows
            .iter()
            .map(|(window, error)| (window.len(), error.is_some()))
            .collect::<Vec<_>>()
    };
    let read: Vec<_> = windows(stream::iter((0..400).map(large)), 10_000)
        .collect()
        .await;
    let read = sizes(read);
    assert!(
        read.len() == 2 && (270..290).contains(&read[0].0),
        "24 MB in {read:?}"
    );
    let failing = (0..5)
        .map(large)
        .chain([Err(Error::application("no more"))])
        .chain((5..9).map(large));
    let read: Vec<_> = windows(stream::iter(failing), 2).collect().await;
    assert_eq!(
        sizes(read),
        [(2, false), (2, false), (1, true)],
        "an error is the last"
    );
}
