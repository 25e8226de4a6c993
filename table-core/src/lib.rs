//! Typed entities in tables with PartitionKey and RowKey: the data model, queries, the semantics of the service, one
//! async trait for stores, and an in-memory store.
//!
//! ```
//! use table_core::prelude::*;
//!
//! #[derive(Debug, PartialEq, TableEntity)]
//! struct Employee {
//!     #[partition_key]
//!     department: String,
//!     #[row_key(format = "empid_{:06}")]
//!     id: u32,
//!     age: i32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> table_core::Result<()> {
//! let (store, table) = (MemoryStore::new(), TableName::new("Employees")?);
//! store.create_table(&table).await?;
//! let ken = Employee { department: "Sales".into(), id: 223, age: 41 };
//! store.write(&table, Operation::Insert(ken.to_entity()?)).await?;
//! let read = store.get_existing(&table, Employee::key("Sales", 223)?.key()).await?;
//! assert_eq!(Employee::from_entity(read)?, ken);
//! # Ok(())
//! # }
//! ```
//!
//! Programs write and read typed entities through `Database` and `Table` of `table-patterns`, with the indexes that the types declare.
//!
//! | module | content |
//! |---|---|
//! | [`typed`] | structs as entities: typed keys, fields, queries, and the derive macros, where every attribute is described |
//! | [`model`] | keys, values, entities, names, key encoding |
//! | [`query`] | filters, access paths, pages and continuations |
//! | [`store`] | the trait `TableStore`, operations, group transactions, errors, profiles of services |
//! | [`memory`] | the in-memory store |
//! | [`adapter`] | retry, meter, limit, scan guard, traces, faults, and a builder that stacks them |
//! | [`queue`] | the trait `WorkQueue` |
//! | [`limits`] | the limits of the services, with their sources |
//! | [`manifest`] | the manifest of a table: index definitions and layouts as data |
//! | [`engine`] | the semantics of the service, shared by the local stores |
//!
//! The feature `derive` adds the derive macros. It is on by default. The feature `opentelemetry` adds metrics
//! (`adapter::Telemetry`).

mod access_path;
pub mod adapter;
pub mod engine;
mod error;
pub mod limits;
pub mod manifest;
pub mod memory;
pub mod model;
mod operation;
pub mod prelude;
mod profile;
pub mod query;
pub mod queue;
pub mod store;
pub mod typed;

pub use store::{Error, Result};
#[doc(hidden)]
pub use typed::derived as __private;
