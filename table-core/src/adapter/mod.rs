//! Adapters: stores that wrap a store and add one thing each.
//!
//! | adapter | adds |
//! |---|---|
//! | [`Metered`] | counts what reaches the wrapped store, in a [`RequestMeter`] |

mod around;
mod call;
mod meter;

pub use meter::{Count, Metered, Request, RequestCounts, RequestMeter};
