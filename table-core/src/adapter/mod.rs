//! Adapters: stores that wrap a store and add one thing each. [`StoreBuilder`] stacks them.
//!
//! | adapter | adds |
//! |---|---|
//! | [`Traced`] | a `tracing` span around every operation |
//! | [`Guarded`] | refuses costly queries, as a [`ScanGuard`] says |
//! | [`Limited`] | bounds the operations in flight |
//! | [`Retrying`] | tries again what is safe to try again, by a [`RetryPolicy`] |
//! | [`Metered`] | counts what reaches the wrapped store, in a [`RequestMeter`] |
//! | [`Faulty`] | lets requests go wrong, as a [`FaultInjector`] says |
//!
//! [`RetryingQueue`] and [`MeteredQueue`] are the same for a [`WorkQueue`](crate::queue::WorkQueue).

mod around;
mod builder;
mod call;
mod fault;
mod guard;
mod limit;
mod meter;
mod queue;
mod retry;
#[cfg(test)]
mod tests;
mod trace;

pub use builder::StoreBuilder;
pub use fault::{CrashPoint, Fault, FaultInjector, FaultRule, Faulty, Injected};
pub use guard::{GuardMode, Guarded, ScanGuard};
pub use limit::Limited;
pub use meter::{Count, Metered, Request, RequestCounts, RequestMeter};
pub use queue::{MeteredQueue, QueueCall, QueueMeter, RetryingQueue};
pub use retry::{AbsentInsert, RetryPolicy, Retrying, WRITE_ID_PROPERTY};
pub use trace::{TraceKeys, Traced};
