//! Bulk and parallel work: writing, deleting, copying and reading more than a program holds at once.
//!
//! # Problem
//! A store takes at most 100 operations of one partition in a request, and answers at most 1000 entities.
//! Loading, clearing or moving a table needs thousands of requests: grouped by partition, many at once,
//! with an answer for every entity, and without holding the data in memory.
//!
//! # Key layout
//! None of its own. [`CopyJob`] keeps a row in the target table while it runs: PartitionKey `~~copy`, RowKey
//! the hash of the job's name.
//!
//! # Guarantees
//! - Every operation that was read has one [`BulkOutcome`]: written, not written and why, or ambiguous.
//! - Two operations on one entity happen in the order they came in, even if they are far apart. Others
//!   happen in any order.
//! - **Only what shares a [`BulkOutcome::request`] was written atomically.** The whole is not: readers see it
//!   grow, and after a failure part of it is there.
//! - An operation that a group transaction fails for is taken out, reported, and the others are sent
//!   again. A group that is too large in the exact form that is sent is split.
//! - An input without end is written as it comes: a group that does not fill is sent when its first operation has
//!   waited for [`BulkOptions::waiting_for`] and there is nothing to read.
//! - Memory is bounded by [`BulkOptions`], whatever the number of entities or partitions. The input is
//!   read only as fast as it is written.
//!
//! # Failure windows
//! A program that dies in the middle leaves what was written; what was read and waits for its group to fill, at most
//! [`BulkOptions::waiting_for`] while the input is slow, is not. Upserts and deletes can be run again from the
//! start; a [`CopyJob`] with a name goes on where it was. A scan is not a snapshot: an entity
//! written while it runs may be missed or seen, and a copy of a table in use must be compared and repeated.
//! Blobs that rows refer to ([large entities](crate::large), indexes in blobs) are not deleted, and copied only by a
//! [`CopyJob::with_blobs`].
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | [`BulkWriter`] | 1 per table and 30 seconds for its [manifest](table_core::store::ManifestCache), 1 per group of up to 100; + 1 per refused operation, + 1 per split |
//! | [`delete_partition`], [`delete_where`] | 1 per page of keys, 1 per group |
//! | [`CopyJob::run`] | 1 per page, 1 per group; with a name 2 more and 1 per checkpoint |
//! | [`compare_tables`] | 1 per page of either |
//! | [`scan_partitions`] | 1 per page of each range |
//!
//! # Limits, and when not to use it
//! The writer refuses tables that hold indexes: their entries would go stale. Write those through
//! [`IndexedTable`](crate::index::IndexedTable). To delete a whole table, drop it: one request. Entities that are
//! each in a partition of their own are written one by one, a request each.

mod checkpoint;
mod compare;
mod copy;
mod delete;
mod open;
mod options;
mod outcome;
mod run;
mod scan;
mod send;
mod writer;

pub use compare::{Comparison, Difference, compare_tables};
pub(crate) use copy::WINDOW_BYTES;
pub use copy::{CopyJob, CopyReport};
pub use delete::{Unchanged, delete_partition, delete_where};
pub use options::BulkOptions;
pub use outcome::{BulkOutcome, BulkSummary};
pub use scan::{scan_partitions, split_partitions};
pub use writer::{BulkWriter, operations};

#[cfg(test)]
mod tests;
