use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{insert, key, table};
use crate::adapter::{
    Fault, FaultInjector, RateLimit, RateLimited, RequestMeter, RetryPolicy, StoreBuilder,
};
use crate::memory::MemoryStore;
use crate::store::TableStore;

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_in_every_store_of_a_limit() {
    let limit = RateLimit::per_second(10);
    let stores = [(); 2].map(|()| RateLimited::new(MemoryStore::new(), limit.clone()));
    let start = Instant::now();
    for store in &stores {
        store.create_table(&table()).await.unwrap();
    }
    let (name, key) = (table(), key("a"));
    let reads = (0..39).map(|n| stores[n % 2].get(&name, &key, None));
    join_all(reads)
        .await
        .into_iter()
        .for_each(|read| assert_eq!(read.unwrap(), None));
    // 41 requests, the first at once.
    assert_eq!(start.elapsed().as_millis() / 100, 40);
}

#[tokio::test(start_paused = true)]
async fn an_idle_time_gives_no_burst() {
    let store = RateLimited::new(MemoryStore::new(), RateLimit::per_second(10));
    store.create_table(&table()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let start = Instant::now();
    for _ in 0..11 {
        store.get(&table(), &key("a"), None).await.unwrap();
    }
    assert_eq!(start.elapsed().as_millis() / 100, 10);
}

#[tokio::test(start_paused = true)]
async fn throttled_answers_halve_the_rate_and_time_restores_it() {
    let (faults, meter, limit) = (
        FaultInjector::new(0),
        RequestMeter::new(),
        RateLimit::per_second(100),
    );
    let retries = RetryPolicy::default().with_jitter(0.0);
    let builder = StoreBuilder::new(MemoryStore::new())
        .fault(faults.clone())
        .meter(meter.clone());
    let store = builder.retry(retries).rate(limit.clone()).build();
    store.create_table(&table()).await.unwrap();
    faults.script([
        Some(Fault::Throttle { retry_after: None }),
        Some(Fault::Throttle { retry_after: None }),
    ]);
    store.write(&table(), insert("a")).await.unwrap();
    assert_eq!(
        meter.total(),
        4,
        "the table, two throttled attempts and the third"
    );
    assert!(
        (50.0..55.0).contains(&limit.current()),
        "one reduction in a second: {}",
        limit.current()
    );
    tokio::time::sleep(Duration::from_secs(12)).await;
    store.get(&table(), &key("a"), None).await.unwrap();
    assert_eq!(limit.current(), 100.0);
}

/// 130 reads at 1 per second wait longer than an attempt may take, and none is cut off.
#[tokio::test(start_paused = true)]
async fn waiting_is_no_attempt() {
    let meter = RequestMeter::new();
    let store = StoreBuilder::new(MemoryStore::new())
        .meter(meter.clone())
        .retry(RetryPolicy::default());
    let store = store.rate(RateLimit::per_second(0)).build();
    store.create_table(&table()).await.unwrap();
    let (name, key) = (table(), key("a"));
    let reads = join_all((0..130).map(|_| store.get(&name, &key, None))).await;
    assert!(reads.iter().all(Result::is_ok));
    assert_eq!(meter.total(), 131);
}

/// 1,000 calls that give up after a second take no turns: the next call is sent after the time of one turn.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_early_takes_no_turn() {
    let meter = RequestMeter::new();
    let store = StoreBuilder::new(MemoryStore::new()).meter(meter.clone());
    let store = store.rate(RateLimit::per_second(10)).build();
    store.create_table(&table()).await.unwrap();
    let (name, key) = (table(), key("a"));
    let second = Duration::from_millis(1050);
    let reads =
        join_all((0..1000).map(|_| tokio::time::timeout(second, store.get(&name, &key, None))))
            .await;
    assert_eq!(reads.iter().filter(|read| read.is_ok()).count(), 10);
    let start = Instant::now();
    store.get(&name, &key, None).await.unwrap();
    assert_eq!(start.elapsed().as_millis() / 100, 0);
    assert_eq!(meter.total(), 12);
}

/// A failure that is not repeated takes no turn: the next operation waits for one turn alone.
#[tokio::test(start_paused = true)]
async fn requests_that_are_not_sent_take_no_turn() {
    let once = RetryPolicy::default().with_max_attempts(1);
    let several = RetryPolicy::default().with_delays(Duration::ZERO, Duration::ZERO);
    // The policy, the failure, and the turns of the insert: the attempts, and the reads of write ids.
    for (policy, fault, turns) in [
        (once, Fault::FailBefore, 1),
        (several.clone(), Fault::LoseAnswer, 1),
        (several.clone(), Fault::FailBefore, 2),
        (several.with_write_ids(), Fault::LoseAnswer, 2),
    ] {
        let (faults, meter) = (FaultInjector::new(0), RequestMeter::new());
        let builder = StoreBuilder::new(MemoryStore::new())
            .fault(faults.clone())
            .meter(meter.clone());
        let store = builder
            .retry(policy)
            .rate(RateLimit::per_second(10))
            .build();
        store.create_table(&table()).await.unwrap();
        faults.script([Some(fault)]);
        let start = Instant::now();
        // The insert waits for its own turn, and the read for all turns that the insert has taken.
        let _ = store.write(&table(), insert("a")).await;
        store.get(&table(), &key("b"), None).await.unwrap();
        assert_eq!(meter.total(), 2 + turns, "{fault:?}");
        assert_eq!(
            start.elapsed().as_millis() / 100,
            u128::from(1 + turns),
            "{fault:?}"
        );
    }
    let faults = FaultInjector::new(0);
    let store = StoreBuilder::new(MemoryStore::new()).fault(faults.clone());
    let store = store.rate(RateLimit::per_second(10)).build();
    store.create_table(&table()).await.unwrap();
    faults.script([Some(Fault::FailBefore)]);
    let start = Instant::now();
    store.get(&table(), &key("a"), None).await.unwrap_err();
    store.get(&table(), &key("a"), None).await.unwrap();
    assert_eq!(start.elapsed().as_millis() / 100, 2, "without retries");
}
