//! The suite of stores on the memory store behind each adapter, and behind several adapters together.

use std::sync::Arc;
use std::time::Duration;

use conformance::{Backend, Scale, async_trait, conformance_tests};
use table_core::adapter::{
    Failover, Fault, FaultInjector, FaultRule, GuardMode, RateLimit, ReadSources, RequestMeter,
    RetryPolicy, ScanGuard, StoreBuilder, TraceKeys,
};
use table_core::memory::MemoryStore;
use table_core::model::TableName;
use table_core::query::Query;
use table_core::store::{OperationKind, TableStore};

/// The memory store in a stack of adapters.
struct Stack(fn(StoreBuilder) -> StoreBuilder);

#[async_trait]
impl Backend for Stack {
    async fn store(&self) -> Arc<dyn TableStore> {
        (self.0)(StoreBuilder::new(MemoryStore::new())).build()
    }

    fn scale(&self) -> Scale {
        Scale {
            steps: 1000,
            ..Scale::FULL
        }
    }
}

fn metered(builder: StoreBuilder) -> StoreBuilder {
    builder.meter(RequestMeter::new())
}

fn without_faults(builder: StoreBuilder) -> StoreBuilder {
    builder.fault(FaultInjector::new(1))
}

/// Most pages of queries and listings are shortened, some to no item.
fn short_pages(builder: StoreBuilder) -> StoreBuilder {
    let faults = FaultInjector::new(2);
    cut(&faults);
    builder.fault(faults)
}

fn cut(faults: &FaultInjector) {
    for (items, every) in [(0, 3), (1, 4), (7, 1)] {
        faults.add(FaultRule::new(Fault::ShortPage(items)).every(every));
    }
}

fn retrying(builder: StoreBuilder) -> StoreBuilder {
    builder.retry(at_once())
}

/// A quarter of all requests is refused or lost; retries hide the failures.
fn retrying_refusals(builder: StoreBuilder) -> StoreBuilder {
    let faults = FaultInjector::new(3);
    refuse(&faults);
    builder.fault(faults).retry(at_once())
}

fn refuse(faults: &FaultInjector) {
    faults.add(FaultRule::new(Fault::FailBefore).with_probability(0.15));
    faults.add(FaultRule::new(Fault::Throttle { retry_after: None }).with_probability(0.1));
}

/// Every write has a write id, which no reader sees.
fn with_write_ids(builder: StoreBuilder) -> StoreBuilder {
    builder.retry(at_once().with_write_ids())
}

fn guarded(builder: StoreBuilder) -> StoreBuilder {
    builder.scan_guard(ScanGuard::new().with_mode(GuardMode::Warn))
}

fn limited(builder: StoreBuilder) -> StoreBuilder {
    builder.limit(2)
}

fn rate_limited(builder: StoreBuilder) -> StoreBuilder {
    builder.rate(RateLimit::per_second(1_000_000))
}

fn traced(builder: StoreBuilder) -> StoreBuilder {
    builder.trace(TraceKeys::Shown)
}

fn everything(builder: StoreBuilder) -> StoreBuilder {
    let watched = rate_limited(limited(guarded(traced(metered(builder)))));
    short_pages(watched).retry(at_once().with_write_ids())
}

/// So many attempts, without delays, that random faults never exhaust them.
fn at_once() -> RetryPolicy {
    RetryPolicy::default()
        .with_max_attempts(100)
        .with_delays(Duration::ZERO, Duration::ZERO)
}

macro_rules! stacks {
    ($($stack:ident)*) => {$(
        mod $stack {
            use super::*;

            conformance_tests!(Stack(super::super::$stack));
        }
    )*};
}

stacks! {
    metered without_faults short_pages retrying retrying_refusals with_write_ids guarded limited rate_limited traced everything
}

/// Two copies of the same data. A part of the first copy's reads fails; the second copy answers them.
struct Copies;

#[async_trait]
impl Backend for Copies {
    async fn store(&self) -> Arc<dyn TableStore> {
        copies(&ReadSources::default())
    }

    fn scale(&self) -> Scale {
        Scale {
            steps: 1000,
            ..Scale::FULL
        }
    }
}

fn copies(sources: &ReadSources) -> Arc<dyn TableStore> {
    let (data, faults) = (MemoryStore::new(), FaultInjector::new(5));
    for read in [
        OperationKind::Get,
        OperationKind::Query,
        OperationKind::ListTables,
    ] {
        faults.add(
            FaultRule::new(Fault::FailBefore)
                .on(read)
                .with_probability(0.3),
        );
    }
    let primary = StoreBuilder::new(data.clone()).fault(faults).build();
    let copies = Failover::new(primary, data)
        .expect("copies of one kind")
        .count(sources.clone());
    // A query continues at the copy of its last page, so a failure of the first copy is not hidden there.
    StoreBuilder::new(copies).retry(at_once()).build()
}

mod failover {
    use super::*;

    conformance_tests!(Copies);
}

#[tokio::test]
async fn both_copies_answer_reads() {
    let (table, sources) = (
        TableName::new("Table").expect("a legal name"),
        ReadSources::default(),
    );
    let store = copies(&sources);
    store.create_table(&table).await.expect("a new table");
    for _ in 0..50 {
        store
            .query(&table, &Query::new(), None)
            .await
            .expect("a page")
            .into_page()
            .expect("a page");
    }
    assert!(
        sources.primary() > 0 && sources.secondary() > 0,
        "{sources:?}"
    );
    assert_eq!(sources.primary() + sources.secondary(), 50);
}

/// The injectors of the stacks above do inject faults.
#[tokio::test]
async fn the_injectors_inject_faults() {
    let table = TableName::new("Table").expect("a legal name");
    let (refusing, cutting) = (FaultInjector::new(3), FaultInjector::new(2));
    refuse(&refusing);
    cut(&cutting);
    for faults in [&refusing, &cutting] {
        let store = StoreBuilder::new(MemoryStore::new())
            .fault(faults.clone())
            .retry(at_once())
            .build();
        store.create_table(&table).await.expect("a new table");
        for _ in 0..20 {
            store
                .query(&table, &Query::new(), None)
                .await
                .expect("a page")
                .into_page()
                .expect("a page");
        }
    }
    assert!(refusing.requests() > 21);
    assert!(cutting.injected().len() >= 10);
}
