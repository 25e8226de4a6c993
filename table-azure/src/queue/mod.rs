//! Work queues in Azure Queue Storage, through the official client.

mod queue_api;
mod work_queue;

pub use work_queue::{AzureWorkQueue, AzureWorkQueueOptions};
