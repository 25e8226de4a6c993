//! Work queues: the contract. Implementations live in the crates that have the storage.

mod contract;

pub use contract::{MESSAGE_BYTES, Message, MessageId, Receipt, WorkQueue};
