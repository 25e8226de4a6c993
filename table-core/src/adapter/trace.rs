use tracing::field::{Empty, display};
use tracing::{Instrument, Level, Span};

use super::around::{Answer, Around, Call, error_name, impl_around};
use crate::model::TableName;
use crate::store::{Error, OperationKind, Outcome, Result, TableStore};

/// Whether spans contain keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceKeys {
    /// No, because keys may be personal data.
    #[default]
    Hidden,
    /// Yes: the key of a get or a write, or the PartitionKey of a group transaction. Filters, which contain
    /// values too, are never shown.
    Shown,
}

/// A store with a `tracing` span around every operation.
///
/// The span `table_operation`, at level DEBUG, has OpenTelemetry's names for database clients
/// (<https://opentelemetry.io/docs/specs/semconv/database/database-spans/>), so that `tracing-opentelemetry` exports it as such:
///
/// | field | value |
/// |---|---|
/// | `otel.name`, `otel.kind` | the operation and the table; `client` |
/// | `db.system.name`, `db.operation.name`, `db.collection.name` | the kind of store, the operation, the table |
/// | `db.response.returned_rows` | the number of entities that a read has returned |
/// | `db.response.status_code`, `error.type` | the status of the service's answer; the name of the error |
/// | `otel.status_code` | `ERROR` if the operation failed. A missing entity and a conflict are expected results |
/// | `table.access_path` | of reads |
/// | `table.key` | if shown |
/// | `table.attempts` | if there was more than one |
/// | `table.outcome` | `ok`, `not_applied`, `applied` or `ambiguous` |
///
/// Property values and filters never appear. Costs no request.
///
/// ```
/// use table_core::adapter::{TraceKeys, Traced};
/// use table_core::memory::MemoryStore;
/// let store = Traced::new(MemoryStore::new(), TraceKeys::Hidden);
/// ```
#[derive(Debug)]
pub struct Traced<S> {
    store: S,
    keys: TraceKeys,
}

impl<S: TableStore> Traced<S> {
    /// Traces the operations on `store`.
    pub const fn new(store: S, keys: TraceKeys) -> Self {
        Self { store, keys }
    }
}

impl<S: TableStore> Around for Traced<S> {
    async fn around<T: Answer + Send>(
        &self,
        call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let span = span(self.store.profile().system, &call);
        let is_read = call.path.is_some();
        let result = request.instrument(span.clone()).await;
        match &result {
            Ok(answer) => {
                span.record("table.outcome", "ok");
                if is_read {
                    span.record("db.response.returned_rows", answer.items());
                }
            }
            Err(error) => record(&span, error),
        }
        result
    }

    fn shown_key(&self, key: impl FnOnce() -> String) -> Option<String> {
        (self.keys == TraceKeys::Shown && tracing::enabled!(Level::DEBUG)).then(key)
    }
}

fn span(system: &'static str, call: &Call<'_>) -> Span {
    let (table, path) = (call.table.map(display), call.path.map(display));
    let name = || match call.table {
        Some(table) => format!("{} {table}", call.kind.name()),
        None => call.kind.name().to_owned(),
    };
    tracing::debug_span!(
        "table_operation",
        otel.name = name(),
        otel.kind = "client",
        otel.status_code = Empty,
        db.system.name = system,
        db.operation.name = call.kind.name(),
        db.collection.name = table,
        db.response.returned_rows = Empty,
        db.response.status_code = Empty,
        error.type = Empty,
        table.access_path = path,
        table.key = call.key,
        table.attempts = Empty,
        table.outcome = Empty,
    )
}

fn record(span: &Span, error: &Error) {
    span.record("table.outcome", outcome(error))
        .record("error.type", error_name(error));
    // A conflict is an answer that programs expect. Spans with the error status would hide the failures among them.
    if !error.is_conflict() {
        span.record("otel.status_code", "ERROR");
    }
    if let Some(answer) = error.answer() {
        span.record("db.response.status_code", display(answer.status));
    }
}

fn outcome(error: &Error) -> &'static str {
    match error.outcome() {
        Outcome::NotApplied => "not_applied",
        Outcome::Applied => "applied",
        Outcome::Ambiguous => "ambiguous",
    }
}

impl_around!(Traced);
