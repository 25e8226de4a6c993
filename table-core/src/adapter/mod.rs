//! Adapters: stores that wrap a store and add one thing each.
//!
//! | adapter | adds |
//! |---|---|
//! | [`Metered`] | counts what reaches the wrapped store, in a [`RequestMeter`] |
//! | [`Faulty`] | lets requests go wrong, as a [`FaultInjector`] says |

mod around;
mod call;
mod fault;
mod meter;

pub use fault::{CrashPoint, Fault, FaultInjector, FaultRule, Faulty, Injected};
pub use meter::{Count, Metered, Request, RequestCounts, RequestMeter};
