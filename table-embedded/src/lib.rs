//! A durable, embedded [`TableStore`](table_core::store::TableStore) on one machine, in one directory,
//! without a server.
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
//! # Guarantees
//! - **An acknowledged write is on disk**, unless [`Durability::Relaxed`] is set. After a killed process or a
//!   power loss, no acknowledged write is missing and every group is complete or absent.
//! - **One process at a time.** A second process gets an error that names the directory.
//! - **ETags are never reused**, also after deletes, reopening and clock changes.
//! - **Damaged, truncated and foreign files, and files of another format, are errors.** Opening does not
//!   change them.
//! - **No damaged page is read silently.** Every page that is read from the file is compared with a checksum
//!   in another page, up to the header, in files of any size. A mismatch is an error of the operations that
//!   need the page; the rest of the store keeps working. [`verify`](EmbeddedStore::verify) reads all pages.
//!   Cached pages are not compared again, so memory errors are not detected.
//! - **After a failed sync, nothing relies on pages that may not be on the disk.** The store writes the
//!   unsynced pages again from the operating system's cache and syncs them before it relies on the file. A
//!   mark in the directory makes the next process do the same. Until that succeeds the store accepts no
//!   writes, and reads return the last acknowledged commit. Recovery then decides by checksums whether the
//!   failed commit took effect; its error was *ambiguous*.
//! - **A full disk has its own error**, [`StorageFull`](table_core::store::ErrorKind::StorageFull). The
//!   outcome is *not applied* unless the header of the commit had been written.
//!
//! # Speed
//! Writes of concurrent tasks share one sync ([`GroupCommit`]). Point reads run in the calling task, scans on
//! blocking threads ([`Reads`]). Dropping a table is one small commit, whatever its size. The space is
//! reclaimed in the background; [`compact`](EmbeddedStore::compact) returns it to the file system.
//!
//! After a failed write, the store reopens the file at growing intervals of up to a minute and refuses writes
//! in between as *not applied*. Opening after a crash scans a file of up to 512 MiB that was being written
//! ([`scan_up_to`](EmbeddedBuilder::scan_up_to)); a larger file recovers in milliseconds.
//!
//! # Format
//! `docs/embedded-format.md` describes the versioned format. The storage engine is
//! [redb](https://docs.rs/redb); [`table_core::engine`] defines the semantics.

mod backup;
mod catalog;
mod changes;
mod disk;
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
