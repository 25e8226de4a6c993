use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{key, table};
use crate::adapter::{Fault, FaultInjector, FaultRule, Faulty, Limited};
use crate::memory::MemoryStore;
use crate::store::{OperationKind, TableStore};

/// A store with a table, whose reads take a second.
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
async fn a_cancelled_operation_gives_its_place_back() {
    let store = Limited::new(slow().await, 1);
    let cancelled = tokio::time::timeout(Duration::ZERO, store.get(&table(), &key("a"), None)).await;
    assert!(cancelled.is_err());
    store.get(&table(), &key("a"), None).await.unwrap();
}
