//! Adapters of work queues: retry and meter.

mod meter;
mod retry;
#[cfg(test)]
mod tests;

pub use meter::{MeteredQueue, QueueCall, QueueMeter};
pub use retry::RetryingQueue;
