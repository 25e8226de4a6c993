use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

use super::{insert, key, table};
use crate::adapter::{Fault, FaultInjector, RetryPolicy, StoreBuilder, Telemetry};
use crate::memory::MemoryStore;
use crate::query::Query;
use crate::store::TableStore as _;

/// The value of every counter, and the number of values and the sum of every histogram of rows, by name and attributes.
fn exported(exporter: &InMemoryMetricExporter) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let metrics = exporter.get_finished_metrics().unwrap();
    for metric in metrics
        .last()
        .unwrap()
        .scope_metrics()
        .flat_map(|scope| scope.metrics())
    {
        let named = |attributes: &mut dyn Iterator<Item = &opentelemetry::KeyValue>| {
            let mut all: Vec<_> = attributes.map(|pair| pair.value.to_string()).collect();
            all.sort();
            format!("{} {}", metric.name(), all.join(" "))
        };
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    found.insert(named(&mut point.attributes()), point.value());
                }
            }
            AggregatedMetrics::U64(MetricData::Histogram(rows)) => {
                for point in rows.data_points() {
                    found.insert(named(&mut point.attributes()), point.sum());
                }
            }
            AggregatedMetrics::F64(MetricData::Histogram(durations)) => {
                for point in durations.data_points() {
                    found.insert(named(&mut point.attributes()), point.count());
                }
            }
            other => panic!("{}: {other:?}", metric.name()),
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn operations_requests_retries_and_throttles_are_recorded() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder()
        .with_periodic_exporter(exporter.clone())
        .build();
    let telemetry = Telemetry::new(&provider.meter("test"));
    let faults = FaultInjector::new(1);
    let store = StoreBuilder::new(MemoryStore::new())
        .fault(faults.clone())
        .retry(RetryPolicy::default().with_delays(Duration::ZERO, Duration::ZERO))
        .telemetry(telemetry)
        .build();
    store.create_table(&table()).await.unwrap();
    faults.script([
        Some(Fault::Throttle { retry_after: None }),
        Some(Fault::FailBefore),
    ]);
    store.write(&table(), insert("a")).await.unwrap();
    store.write(&table(), insert("b")).await.unwrap();
    store.write(&table(), insert("a")).await.unwrap_err();
    store
        .query(&table(), &Query::new(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(
        store.get(&table(), &key("absent"), None).await.unwrap(),
        None
    );
    store.list_tables(None, None).await.unwrap();
    provider.force_flush().unwrap();

    let expected = [
        (
            "db.client.operation.duration Employees create_table table_store",
            1,
        ),
        (
            "db.client.operation.duration Employees entity_already_exists insert table_store",
            1,
        ),
        ("db.client.operation.duration Employees get table_store", 1),
        (
            "db.client.operation.duration Employees insert table_store",
            2,
        ),
        (
            "db.client.operation.duration Employees query table_store",
            1,
        ),
        ("db.client.operation.duration list_tables table_store", 1),
        (
            "db.client.response.returned_rows Employees get table_store",
            0,
        ),
        (
            "db.client.response.returned_rows Employees query table_store",
            2,
        ),
        (
            "table.client.requests Employees create_table table_store",
            1,
        ),
        (
            "table.client.requests Employees entity_already_exists insert table_store",
            1,
        ),
        ("table.client.requests Employees get table_store", 1),
        ("table.client.requests Employees insert table_store", 2),
        (
            "table.client.requests Employees insert table_store throttled",
            1,
        ),
        (
            "table.client.requests Employees insert table_store transport",
            1,
        ),
        ("table.client.requests Employees query table_store", 1),
        ("table.client.requests list_tables table_store", 1),
        ("table.client.retries insert table_store", 2),
        // One request after the other, with the repetitions.
        ("table.client.round_trips table_store", 9),
        (
            "table.client.throttles Employees insert table_store throttled",
            1,
        ),
    ];
    let expected: BTreeMap<_, _> = expected
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count))
        .collect();
    assert_eq!(exported(&exporter), expected);
}
