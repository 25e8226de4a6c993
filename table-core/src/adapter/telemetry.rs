use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use tokio::time::Instant;

use super::around::{Answer, Around, Call, error_name, impl_around};
use super::meter::Chain;
use crate::model::TableName;
use crate::store::{Error, ErrorKind, OperationKind, Result, TableStore};

/// The metrics of stores, by OpenTelemetry's names for database clients
/// (<https://opentelemetry.io/docs/specs/semconv/database/database-metrics/>). Clones share their instruments.
///
/// | instrument | kind, unit | counts |
/// |---|---|---|
/// | `db.client.operation.duration` | histogram, `s` | operations as the caller sees them, with their retries |
/// | `db.client.response.returned_rows` | histogram, `{row}` | the entities of each answer to a get or a query |
/// | `table.client.requests` | counter, `{request}` | requests to the store, as the service bills them |
/// | `table.client.round_trips` | counter, `{round_trip}` | how often a program waited for the store: the longest chain of requests in which each begins after the end of the request before |
/// | `table.client.retries` | counter, `{retry}` | repetitions of a request |
/// | `table.client.throttles` | counter, `{request}` | requests that the service refused because it was busy |
///
/// The attributes are `db.system.name`, `db.operation.name`, `db.collection.name` (the table), and `error.type` if the operation
/// failed. A missing entity is an answer, not an error. No attribute contains a key or a value of an entity.
///
/// [`StoreBuilder::telemetry`](super::StoreBuilder::telemetry) puts the instruments at their places in a stack of adapters.
///
/// ```
/// use table_core::adapter::{RetryPolicy, StoreBuilder, Telemetry};
/// use table_core::memory::MemoryStore;
/// let telemetry = Telemetry::new(&opentelemetry::global::meter("my-program"));
/// let store = StoreBuilder::new(MemoryStore::new()).retry(RetryPolicy::default()).telemetry(telemetry).build();
/// ```
#[derive(Clone, Debug)]
pub struct Telemetry(Arc<Instruments>);

#[derive(Debug)]
struct Instruments {
    duration: Histogram<f64>,
    returned_rows: Histogram<u64>,
    requests: Counter<u64>,
    round_trips: Counter<u64>,
    chain: Mutex<Chain>,
    retries: Counter<u64>,
    throttles: Counter<u64>,
}

/// The bounds of the histogram of durations, in seconds, as the conventions recommend them.
const DURATIONS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

impl Telemetry {
    /// Creates the instruments of `meter`.
    pub fn new(meter: &Meter) -> Self {
        let counter = |name, unit, description| {
            meter
                .u64_counter(name)
                .with_unit(unit)
                .with_description(description)
                .build()
        };
        let duration = meter
            .f64_histogram("db.client.operation.duration")
            .with_unit("s");
        let returned_rows = meter
            .u64_histogram("db.client.response.returned_rows")
            .with_unit("{row}");
        Self(Arc::new(Instruments {
            duration: duration
                .with_description("Duration of operations, with their retries")
                .with_boundaries(DURATIONS.to_vec())
                .build(),
            returned_rows: returned_rows
                .with_description("Entities of each answer")
                .build(),
            requests: counter(
                "table.client.requests",
                "{request}",
                "Requests to the store",
            ),
            round_trips: counter(
                "table.client.round_trips",
                "{round_trip}",
                "Requests one after another",
            ),
            chain: Mutex::default(),
            retries: counter(
                "table.client.retries",
                "{retry}",
                "Repetitions of a request",
            ),
            throttles: counter(
                "table.client.throttles",
                "{request}",
                "Requests that a busy service refused",
            ),
        }))
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.0.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requested(&self, attributes: &[KeyValue], error: Option<&Error>) {
        self.0.requests.add(1, attributes);
        if error.is_some_and(|error| matches!(error.root().kind(), ErrorKind::Throttled { .. })) {
            self.0.throttles.add(1, attributes);
        }
    }

    fn done(&self, attributes: &[KeyValue], started: Instant, rows: Option<u64>) {
        self.0
            .duration
            .record(started.elapsed().as_secs_f64(), attributes);
        if let Some(rows) = rows {
            self.0.returned_rows.record(rows, attributes);
        }
    }

    /// Counts the repetition of a request.
    pub(super) fn retried(&self, system: &'static str, operation: &'static str) {
        let attributes = [
            KeyValue::new("db.system.name", system),
            KeyValue::new("db.operation.name", operation),
        ];
        self.0.retries.add(1, &attributes);
    }
}

fn attributes(system: &'static str, call: &Call<'_>, error: Option<&Error>) -> Vec<KeyValue> {
    let table = call
        .table
        .map(|table| KeyValue::new("db.collection.name", table.to_string()));
    let error = error.map(|error| KeyValue::new("error.type", error_name(error)));
    let named = [
        KeyValue::new("db.system.name", system),
        KeyValue::new("db.operation.name", call.kind.name()),
    ];
    named.into_iter().chain(table).chain(error).collect()
}

/// Records every operation of a store, as its caller sees it. It belongs outside of retries.
#[derive(Debug)]
pub(super) struct Measured<S> {
    pub(super) store: S,
    pub(super) telemetry: Telemetry,
}

impl<S: TableStore> Around for Measured<S> {
    async fn around<T: Answer + Send>(
        &self,
        call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let started = Instant::now();
        let result = request.await;
        let rows = result
            .as_ref()
            .ok()
            .filter(|_| call.path.is_some())
            .map(Answer::items);
        let attributes = attributes(self.store.profile().system, &call, result.as_ref().err());
        self.telemetry.done(&attributes, started, rows);
        result
    }
}

/// Counts every request to a store. It belongs inside of retries.
#[derive(Debug)]
pub(super) struct Counted<S> {
    pub(super) store: S,
    pub(super) telemetry: Telemetry,
}

impl<S: TableStore> Around for Counted<S> {
    async fn around<T: Answer + Send>(
        &self,
        call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let system = self.store.profile().system;
        let begin = self.telemetry.chain().begin();
        let result = request.await;
        if self.telemetry.chain().end(begin) {
            self.telemetry
                .0
                .round_trips
                .add(1, &[KeyValue::new("db.system.name", system)]);
        }
        let error = result.as_ref().err();
        self.telemetry
            .requested(&attributes(system, &call, error), error);
        result
    }
}

impl_around!(Measured);
impl_around!(Counted);
