//! A change feed: every write of a table adds a row with the change, in the same transaction.
//!
//! # Problem
//! Other programs are to react to changes of entities: send a mail, update a search engine, fill a cache. A program that
//! writes an entity and then sends a message loses the message if it dies in between, and sends it in vain if the write
//! fails. A table service has no feed of its own.
//!
//! # Key layout
//!
//! | row | PartitionKey | RowKey | properties |
//! |---|---|---|---|
//! | counter | that of the entities | `~~changes` | `Next` (Int64): the number of the next change |
//! | change | that of the entities | `~~changes~` + 19 digits of the number | `Kind`: `inserted`, `updated`, `written` (by an upsert) or `deleted`; `Row`: the RowKey of the entity |
//! | cursor | `~~changes` | hash of consumer and partition | `Consumer`, `Partition`; `Done` (Int64): the last change that the consumer has handled |
//!
//! # Guarantees
//! - **A change exists exactly if its write took effect**: one entity group transaction writes the entity, the change and
//!   the counter.
//! - **In order.** The changes of a partition are numbered from 1 without gaps, in the order in which they took effect: the
//!   transaction depends on the counter's ETag. There is no order between partitions.
//! - **At least once.** A consumer gets every change of a partition in order, and continues at its cursor. After a crash, or
//!   if two processes run one consumer at once, it gets some changes again.
//! - A change names its entity. The consumer reads the current state, which may already contain later changes.
//!
//! **Rows that other programs wrote are checked.** A counter, a change or a cursor with a number that the feed cannot have given is an
//! error that names the row. It stops its partition; the other partitions go on. A consumer delivers the changes before such a row.
//!
//! **Only writes through a [`ChangeTable`] emit changes.** Nothing stops other handles and programs from writing the
//! entities; their writes emit nothing.
//!
//! # Failure windows
//! None in writes. A consumer that dies between its handler and the save of its cursor gets those changes again.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | a write | 1 more than without the feed if another writer has written the partition since this handle's last write; otherwise none more |
//! | a conflict with another writer of the partition | 2 more |
//! | [`Consumer::deliver`] | 1 for the cursor, 1 per page of 1,000 changes, 1 per saved cursor; 1 more if the next change was trimmed |
//! | [`Consumer::run_once`] | a scan of the table for its partitions, and those of `deliver` for each |
//! | [`Changes::trim`] | 1 per consumer, 1 per 100 changes and 1 per 1,000 |
//!
//! # Limits, and when not to use it
//! Writers of one partition take turns, although they write different entities: at most one write of a partition takes
//! effect per round trip. A partition that many programs write at once needs many attempts
//! ([`ChangeTable::with_attempts`]); without a feed they would not meet. The service's limit of 2,000 entities per second and
//! partition counts three rows per write. Types with indexes, large values, wide and spread types are refused.

mod consumer;
mod rows;
mod table;

pub use consumer::{ChangeHandler, Changes, Consumer, Delivered, ToQueue};
pub(crate) use rows::damage;
pub use rows::{Change, ChangeKind};
pub use table::ChangeTable;

#[cfg(test)]
mod tests;
