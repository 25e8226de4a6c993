use std::sync::Arc;

use super::{
    FaultInjector, Faulty, Guarded, Limited, Metered, RateLimit, RateLimited, RequestMeter,
    RetryPolicy, Retrying, ScanGuard, TraceKeys, Traced,
};
use crate::store::TableStore;

/// Stacks adapters on a store. The order of the stack is fixed; the order of the calls does not matter.
///
/// From the outside in:
///
/// | adapter | reason for its place |
/// |---|---|
/// | [`trace`](Self::trace) | a span covers an operation as the caller sees it, with its attempts and refusals |
/// | `telemetry` (feature `opentelemetry`) | durations are measured as the caller sees them; requests are counted beside the meter |
/// | [`scan_guard`](Self::scan_guard) | a refused query uses no permit and is not retried |
/// | [`limit`](Self::limit) | an operation keeps its permit while it backs off; see [`Limited`] |
/// | [`rate`](Self::rate) | an operation waits for its turn before its first attempt begins; see [`RateLimited`] |
/// | [`retry`](Self::retry) | every attempt passes the adapters below; each request after the first takes a turn of the rate |
/// | the observer of [`rate`](Self::rate) | sees the throttled answers that retries hide |
/// | [`meter`](Self::meter) | counts the requests that the service bills: each attempt, and each read that resolves one |
/// | [`fault`](Self::fault) | injected faults are retried and counted like real faults |
/// | the store | |
///
/// Put an encrypting store around the stack: its own requests are then retried and counted, and the adapters
/// see ciphertext only.
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
    rate: Option<RateLimit>,
    limit: Option<usize>,
    guard: Option<ScanGuard>,
    trace: Option<TraceKeys>,
    #[cfg(feature = "opentelemetry")]
    telemetry: Option<super::Telemetry>,
}

impl StoreBuilder {
    /// Starts with a store without adapters.
    pub fn new(store: impl TableStore) -> Self {
        let store = Arc::new(store);
        Self {
            store,
            faults: None,
            meter: None,
            retry: None,
            rate: None,
            limit: None,
            guard: None,
            trace: None,
            #[cfg(feature = "opentelemetry")]
            telemetry: None,
        }
    }

    /// Injects faults into requests; see [`Faulty`].
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

    /// Retries failed requests; see [`Retrying`].
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Limits the requests per second; see [`RateLimited`].
    #[must_use]
    pub fn rate(mut self, limit: RateLimit) -> Self {
        self.rate = Some(limit);
        self
    }

    /// Limits the operations in flight; see [`Limited`].
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

    /// Records OpenTelemetry's metrics; see [`Telemetry`](super::Telemetry).
    #[cfg(feature = "opentelemetry")]
    #[must_use]
    pub fn telemetry(mut self, telemetry: super::Telemetry) -> Self {
        self.telemetry = Some(telemetry);
        self
    }

    /// Returns the stack.
    pub fn build(self) -> Arc<dyn TableStore> {
        // From the inside out: the last line is the outermost adapter. The table above has the reasons.
        let store = wrap(self.store, self.faults, Faulty::new);
        #[cfg(feature = "opentelemetry")]
        let store = wrap(store, self.telemetry.clone(), |store, telemetry| {
            super::telemetry::Counted { store, telemetry }
        });
        let store = wrap(store, self.meter, Metered::new);
        let store = wrap(store, self.rate.clone(), RateLimited::observing);
        let store = wrap(store, self.retry, |store, policy| {
            let retrying = Retrying::new(store, policy).with_rate(self.rate.clone());
            #[cfg(feature = "opentelemetry")]
            let retrying = retrying.with_telemetry(self.telemetry.clone());
            retrying
        });
        let store = wrap(store, self.rate.clone(), RateLimited::waiting);
        let store = wrap(store, self.limit, Limited::new);
        let store = wrap(store, self.guard, Guarded::new);
        #[cfg(feature = "opentelemetry")]
        let store = wrap(store, self.telemetry, |store, telemetry| {
            super::telemetry::Measured { store, telemetry }
        });
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
