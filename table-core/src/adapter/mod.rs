//! Adapters: stores that wrap a store and add one thing each.
//!
//! | adapter | adds |
//! |---|---|
//! | [`Metered`] | counts what reaches the wrapped store, in a [`RequestMeter`] |
//! | [`Faulty`] | lets requests go wrong, as a [`FaultInjector`] says |
//! | [`Retrying`] | tries again what is safe to try again, by a [`RetryPolicy`] |

mod around;
mod call;
mod fault;
mod meter;
mod retry;

pub use fault::{CrashPoint, Fault, FaultInjector, FaultRule, Faulty, Injected};
pub use meter::{Count, Metered, Request, RequestCounts, RequestMeter};
pub use retry::{AbsentInsert, RetryPolicy, Retrying, WRITE_ID_PROPERTY};
