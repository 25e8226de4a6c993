//! Stores that are slow, measured by how long states of indexes may be cached.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{OperationKind, Result, TableStore, TableStoreExt};

use crate::index::{Index, IndexOptions, IndexedEntities, Placement};
use crate::journal::{Change, Entries, Timing};

const CACHE: Duration = Duration::from_millis(100);

/// Entities whose groups take so long.
async fn people(index: Index, group: Duration) -> Result<(IndexedEntities, RequestMeter)> {
    let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));
    faults.add(FaultRule::new(Fault::Delay(group)).on(OperationKind::Transact));
    let store: Arc<dyn TableStore> =
        Arc::new(Metered::new(Faulty::new(MemoryStore::new(), faults), meter.clone()));
    let table = TableName::new("People")?;
    store.create_table_if_missing(&table).await?;
    let mut options = IndexOptions::local();
    options.timing = Timing::new(Duration::from_secs(60), Duration::from_millis(100), Duration::ZERO)?;
    options.cache = CACHE;
    Ok((IndexedEntities::open(store, table, vec![index], options).await?, meter))
}

fn person(n: usize) -> Result<Entity> {
    Ok(Entity::new("p", format!("{n:04}"))?.with("City", format!("{n:04}")))
}

/// Ten partitions elsewhere take four times as long as the states of indexes may be used. What was sent under
/// older states is not sent again.
#[tokio::test(start_paused = true)]
async fn a_write_outlives_the_states_that_it_began_with() -> Result<()> {
    let by_city = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
    let (people, meter) = people(by_city, CACHE * 2 / 5).await?;
    let changes = (0..10).map(|n| person(n).map(Change::insert)).collect::<Result<Vec<_>>>()?;
    let before = meter.snapshot();
    assert_eq!(people.write(&changes).await?.entries, Entries::Applied);
    let cost = meter.since(&before);
    assert_eq!(cost.of_kind(OperationKind::Transact), 1 + 10, "the group, and each partition once");
    assert_eq!(cost.of_kind(OperationKind::Get), 10, "each entity is read again once");
    Ok(())
}
