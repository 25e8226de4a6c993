use std::sync::Arc;

use super::{
    FaultInjector, Faulty, Guarded, Limited, Metered, RequestMeter, RetryPolicy, Retrying, ScanGuard,
    TraceKeys, Traced,
};
use crate::store::TableStore;

/// Stacks adapters on a store in the order that makes sense, whatever order they are named in.
///
/// From the outside in:
///
/// | adapter | is there because |
/// |---|---|
/// | [`trace`](Self::trace) | a span covers an operation as the caller sees it, attempts and refusals included |
/// | [`scan_guard`](Self::scan_guard) | what is refused takes no place and is not tried again |
/// | [`limit`](Self::limit) | an operation keeps its place while it backs off; see [`Limited`] |
/// | [`retry`](Self::retry) | every attempt passes what is below |
/// | [`meter`](Self::meter) | it counts what the service bills: each attempt, each read that resolves one |
/// | [`fault`](Self::fault) | what goes wrong is retried and counted like the real thing |
/// | the store | |
///
/// A store that encrypts goes around the whole: its own requests are then retried and counted, and
/// only ciphertext passes here.
///
/// ```
/// use table_core::adapter::{Fault, FaultInjector, RequestMeter, RetryPolicy, ScanGuard, StoreBuilder, TraceKeys};
/// use table_core::memory::MemoryStore;
/// use table_core::model::TableName;
/// use table_core::store::TableStore;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let (meter, faults) = (RequestMeter::new(), FaultInjector::new(7));
/// let store = StoreBuilder::new(MemoryStore::new())
///     .trace(TraceKeys::Hidden)
///     .scan_guard(ScanGuard::new())
///     .limit(32)
///     .retry(RetryPolicy::default())
///     .meter(meter.clone())
///     .fault(faults.clone())
///     .build();
/// faults.script([Some(Fault::FailBefore)]);
/// store.create_table(&TableName::new("Employees")?).await?;
/// assert_eq!(meter.total(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StoreBuilder {
    store: Arc<dyn TableStore>,
    faults: Option<FaultInjector>,
    meter: Option<RequestMeter>,
    retry: Option<RetryPolicy>,
    limit: Option<usize>,
    guard: Option<ScanGuard>,
    trace: Option<TraceKeys>,
}

impl StoreBuilder {
    /// Starts with a store without adapters.
    pub fn new(store: impl TableStore) -> Self {
        let store = Arc::new(store);
        Self { store, faults: None, meter: None, retry: None, limit: None, guard: None, trace: None }
    }

    /// Lets requests go wrong; see [`Faulty`].
    #[must_use]
    pub fn fault(mut self, faults: FaultInjector) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Counts requests; see [`Metered`].
    #[must_use]
    pub fn meter(mut self, meter: RequestMeter) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Tries again; see [`Retrying`].
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Bounds the operations in flight; see [`Limited`].
    #[must_use]
    pub const fn limit(mut self, in_flight: usize) -> Self {
        self.limit = Some(in_flight);
        self
    }

    /// Refuses costly queries; see [`Guarded`].
    #[must_use]
    pub fn scan_guard(mut self, guard: ScanGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Emits spans; see [`Traced`].
    #[must_use]
    pub const fn trace(mut self, keys: TraceKeys) -> Self {
        self.trace = Some(keys);
        self
    }

    /// The stack.
    pub fn build(self) -> Arc<dyn TableStore> {
        let store = wrap(self.store, self.faults, Faulty::new);
        let store = wrap(store, self.meter, Metered::new);
        let store = wrap(store, self.retry, Retrying::new);
        let store = wrap(store, self.limit, Limited::new);
        let store = wrap(store, self.guard, Guarded::new);
        wrap(store, self.trace, Traced::new)
    }
}

fn wrap<C, A: TableStore>(
    store: Arc<dyn TableStore>,
    config: Option<C>,
    adapter: impl FnOnce(Arc<dyn TableStore>, C) -> A,
) -> Arc<dyn TableStore> {
    match config {
        Some(config) => Arc::new(adapter(store, config)),
        None => store,
    }
}
