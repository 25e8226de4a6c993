//! Adapters: stores that wrap a store and add one feature each. [`StoreBuilder`] stacks them.
//!
//! | adapter | adds |
//! |---|---|
//! | [`Traced`] | a `tracing` span around every operation |
//! | [`Guarded`] | refuses expensive queries, by a [`ScanGuard`] |
//! | [`Limited`] | limits the operations in flight |
//! | [`RateLimited`] | limits the requests per second, by a [`RateLimit`] that adapts to throttled answers |
//! | [`Retrying`] | repeats requests that are safe to repeat, by a [`RetryPolicy`] |
//! | [`Metered`] | counts the requests to the wrapped store, in a [`RequestMeter`] |
//! | [`Faulty`] | injects faults, by a [`FaultInjector`] |
//! | `Telemetry` (feature `opentelemetry`) | records OpenTelemetry's metrics: durations, requests, retries, throttles |
//! | [`WithClock`] | another clock, by which entities expire |
//! | [`Failover`] | reads from a second copy of the data when the first fails or is slow; takes two stores |
//!
//! [`RetryingQueue`] and [`MeteredQueue`] do the same for a [`WorkQueue`](crate::queue::WorkQueue).

mod around;
mod builder;
mod clock;
mod failover;
mod fault;
mod guard;
mod limit;
mod meter;
mod queue;
mod rate;
mod retry;
#[cfg(feature = "opentelemetry")]
mod telemetry;
#[cfg(test)]
mod tests;
mod trace;

pub use builder::StoreBuilder;
pub use clock::WithClock;
pub use failover::{Failover, ReadSources};
pub use fault::{CrashPoint, Fault, FaultInjector, FaultRule, Faulty, Injected};
pub use guard::{GuardMode, Guarded, ScanGuard};
pub use limit::Limited;
pub use meter::{Count, Metered, Request, RequestCounts, RequestMeter};
pub use queue::{MeteredQueue, QueueCall, QueueMeter, RetryingQueue};
pub use rate::{RateLimit, RateLimited};
pub use retry::{AbsentInsert, RetryPolicy, Retrying, WRITE_ID_PROPERTY};
#[cfg(feature = "opentelemetry")]
pub use telemetry::Telemetry;
pub use trace::{TraceKeys, Traced};
