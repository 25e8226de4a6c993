//! Writes of several partitions and tables that stay consistent: indexes, the journal under them, eventually consistent
//! transactions, the queues that drive them, and their upkeep.

pub(crate) mod entry;
pub mod eventual;
pub mod index;
pub mod journal;
pub mod queue;
pub mod upkeep;
pub(crate) mod work;
