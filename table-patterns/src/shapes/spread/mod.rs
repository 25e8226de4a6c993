//! Key spreading: one logical partition over several, so that no single one gets all the traffic.
//!
//! # Problem
//! The prepend/append anti-pattern: where new entities always go to one partition (today, the newest log), a
//! service serves them by one server, about 2,000 entities a second on Azure. [`PartitionWatch`] finds such
//! partitions while a program runs.
//!
//! Declare `#[partition_key(spread = 16)]`, or `#[entity(spread = 16)]` beside a template, and open the table with
//! [`SpreadTable`]. [`Table`](table_core::typed::Table) refuses such a type.
//!
//! # Key layout
//!
//! | key | stored as |
//! |---|---|
//! | PartitionKey `{partition}` | `{bucket:04}_{partition}` |
//! | RowKey | itself |
//!
//! The bucket is the first 8 bytes of SHA-256 of the salt and the RowKey, both in UTF-8, big-endian, modulo the number
//! of buckets: this is documented so that others can compute it, and will not change. It comes first, because a service
//! splits a table by ranges of PartitionKeys: neighbours stay together.
//!
//! There is no salt unless one is declared: `#[partition_key(spread = 16, salt = "…")]`. With one, whoever chooses
//! RowKeys but does not know it cannot aim at one bucket, and types with the same RowKeys are spread differently. It is
//! part of the program, no secret of cryptographic strength. A salt drawn at random for each write is not offered:
//! two writers could insert one key into two buckets, and a point read would ask them all.
//!
//! # Guarantees
//! An entity has one place, which its key gives: point operations cost one request, as without spreading. Reads of
//! a logical partition are merged in the order of RowKeys. A group transaction stays within a bucket, so
//! there is none here.
//!
//! # Changing the number of buckets
//! Change the number, the salt or both in the declaration and say [`SpreadTable::with_previous`] with what was there
//! before; stop the writers that know only that; run [`SpreadTable::migrate`], **one at a time**; then leave `with_previous` out.
//! Points work throughout, at more requests. To move an entity the migration marks the old row, which stops
//! writers but not readers, inserts the new one and deletes the old. A reader looks at the new place first. A writer
//! that meets an entity being moved waits and tries again, as for any conflict; a delete waits until
//! the old row is gone, as it would be moved again. A version that was read before the move is not that after it.
//!
//! Only a read of a partition can miss an entity, which was moved behind its back; it has none twice.
//!
//! # Failure windows
//! None without a previous number. A migration that dies leaves at most the 16 entities it was moving marked: they are
//! read as before; writing them fails with precondition failed, after the last attempt, until the migration is run again.
//!
//! # Cost in requests
//!
//! | call | usually | while there is a previous number |
//! |---|---|---|
//! | get | 1 | 1 if moved, 2 if not, 3 if missing |
//! | insert | 1 | 2 |
//! | replace | 1 | 2 if moved, 3 if not, and more for each conflict |
//! | delete | 1 | 3, and more for each conflict |
//! | upsert | 1 | 2 if moved, 3 if not, 5 if missing, and more for each conflict |
//! | move_to | 3; 4 for a type that has a `type` or a `version` | those of a get, an upsert and a delete |
//! | update | 2 | 2 if moved, 3 if not, and more for each conflict |
//! | read a partition | 1 per bucket at least, in parallel | the larger number of buckets |
//! | migrate | | 1 per page of the table, 3 per entity moved |
//!
//! # Limits, and when not to use it
//! Every read of a logical partition asks every bucket: choose a small number, and none where one partition does
//! not get more than a server takes. On a service without order, merged reads are refused. Declared indexes and
//! `discriminator(partition_prefix)` are refused. The PartitionKey is 5 characters longer than it looks.

mod counts;
mod merge;
mod migrate;
mod moves;
mod place;
mod row;
mod table;
mod upgrade;
mod watch;
mod write;

pub use merge::SpreadQuery;
pub use migrate::Migrated;
pub(crate) use moves::is_there;
pub use row::SpreadRow;
pub use table::SpreadTable;
pub use watch::{HotPartition, PartitionWatch, Watched};

#[cfg(test)]
mod tests;
