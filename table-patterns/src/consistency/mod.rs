//! Writes of several partitions and tables that stay consistent: indexes, the journal under them, and the queues that drive
//! them.
//!
//! A name in backquotes at the head of a comment, such as `Recheck`, is a rule of the protocols. `docs/proof.md` in the repository lists the
//! rules. The interleaving suite leaves each rule out and shows which guarantee fails.

pub(crate) mod entity_rows;
pub(crate) mod entry;
pub mod index;
pub mod journal;
pub mod queue;
pub(crate) mod work;
