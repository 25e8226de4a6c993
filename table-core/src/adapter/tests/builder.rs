use std::sync::Arc;
use std::time::Duration;

use super::recorder::record;
use super::{insert, key, table};
use crate::adapter::{
    Fault, FaultInjector, RequestMeter, RetryPolicy, ScanGuard, StoreBuilder, TraceKeys,
    WRITE_ID_PROPERTY,
};
use crate::memory::MemoryStore;
use crate::query::Query;
use crate::store::{OperationKind, TableStore};

struct Stack {
    store: Arc<dyn TableStore>,
    data: MemoryStore,
    meter: RequestMeter,
    faults: FaultInjector,
}

/// Returns a stack of all adapters over a store with a table. The adapters are named from the inside out or
/// from the outside in.
async fn stack(inside_out: bool) -> Stack {
    let (data, meter, faults) = (
        MemoryStore::new(),
        RequestMeter::new(),
        FaultInjector::new(0),
    );
    data.create_table(&table()).await.unwrap();
    let policy = RetryPolicy::default().with_write_ids();
    let builder = StoreBuilder::new(data.clone());
    let builder = if inside_out {
        builder
            .fault(faults.clone())
            .meter(meter.clone())
            .retry(policy)
            .limit(1)
            .scan_guard(ScanGuard::new())
            .trace(TraceKeys::Shown)
    } else {
        builder
            .trace(TraceKeys::Shown)
            .scan_guard(ScanGuard::new())
            .limit(1)
            .retry(policy)
            .meter(meter.clone())
            .fault(faults.clone())
    };
    Stack {
        store: builder.build(),
        data,
        meter,
        faults,
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_and_traced_in_either_order() {
    for inside_out in [true, false] {
        let stack = stack(inside_out).await;
        stack
            .faults
            .script([Some(Fault::FailBefore), Some(Fault::LoseAnswer)]);
        let (traces, _on) = record();
        let written = stack.store.write(&table(), insert("a")).await.unwrap();
        let stored = stack
            .data
            .get(&table(), &key("a"), None)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(stored.etag(), written.etag.as_ref());
        assert!(stored.get(WRITE_ID_PROPERTY).is_some());

        let counts = stack.meter.snapshot();
        assert_eq!(counts.of_kind(OperationKind::Insert), 2);
        assert_eq!(counts.of_kind(OperationKind::Get), 1);
        let span = traces.last_span();
        assert_eq!(span["table.attempts"].as_str(), "2");
        assert_eq!(span["table.outcome"].as_str(), "ok");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_queries_are_traced_and_cost_no_request() {
    for inside_out in [true, false] {
        let stack = stack(inside_out).await;
        let (traces, _on) = record();
        stack
            .store
            .query(&table(), &Query::new(), None)
            .await
            .unwrap_err();
        assert_eq!(traces.last_span()["error.type"], "scan_refused");
        assert_eq!(stack.meter.total(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_permit_is_not_an_attempt() {
    let stack = stack(true).await;
    let slow = Fault::Delay(Duration::from_secs(30));
    stack.faults.script([Some(slow), Some(slow), Some(slow)]);
    let name = table();
    let writes = ["a", "b", "c"].map(|row| stack.store.write(&name, insert(row)));
    for written in futures_util::future::join_all(writes).await {
        written.unwrap();
    }
    assert_eq!(stack.meter.total(), 3);
}

#[tokio::test]
async fn without_adapters_the_store_is_unchanged() {
    let store = StoreBuilder::new(MemoryStore::new()).build();
    store.create_table(&table()).await.unwrap();
    store.write(&table(), insert("a")).await.unwrap();
    assert_eq!(
        store
            .query(&table(), &Query::new(), None)
            .await
            .unwrap()
            .into_page()
            .unwrap()
            .items
            .len(),
        1
    );
}
