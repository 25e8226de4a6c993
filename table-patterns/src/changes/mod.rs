//! A change feed: every write of an entity adds a row with the change, in the same transaction.
//!
//! # Problem
//! Other programs are to react to changes of entities: send a mail, update a search engine, fill a cache. A program that
//! writes an entity and then sends a message loses the message if it dies in between, and sends it in vain if the write
//! fails. A table service has no feed of its own.
//!
//! # Solution
//! `#[entity(feed)]` declares the feed of a type in the manifest of the table, as an index is declared. So every program that writes the
//! table records its changes, also one that does not know the feed.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> table_core::Result<()> {
//! use table_core::prelude::*;
//! use table_patterns::Database;
//! use table_patterns::changes::ChangeKind;
//! #[derive(Clone, Debug, PartialEq, TableEntity)]
//! #[entity(type = "Order", feed)]
//! struct Order { #[partition_key] customer: String, #[row_key] number: u32, paid: bool }
//!
//! let orders = Database::new(MemoryStore::new()).table::<Order>("Orders")?;
//! orders.insert(&Order { customer: "ann".into(), number: 1, paid: false }).await?;
//! let pay = |order: &mut Order| {
//!     order.paid = true;
//!     Ok(())
//! };
//! orders.update(Order::key("ann", 1u32)?, pay).await?; // 2 requests, as without the feed
//!
//! let changes = orders.changes().after(Order::partition("ann")?.partition_key(), 0).await?;
//! assert_eq!(changes.iter().map(|change| change.number).collect::<Vec<_>>(), [1, 2]);
//! assert_eq!(changes[1].kind, ChangeKind::Updated);
//! # Ok(())
//! # }
//! ```
//!
//! # Key layout
//!
//! | row | PartitionKey | RowKey | properties |
//! |---|---|---|---|
//! | counter | that of the entities | `~~changes` | `Next` (Int64): the number of the next change; `Feed` (Guid): an id of this feed of the partition |
//! | change | that of the entities | `~~changes~` + 19 digits of the number | `Kind`: `inserted`, `updated`, `soft_deleted`, `deleted` or `expired`; `Type`: the name of the entity's type; `Row`: the RowKey of the entity |
//! | cursor | `~~changes` | hash of consumer and partition | `Consumer`, `Partition`; `Done` (Int64): the last change that the consumer has handled; `Feed` (Guid): that of the counter |
//!
//! # Guarantees
//! - **A change exists exactly if its write took effect**: one entity group transaction writes the entity, the change and
//!   the counter.
//! - **In order.** The changes of a partition are numbered from 1 without gaps, in the order in which they took effect: the
//!   transaction depends on the counter's ETag. There is no order between partitions.
//! - **At least once.** A consumer gets every change of a partition in order, and continues at its cursor. After a crash, or
//!   if two processes run one consumer at once, it gets some changes again.
//! - **Of every writer** that obeys the manifest, from the moment on in which the feed is *readable*. Before that, consumers are refused.
//! - A change names its entity. The consumer reads the current state, which may already contain later changes.
//!
//! **Rows that other programs wrote are checked.** A counter, a change or a cursor with a number that the feed cannot have given is an
//! error that names the row. It stops its partition; the other partitions go on. A consumer delivers the changes before such a row.
//!
//! # Failure windows
//! None in writes. A consumer that dies between its handler and the save of its cursor gets those changes again.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | a write | that of a type with an index in the partition; 1 more if this process does not know the counter of the partition |
//! | a conflict with another writer of the partition | 2 more |
//! | [`Consumer::deliver`] | 1 for the manifest, at most every 30 seconds, 1 for the counter, 1 for the cursor, 2 per page of 1,000 changes, 1 per saved cursor; 1 more if the next change was trimmed |
//! | [`Consumer::run_once`] | a scan of the table for its partitions, and for each those of `deliver` without the counter |
//! | [`Changes::trim`] | 1 for the counter, 1 per consumer, 1 per 100 changes and 1 per 1,000 |
//!
//! # Limits, and when not to use it
//! Writers of one partition take turns, although they write different entities: at most one write of a partition takes
//! effect per round trip. The service's limit of 2,000 entities per second and partition counts three rows per write. Wide and spread types
//! cannot have a feed. `docs/changes.md` says how a feed is turned on for a table with entities, and which changes there are.

mod consumer;
mod cursor;

pub use consumer::{ChangeHandler, Changes, Consumer, Delivered, ToQueue};
pub(crate) use cursor::damage;
use table_core::typed::TableEntity;

pub use crate::entry::shared::feed::{Change, ChangeKind};
use crate::table::Table;

impl<T: TableEntity> Table<T> {
    /// The changes of the table's entities, of all types with a feed. No request.
    pub fn changes(&self) -> Changes {
        Changes::new(self.store().clone(), self.name().clone())
    }
}

#[cfg(test)]
mod tests;
