//! Stacks adapters on a store: spans, a guard, limits of concurrency and of rate, retry and a meter. `StoreBuilder` puts them in the
//! right order, whatever the order of the calls.
//!
//! Cost: none; only a retry sends additional requests.

use std::time::Duration;

use table_core::adapter::{
    Fault, FaultInjector, RateLimit, RequestMeter, RetryPolicy, ScanGuard, StoreBuilder, TraceKeys,
};
use table_patterns::prelude::*;

#[derive(Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Reading {
    #[partition_key]
    sensor: String,
    #[row_key]
    minute: u32,
    celsius: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    // A span per operation, keys hidden. This example throws the spans away, so that it prints nothing; a program writes them to
    // standard error or exports them.
    tracing_subscriber::fmt().with_writer(std::io::sink).init();
    let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));
    let rate = RateLimit::per_second(1000);
    let store = StoreBuilder::new(MemoryStore::new()) // or EmbeddedStore, AzureTableStore
        .trace(TraceKeys::Hidden)
        .scan_guard(ScanGuard::new())
        .limit(8)
        .rate(rate.clone())
        // no pause between attempts, for this example only
        .retry(RetryPolicy::default().with_delays(Duration::ZERO, Duration::ZERO))
        .meter(meter.clone())
        .fault(faults.clone())
        .build();
    let readings = Database::new(store).table::<Reading>("Readings")?;
    readings.declare().await?;

    // The service is busy once. The retry adapter repeats the insert; the meter, which is nearer to the store, counts both attempts
    // and the creation of the table.
    faults.script([Some(Fault::Throttle { retry_after: None })]);
    readings
        .insert(&Reading {
            sensor: "roof".to_owned(),
            minute: 1,
            celsius: 3.5,
        })
        .await?;
    assert_eq!(meter.total(), 3);
    assert!(rate.current() < 1000.0); // a busy service lowers the rate for a while

    // The guard is outside the other adapters, so a refused query costs no request.
    let everywhere = readings.query().filter(Reading::CELSIUS.gt(3.0));
    assert_eq!(everywhere.access_path()?, AccessPath::TableScan);
    assert!(everywhere.all().await.is_err());
    assert_eq!(meter.total(), 3);

    let roof = readings.query().partition(Reading::partition("roof")?);
    assert_eq!(roof.filter(Reading::CELSIUS.gt(3.0)).count().await?, 1);
    assert!(readings.delete_table_if_exists().await?);
    Ok(())
}
