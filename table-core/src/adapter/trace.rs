use tracing::field::{Empty, display};
use tracing::{Instrument, Level, Span};

use super::around::{Around, impl_around};
use super::call::{Answer, Call, error_name};
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
/// The span `table_operation`, at level DEBUG, has the fields `operation`, `table`, `path` for reads, `key`
/// if shown, `attempts` if there was more than one, and at the end `outcome` (`ok`, `not_applied`, `applied`,
/// `ambiguous`), `items` returned or written, and the name of the `error`. A missing entity or a conflict is
/// an expected result: it is in the fields and emits no event. Property values and filters never appear.
/// Costs no request.
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
        let span = span(&call);
        let result = request.instrument(span.clone()).await;
        match &result {
            Ok(answer) => span.record("outcome", "ok").record("items", answer.items()),
            Err(error) => span.record("outcome", outcome(error)).record("error", error_name(error)),
        };
        result
    }

    fn shown(&self, key: impl FnOnce() -> String) -> Option<String> {
        (self.keys == TraceKeys::Shown && tracing::enabled!(Level::DEBUG)).then(key)
    }
}

fn span(call: &Call<'_>) -> Span {
    let (table, path) = (call.table.map(display), call.path.map(display));
    tracing::debug_span!(
        "table_operation",
        operation = call.kind.name(),
        table,
        path,
        key = call.key,
        attempts = Empty,
        outcome = Empty,
        items = Empty,
        error = Empty,
    )
}

fn outcome(error: &Error) -> &'static str {
    match error.outcome() {
        Outcome::NotApplied => "not_applied",
        Outcome::Applied => "applied",
        Outcome::Ambiguous => "ambiguous",
    }
}

impl_around!(Traced);
