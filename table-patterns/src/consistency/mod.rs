//! Writes of several partitions and tables that stay consistent: indexes, the journal under them, and the queues that drive
//! them.

pub(crate) mod entry;
pub mod index;
pub mod journal;
pub mod queue;
pub(crate) mod work;
