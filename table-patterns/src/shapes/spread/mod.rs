//! Key spreading: one logical partition is stored in several partitions, so that no partition gets all the traffic.
//!
//! # Problem
//! The prepend/append anti-pattern: if all new entities go to one partition (today, the newest log), one server of the
//! service handles them, about 2,000 entities per second on Azure. [`PartitionWatch`] finds such partitions while a
//! program runs.
//!
//! Declare `#[partition_key(spread = 16)]`, or `#[entity(spread = 16)]` with a key template, and open the table with
//! [`SpreadTable`]. [`Table`](crate::Table) refuses such a type.
//!
//! # Key layout
//!
//! | key | stored as |
//! |---|---|
//! | PartitionKey `{partition}` | `{bucket:04}_{partition}` |
//! | RowKey | unchanged |
//!
//! The bucket is the first 8 bytes, big-endian, of the SHA-256 hash of the salt and the RowKey in UTF-8, modulo the number
//! of buckets. The formula is part of the format, so that other programs can compute it, and will not change. The bucket is
//! the first part of the key because a service splits a table by ranges of PartitionKeys: the partitions of a bucket stay
//! together.
//!
//! The salt is empty unless declared: `#[partition_key(spread = 16, salt = "…")]`. With a salt, a client that chooses
//! RowKeys without knowing the salt cannot aim at one bucket, and types with equal RowKeys are spread differently. The salt
//! is part of the program and not a cryptographic secret. There is no random salt per write: two writers could insert one
//! key into two buckets, and a point read would have to ask all buckets.
//!
//! # Guarantees
//! An entity's key determines its bucket: point operations take 1 request, as without spreading. Reads of a logical
//! partition merge the buckets in the order of RowKeys. A group transaction would be limited to one bucket, so this table
//! has none.
//!
//! # Changing the number of buckets
//! 1. Change the number, the salt or both in the declaration, and pass the previous ones to
//!    [`SpreadTable::with_previous`].
//! 2. Stop the writers that know only the previous ones.
//! 3. Run [`SpreadTable::migrate`], **one process at a time**.
//! 4. Remove `with_previous`.
//!
//! Point operations work during the migration, with more requests. To move an entity, the migration marks the old row,
//! which stops writers but not readers, inserts the new row, and deletes the old row. A reader looks at the new place
//! first. A writer that finds a marked row waits and repeats, as after a conflict. A delete waits until the old row is
//! gone, because the migration would otherwise move the entity again. A version that was read before the move is not valid
//! after it.
//!
//! Only a read of a partition can miss an entity: one that is moved between the reads of its two buckets. No read returns
//! an entity twice.
//!
//! # Failure windows
//! None without previous buckets. A migration that dies leaves at most the 16 entities that it was moving marked: reads
//! return them, and writes fail with precondition failed after the last attempt, until the migration runs again.
//!
//! # Cost in requests
//!
//! | call | usually | with previous buckets |
//! |---|---|---|
//! | get | 1 | 1 if moved, 2 if not, 3 if missing |
//! | insert | 1; 3 over a due entity | 2; over a due entity 2 if not moved, 4 if moved |
//! | replace | 1 | 2 if moved, 3 if not, and more per conflict |
//! | delete | 1 | 3, and more per conflict |
//! | upsert | 1 | 2 if moved, 3 if not, 5 if missing, and more per conflict |
//! | move_to | 3; 4 for a type that has a `type` or a `version` | those of a get, an upsert and a delete |
//! | update | 2 | 2 if moved, 3 if not, and more per conflict |
//! | read a partition | at least 1 per bucket, in parallel | the larger number of buckets |
//! | migrate | | 1 per page of the table, 3 per entity moved |
//!
//! # Limits, and when not to use it
//! Every read of a logical partition reads every bucket: choose a small number, and no spreading if one server can handle
//! the partition. If the service does not sort, merged reads are refused. Declared indexes and
//! `discriminator(partition_prefix)` are refused. The stored PartitionKey is 5 characters longer than the logical one.

mod migrate;
mod place;
mod query;
mod set;
mod table;
mod watch;
mod write;

pub use migrate::Migrated;
pub(crate) use migrate::is_there;
pub use place::SpreadRow;
pub(crate) use place::is_moving;
pub use query::SpreadQuery;
pub use table::SpreadTable;
pub use watch::{HotPartition, PartitionWatch, Watched};

#[cfg(test)]
mod tests;
