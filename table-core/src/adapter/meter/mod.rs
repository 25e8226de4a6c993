//! Counting requests: what Table storage bills and waits for.

mod counts;
mod store;
#[cfg(test)]
mod tests;

pub use counts::{Count, Request, RequestCounts};
pub use store::{Metered, RequestMeter};
