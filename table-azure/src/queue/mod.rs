//! Work queues in Azure Queue Storage, through the official client.

mod message;
mod one_queue;
mod poison;
mod shared_key;
mod work_queue;

pub use work_queue::{AzureWorkQueue, AzureWorkQueueOptions};
