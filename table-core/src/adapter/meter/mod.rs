//! Counts requests, which Table storage bills and which cost latency.

mod counts;
mod store;
#[cfg(test)]
mod tests;

pub use counts::{Count, Request, RequestCounts};
pub use store::{Metered, RequestMeter};
