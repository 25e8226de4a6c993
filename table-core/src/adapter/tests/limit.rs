use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::{key, table};
use crate::adapter::{Fault, FaultInjector, FaultRule, Faulty, Limited};
use crate::memory::MemoryStore;
use crate::model::Entity;
use crate::store::{Operation, OperationKind, TableStore};
use crate::typed::PlainTable;

/// Returns a store with a table, whose reads take a second.
async fn slow() -> Faulty<MemoryStore> {
    let faults = FaultInjector::new(0);
    faults.add(FaultRule::new(Fault::Delay(Duration::from_secs(1))).on(OperationKind::Get));
    let store = Faulty::new(MemoryStore::new(), faults);
    store.create_table(&table()).await.unwrap();
    store
}

#[tokio::test(start_paused = true)]
async fn operations_beyond_the_bound_wait() {
    for (bound, seconds) in [(0, 12), (1, 12), (5, 3), (12, 1), (usize::MAX, 1)] {
        let store = Limited::new(slow().await, bound);
        let (name, key) = (table(), key("a"));
        let start = Instant::now();
        for read in join_all((0..12).map(|_| store.get(&name, &key, None))).await {
            assert_eq!(read.unwrap(), None);
        }
        assert_eq!(start.elapsed().as_secs(), seconds, "at most {bound}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_operation_returns_its_permit() {
    let store = Limited::new(slow().await, 1);
    let cancelled =
        tokio::time::timeout(Duration::ZERO, store.get(&table(), &key("a"), None)).await;
    assert!(cancelled.is_err());
    store.get(&table(), &key("a"), None).await.unwrap();
}

/// A page that a stream reads ahead is not polled while its consumer waits for a permit.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_polled_loses_its_permit() {
    let store = Limited::new(slow().await, 1);
    let (name, key) = (table(), key("a"));
    let mut ahead = store.get(&name, &key, None);
    assert!(futures_util::poll!(&mut ahead).is_pending());
    let start = Instant::now();
    assert_eq!(store.get(&name, &key, None).await.unwrap(), None);
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(ahead.await.unwrap(), None);
    store.get(&name, &key, None).await.unwrap();
}

/// A request that waits for its answer keeps its permit for any time.
#[tokio::test(start_paused = true)]
async fn a_request_in_flight_keeps_its_permit() {
    let store = Limited::new(slow().await, 1);
    let (name, key) = (table(), key("a"));
    let start = Instant::now();
    let both =
        futures_util::future::join(store.get(&name, &key, None), store.get(&name, &key, None));
    both.await.0.unwrap();
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_reads_ahead_does_not_block_writes_of_its_consumer() {
    let rows = MemoryStore::new();
    rows.create_table(&table()).await.unwrap();
    for n in 0..30 {
        let entity = Entity::new("p", format!("{n:02}")).unwrap();
        rows.write(&table(), Operation::Insert(entity))
            .await
            .unwrap();
    }
    let faults = FaultInjector::new(0);
    faults.add(FaultRule::new(Fault::Delay(Duration::from_millis(1))));
    let store: Arc<dyn TableStore> = Arc::new(Limited::new(Faulty::new(rows, faults), 1));
    let all = PlainTable::<Entity>::new(store.clone(), table()).unwrap();
    let mut ahead = all.query().page_size(10).prefetch().stream();
    let mut seen = 0;
    while let Some(entity) = ahead.try_next().await.unwrap() {
        store
            .write(&table(), Operation::InsertOrReplace(entity))
            .await
            .unwrap();
        seen += 1;
    }
    assert_eq!(seen, 30);
}
