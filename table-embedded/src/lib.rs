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
//!
//! # Speed
//! Writes of concurrent tasks share a sync to disk ([`GroupCommit`]). Point reads run in the task that
//! asks, scans on blocking threads ([`Reads`]). Dropping a table takes one small commit, whatever
//! its size; its space is reclaimed in the background, and given back by
//! [`compact`](EmbeddedStore::compact).
//!
//! # Format
//! Described in `docs/embedded-format.md` and versioned. The storage engine is
//! [redb](https://docs.rs/redb); the semantics are those of [`table_core::engine`].

mod backup;
mod catalog;
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
mod writer;

pub use options::{Durability, EmbeddedBuilder, GroupCommit, Reads};
pub use store::EmbeddedStore;
