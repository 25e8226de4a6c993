//! A durable, embedded [`TableStore`](table_core::store::TableStore) for one machine, in one
//! directory, without a server.
//!
//! ```
//! use table_core::model::{Entity, TableName};
//! use table_core::store::{Operation, TableStore};
//! use table_embedded::EmbeddedStore;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> table_core::Result<()> {
//! # let temporary = tempfile::tempdir().unwrap();
//! # let directory = temporary.path().join("store");
//! let store = EmbeddedStore::open(&directory).await?;
//! let table = TableName::new("Employees")?;
//! store.create_table(&table).await?;
//! let entity = Entity::new("Sales", "empid_000223")?.with("FirstName", "Ken");
//! store.write(&table, Operation::Insert(entity)).await?; // on disk when this returns
//! store.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//! - **Acknowledged means on disk**, unless [`Durability::Relaxed`] is asked for. A killed process or a
//!   lost power supply costs no acknowledged write and leaves no torn group.
//! - **One process at a time**: a second one is told so, and by which directory.
//! - **ETags are never used twice**, whatever is deleted, reopened, or done to the clock.
//! - **Damaged, truncated and foreign files, and those of another format, are errors**, and stay as they are, byte for byte.
//! - **No damaged page is read silently.** Every page that is read from the file is compared with a checksum that another page holds, up to the
//!   header, in files of any size. What does not match is an error of the operations that need it; the rest of the store goes on.
//!   [`verify`](EmbeddedStore::verify) reads all pages. Pages in the cache are not compared again: memory that fails is not found.
//! - **After a failed sync nothing is built on pages that may not be on the disk.** What was not synced is written once more from the
//!   system's cache and synced, before the file is relied upon: by this process, and by the next, to which a mark in the directory tells
//!   it. Until that succeeds nothing is written; reads go on as of the last acknowledged commit. Recovery then decides by
//!   checksums whether the commit that failed is in effect; its error was *ambiguous*.
//! - **A full disk is an error of its own**, [`StorageFull`](table_core::store::ErrorKind::StorageFull), and *not applied* unless
//!   the header of the commit had been written.
//!
//! # Speed
//! Writes of concurrent tasks share a sync to disk ([`GroupCommit`]). Point reads run in the task that
//! asks, scans on blocking threads ([`Reads`]). Dropping a table takes one small commit, whatever
//! its size; its space is reclaimed in the background, and given back by
//! [`compact`](EmbeddedStore::compact).
//!
//! While nothing can be written, the file is opened anew at growing intervals, up to a minute apart; writes in between are refused as *not
//! applied*. Opening after a crash looks at every page of a file of up to 512 MiB that was being written
//! ([`scan_up_to`](EmbeddedBuilder::scan_up_to)), and takes milliseconds for a larger one.
//!
//! # Format
//! Described in `docs/embedded-format.md` and versioned. The storage engine is
//! [redb](https://docs.rs/redb); the semantics are those of [`table_core::engine`].

mod backup;
mod catalog;
mod changes;
mod error;
mod file;
mod format;
mod guard;
mod options;
mod read;
mod readers;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use options::{Durability, EmbeddedBuilder, GroupCommit, Reads};
pub use store::EmbeddedStore;
pub use verify::{Damage, Verification};
