//! What a program in operation watches and limits: a rate limit, reads of a second copy, metrics, spans, and the request ids of answers.

use std::time::Duration;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use table_core::adapter::{
    Failover, Fault, FaultInjector, FaultRule, RateLimit, ReadSources, RequestMeter, RetryPolicy,
    StoreBuilder, Telemetry, TraceKeys,
};
use table_core::prelude::*;
use table_core::store::OperationKind;

#[derive(Debug, PartialEq, TableEntity)]
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
    // Spans with OpenTelemetry's names; `tracing-opentelemetry` exports them.
    tracing_subscriber::fmt().with_writer(std::io::sink).init();
    // In production: an exporter of OTLP.
    let exporter = InMemoryMetricExporter::default();
    let meters = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));

    // A rate that all stores with a clone of the limit share. A busy service halves it, and time restores it.
    let limit = RateLimit::per_second(1000);
    let primary = MemoryStore::new(); // or EmbeddedStore, AzureTableStore
    let store = StoreBuilder::new(primary.clone())
        .trace(TraceKeys::Hidden)
        .telemetry(Telemetry::new(&meters.meter("readings")))
        .rate(limit.clone())
        .retry(RetryPolicy::default().with_delays(Duration::ZERO, Duration::ZERO).with_max_attempts(2))
        .meter(meter.clone())
        .fault(faults.clone())
        .build();
    let readings = Table::<Reading>::new(store.clone(), "Readings")?;
    readings.create_if_missing().await?;
    faults.script([Some(Fault::Throttle { retry_after: None })]);
    let reading = Reading { sensor: "roof".to_owned(), minute: 1, celsius: 3.5 };
    readings.insert(&reading).await?;
    assert!((500.0..1000.0).contains(&limit.current()), "{}", limit.current());

    meters.force_flush().expect("the exporter is in this process");
    assert_eq!(count(&exporter, "table.client.requests"), meter.total());
    assert_eq!(count(&exporter, "table.client.retries"), 1);
    assert_eq!(count(&exporter, "table.client.throttles"), 1);

    // The primary fails, and reads go to the second copy. On Azure: a store with `ReadFrom::Secondary`. Both stores have the same data
    // here; a real copy is behind, so it serves programs that only show data.
    let sources = ReadSources::default();
    let copies = Failover::new(store, primary)?.after(Duration::from_secs(2)).count(sources.clone());
    let shown = Table::<Reading>::new(copies, "Readings")?;
    faults.add(FaultRule::new(Fault::FailBefore).on(OperationKind::Get));
    let key = Reading::key("roof", 1_u32)?;
    assert_eq!(shown.get(&key).await?, Some(reading));
    assert_eq!((sources.primary(), sources.secondary()), (0, 1));

    #[cfg(feature = "azure")]
    azure::show_request_ids().await?;
    Ok(())
}

/// Returns the sum of a counter.
fn count(exporter: &InMemoryMetricExporter, name: &str) -> u64 {
    let exported = exporter.get_finished_metrics().expect("the exporter is open");
    let metrics =
        exported.last().into_iter().flat_map(|all| all.scope_metrics()).flat_map(|scope| scope.metrics());
    let sums = metrics.filter(|metric| metric.name() == name).map(|metric| match metric.data() {
        AggregatedMetrics::U64(MetricData::Sum(sum)) => sum.data_points().map(|point| point.value()).sum(),
        _ => 0,
    });
    sums.sum()
}

/// The metadata of answers, which only a remote service sends. The service in this example is a stand-in in this process.
#[cfg(feature = "azure")]
mod azure {
    use std::sync::Arc;

    use async_trait::async_trait;
    use azure_core::http::headers::Headers;
    use azure_core::http::{AsyncRawResponse, HttpClient, Request, StatusCode, Transport};
    use table_azure::{AzureTableStore, AzureTableStoreOptions, SharedKey, collect_responses};
    use table_core::model::{Key, TableName};
    use table_core::store::TableStore;

    pub(super) async fn show_request_ids() -> table_core::Result<()> {
        let mut options = AzureTableStoreOptions::default();
        options.client_options.transport = Some(Transport::new(Arc::new(StandIn)));
        let (endpoint, key) = ("https://account.table.core.windows.net", SharedKey::new("account", "a2V5")?);
        let store = AzureTableStore::with_shared_key(endpoint, key, Some(options))?;
        let (table, key) = (TableName::new("Readings")?, Key::new("roof", "0000000001")?);
        let (answer, responses) = collect_responses(store.get(&table, &key, None)).await;
        // An error has the request id too. Support asks for it.
        let refused = answer.expect_err("the stand-in refuses every request");
        let of_error = refused.answer().and_then(|answer| answer.request_id.as_deref());
        assert_eq!((of_error, responses[0].request_id.as_deref()), (Some("8f1a"), Some("8f1a")));
        assert_eq!((responses[0].operation, responses[0].status), ("get", 403));
        Ok(())
    }

    #[derive(Debug)]
    struct StandIn;

    #[async_trait]
    impl HttpClient for StandIn {
        async fn execute_request(&self, _: &Request) -> azure_core::Result<AsyncRawResponse> {
            let mut headers = Headers::new();
            headers.insert("x-ms-request-id", "8f1a");
            headers.insert("x-ms-error-code", "AuthorizationFailure");
            Ok(AsyncRawResponse::from_bytes(StatusCode::Forbidden, headers, ""))
        }
    }
}
