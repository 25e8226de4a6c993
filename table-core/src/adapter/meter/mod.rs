//! Counts requests, which Table storage bills and which cost latency.

mod counts;
mod store;
#[cfg(test)]
mod tests;

pub use counts::{Count, Request, RequestCounts};
#[cfg(feature = "opentelemetry")]
pub(super) use store::Chain;
pub use store::{Metered, RequestMeter};
