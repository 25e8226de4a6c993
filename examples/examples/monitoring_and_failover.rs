//! Operation: a shared rate limit, reading from a second copy when the first fails, OpenTelemetry metrics and spans, and (Azure) the
//! request ids that support asks for.
//!
//! Cost: none; a read that is slow or fails is sent to the second copy too, and costs 2 requests.

use std::time::Duration;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use table_core::adapter::{
    Failover, Fault, FaultInjector, FaultRule, RateLimit, ReadSources, RequestMeter, RetryPolicy,
    StoreBuilder, Telemetry, TraceKeys,
};
use table_core::store::OperationKind;
use table_patterns::prelude::*;

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
    // A program exports by OTLP.
    let exporter = InMemoryMetricExporter::default();
    let metrics_provider = SdkMeterProvider::builder()
        .with_periodic_exporter(exporter.clone())
        .build();
    let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));

    // 1,000 requests per second, shared by all stores that have a clone of the limit. A throttled response (429, 503) halves the rate;
    // each second without one raises it by 50.
    let rate_limit = RateLimit::per_second(1000);
    let primary = MemoryStore::new(); // or EmbeddedStore, AzureTableStore
    let store = StoreBuilder::new(primary.clone())
        .trace(TraceKeys::Hidden)
        .telemetry(Telemetry::new(&metrics_provider.meter("readings")))
        .rate(rate_limit.clone())
        // no pause between attempts, for this example only
        .retry(
            RetryPolicy::default()
                .with_delays(Duration::ZERO, Duration::ZERO)
                .with_max_attempts(2),
        )
        .meter(meter.clone())
        .fault(faults.clone())
        .build();
    let readings = Database::new(store.clone()).table::<Reading>("Readings")?;
    readings.declare().await?;
    faults.script([Some(Fault::Throttle { retry_after: None })]);
    let reading = Reading {
        sensor: "roof".to_owned(),
        minute: 1,
        celsius: 3.5,
    };
    readings.insert(&reading).await?;
    assert!(
        (500.0..1000.0).contains(&rate_limit.current()),
        "{}",
        rate_limit.current()
    );

    metrics_provider
        .force_flush()
        .expect("the exporter is in this process");
    assert_eq!(count(&exporter, "table.client.requests"), meter.total());
    assert_eq!(count(&exporter, "table.client.retries"), 1);
    assert_eq!(count(&exporter, "table.client.throttles"), 1);

    // Reads fail over: if the primary fails or takes longer than 2 seconds, the read goes to the secondary. On Azure, open the secondary
    // endpoint with `ReadFrom::Secondary`. A secondary copy is behind the primary: use it only for display. Here both stores have the
    // same data.
    let sources = ReadSources::default();
    let failover = Failover::new(store, primary)?
        .after(Duration::from_secs(2))
        .count(sources.clone());
    let read_only = Database::new(failover).table::<Reading>("Readings")?;
    faults.add(FaultRule::new(Fault::FailBefore).on(OperationKind::Get));
    let key = Reading::key("roof", 1)?;
    assert_eq!(read_only.get(&key).await?, Some(reading));
    assert_eq!(sources.primary(), 0);
    assert_eq!(sources.secondary(), 1);

    #[cfg(feature = "azure")]
    azure::show_request_ids().await?;
    Ok(())
}

/// Returns the sum of a counter.
fn count(exporter: &InMemoryMetricExporter, name: &str) -> u64 {
    let exported = exporter
        .get_finished_metrics()
        .expect("the exporter is open");
    let metrics = exported
        .last()
        .into_iter()
        .flat_map(|all| all.scope_metrics())
        .flat_map(|scope| scope.metrics());
    let sums = metrics
        .filter(|metric| metric.name() == name)
        .map(|metric| match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().map(|point| point.value()).sum()
            }
            _ => 0,
        });
    sums.sum()
}

/// Response metadata, such as the request id. `StandIn` replaces the service and refuses every request.
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
        let (endpoint, key) = (
            "https://account.table.core.windows.net",
            SharedKey::new("account", "a2V5")?,
        );
        let store = AzureTableStore::with_shared_key(endpoint, key, Some(options))?;
        let (table, key) = (TableName::new("Readings")?, Key::new("roof", "0000000001")?);
        let (response, responses) = collect_responses(store.get(&table, &key, None)).await;
        // An error has the request id too. Support asks for it.
        let refused = response.expect_err("the stand-in refuses every request");
        assert_eq!(
            refused
                .answer()
                .and_then(|response| response.request_id.as_deref()),
            Some("8f1a")
        );
        assert_eq!(responses[0].request_id.as_deref(), Some("8f1a"));
        assert_eq!(responses[0].operation, "get");
        assert_eq!(responses[0].status, 403);
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
            Ok(AsyncRawResponse::from_bytes(
                StatusCode::Forbidden,
                headers,
                "",
            ))
        }
    }
}
