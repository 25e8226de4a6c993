//! Stores that are slow relative to the cache time of the states of indexes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{BulkSummary, OperationKind, Result, TableStore, TableStoreExt};

use crate::index::{BulkInsert, Index, IndexOptions, IndexedEntities, Placement, Shape};
use crate::journal::{Change, Entries, Timing};

const CACHE: Duration = Duration::from_millis(100);

/// A handle whose groups and reads take these times.
async fn people(
    index: Index,
    group: Duration,
    read: Duration,
) -> Result<(IndexedEntities, RequestMeter)> {
    slow(
        index,
        &[(OperationKind::Transact, group), (OperationKind::Get, read)],
    )
    .await
}

/// A handle some of whose requests take these times.
async fn slow(
    index: Index,
    requests: &[(OperationKind, Duration)],
) -> Result<(IndexedEntities, RequestMeter)> {
    let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(
        Faulty::new(MemoryStore::new(), faults.clone()),
        meter.clone(),
    ));
    let table = TableName::new("People")?;
    store.create_table_if_missing(&table).await?;
    let mut options = IndexOptions::local();
    options.timing = Timing::new(
        Duration::from_secs(60),
        Duration::from_millis(100),
        Duration::ZERO,
    )?;
    options.cache = CACHE;
    let people = IndexedEntities::open(store, table, vec![index], options).await?;
    for (kind, time) in requests {
        faults.add(FaultRule::new(Fault::Delay(*time)).on(*kind));
    }
    Ok((people, meter))
}

fn person(n: usize) -> Result<Entity> {
    Ok(Entity::new("p", format!("{n:04}"))?.with("City", format!("{n:04}")))
}

/// The writes to ten remote partitions take four times the cache time. Requests that were sent under older states are not sent
/// again.
#[tokio::test(start_paused = true)]
async fn a_write_may_take_longer_than_the_cache_time() -> Result<()> {
    let by_city = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
    let (people, meter) = people(by_city, CACHE * 2 / 5, Duration::ZERO).await?;
    let changes = (0..10)
        .map(|n| person(n).map(Change::insert))
        .collect::<Result<Vec<_>>>()?;
    let before = meter.snapshot();
    assert_eq!(people.write(&changes).await?.entries, Entries::Applied);
    let cost = meter.since(&before);
    assert_eq!(
        cost.of_kind(OperationKind::Transact),
        1 + 10,
        "the group, and each partition once"
    );
    assert_eq!(
        cost.of_kind(OperationKind::Get),
        10,
        "each entity is read again once"
    );
    Ok(())
}

/// Parallel groups of one partition that change one summary send no wasted request.
#[tokio::test(start_paused = true)]
async fn parallel_groups_take_turns_at_a_summary() -> Result<()> {
    let all = Index::keyed("all", Placement::SamePartition, "", "all")?;
    let all = all.with_shape(Shape::summary::<&str>([]));
    let (people, meter) = people(all, CACHE / 10, CACHE / 10).await?;
    let before = meter.snapshot();
    let entities = stream::iter((0..980).map(person));
    let summary = BulkSummary::of(people.insert_all(entities, BulkInsert::default())).await?;
    assert_eq!(summary.written, 980);
    assert_eq!(summary.requests, 10);
    let cost = meter.since(&before);
    assert_eq!(cost.of_kind(OperationKind::Get), 10);
    assert_eq!(cost.of_kind(OperationKind::Transact), 10);
    let key = Key::new("p", "all")?;
    assert_eq!(people.summary("all", &key).await?.count, 980);
    Ok(())
}

/// States that are too old at every commit are not a conflict: nothing is written, and the error gives advice.
#[tokio::test(start_paused = true)]
async fn a_commit_with_expired_states_is_refused_with_advice() -> Result<()> {
    let by_city =
        Index::keyed("city", Placement::OtherPartition, "city_{City}", "")?.unique_within_table();
    let (people, meter) = slow(by_city, &[(OperationKind::Insert, CACHE * 2)]).await?;
    let before = meter.snapshot();
    let error = people.upsert(person(1)?).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("IndexOptions::cache") && text.contains("200ms") && text.contains("0001"),
        "{text}"
    );
    assert!(text.contains("after the write was planned"), "{text}");
    assert!(
        !error.is_precondition_failed() && !error.is_ambiguous(),
        "{error:?}"
    );
    let cost = meter.since(&before);
    assert_eq!(
        cost.of_kind(OperationKind::Insert),
        10,
        "each attempt reserves, and is not repeated itself"
    );
    assert_eq!(cost.of_kind(OperationKind::Transact), 0);
    assert!(people.get(person(1)?.key()).await?.is_none());
    Ok(())
}
