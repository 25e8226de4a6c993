//! Work queues: the trait. Implementations are in the crates of their storage.

mod contract;

pub use contract::{MESSAGE_BYTES, Message, MessageId, Receipt, WorkQueue};
