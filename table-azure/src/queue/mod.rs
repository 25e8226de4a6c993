//! Work queues in Azure Queue Storage, through the official client.

mod message;
mod poison;
mod queue_api;
mod shared_key;
mod work_queue;

pub use work_queue::{AzureWorkQueue, AzureWorkQueueOptions};
