//! Bulk and parallel work: write, delete, copy, compare, back up, restore and scan more entities than memory holds.
//!
//! # Problem
//! A store takes at most 100 operations of one partition in a request and answers with at most 1000 entities.
//! Loading, clearing or moving a table therefore needs thousands of requests. Bulk work groups the operations by
//! partition, sends many groups at once, reports an outcome for every operation, and bounds its memory.
//!
//! # Key layout
//! None of its own. A named [`CopyJob`] keeps a checkpoint row in the target table while it runs: the PartitionKey is
//! `~~copy`, the RowKey a hash of the job's name.
//!
//! # Guarantees
//! - Every operation read from the input has exactly one [`BulkOutcome`]: applied, not applied with the reason, or
//!   ambiguous.
//! - Two operations on one entity happen in the order of the input, however far apart they are. Operations on
//!   different entities happen in any order.
//! - **Only operations with the same [`BulkOutcome::request`] were written atomically.** The whole input is not
//!   atomic: readers see it grow, and after a failure a part of it is stored.
//! - If one operation makes a group transaction fail, the writer removes the operation, reports it, and sends the
//!   others again. If an insert found a row, 1 request looks for the rows of the other inserts of the group. If the
//!   encoded request of a group is too large, the writer splits the group.
//! - An endless input is written as it arrives: a group that does not fill is sent when its first operation has
//!   waited for [`BulkOptions::max_wait`] and the input has nothing to read.
//! - [`BulkOptions`] bounds the memory, whatever the number of entities or partitions. The writer reads its input only
//!   as fast as it writes.
//!
//! # Failure windows
//! A program that dies leaves the operations that were written. Operations that were read and waited for their group
//! to fill are lost; with a slow input an operation waits at most [`BulkOptions::max_wait`]. Upserts and deletes can be
//! repeated from the start; a named [`CopyJob`] continues at its checkpoint. A scan is not a snapshot: an entity that
//! is written during the scan may be missing or present. Compare the copy of a table in use with its source, and
//! repeat the copy if they differ. Deletions leave the blobs of [large entities](crate::large) and of indexes in
//! blobs; copies include blobs only with [`CopyJob::with_blobs`].
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | [`BulkWriter`] | 1 per table and 30 seconds for its [manifest](table_core::store::ManifestCache), 1 per group of up to 100; + 1 per refused operation, + 1 per split |
//! | [`delete_partition`], [`delete_where`] | 1 per page of keys, 1 per group |
//! | [`CopyJob::run`] | 1 per page, 1 per group; with a name 3 more and 1 per checkpoint |
//! | [`BackupJob::run`] | 1 per page, 1 per table, 1 per 1,000 tables; in the object store 2 per file of up to 10,000 rows |
//! | [`RestoreJob::run`] | 1 per group, 1 per file, 3 per table and 2 more; in the object store 2 per file |
//! | [`copy_store`] | 1 per page of tables, 3 per table, and those of a copy of each table |
//! | [`BulkTable::bulk`], `insert_all` | those of the write path of the handle: see [`BulkWork::insert_all`] |
//! | [`compare_tables`] | 1 per page of each table |
//! | [`scan_partitions`] | 1 per page of each range |
//!
//! # Limits, and when not to use it
//! The writer refuses entities that an index covers, because their index entries would become stale. Write such
//! entities through [`Table`](crate::Table). To delete a whole table, drop it: 1 request. Entities
//! with a partition of their own are written one by one, 1 request each.

#[cfg(feature = "blobs")]
mod backup;
mod compare;
mod copy;
mod copy_store;
mod insert;
mod open_groups;
mod options;
mod scan;
mod trust;
mod windows;
mod writer;

#[cfg(feature = "blobs")]
pub use backup::{
    Backup, BackupDirectory, BackupJob, BackupReport, BackupTable, Chunk, EncodedRows,
    PreparedBackup, PreparedRestore, RestoreJob, RestoreReport, RowFormat, RowsSize,
};
pub use compare::{Comparison, Difference, compare_tables};
pub use copy::{CopyJob, CopyReport};
pub use copy_store::{
    CopiedTable, PreparedCopy, StoreCopy, StoreCopyReport, StoreDifference, copy_store,
};
pub use insert::{BulkItem, BulkTable, BulkWork, InsertAll};
pub use options::BulkOptions;
pub use scan::{Unchanged, delete_partition, delete_where, scan_partitions, split_partitions};
pub use table_core::store::{BulkOutcome, BulkSummary};
pub use writer::{BulkWriter, operations};

#[cfg(test)]
mod tests;
