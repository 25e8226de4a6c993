//! Work queues in Azure Queue Storage, through the official client.

mod shared_key;
mod work_queue;

pub use work_queue::AzureWorkQueue;
