//! The conformance suite of [`TableStore`](table_core::store::TableStore): what every backend and every
//! adapter must do, one function for each behaviour, one module for each operation.
//!
//! Give it a [`Backend`] and let [`conformance_tests!`] make a test of every behaviour:
//!
//! ```
//! use std::sync::Arc;
//! use conformance::{Backend, async_trait};
//! use table_core::memory::MemoryStore;
//! use table_core::store::TableStore;
//!
//! struct Memory;
//!
//! #[async_trait]
//! impl Backend for Memory {
//!     async fn store(&self) -> Arc<dyn TableStore> {
//!         Arc::new(MemoryStore::new())
//!     }
//! }
//!
//! conformance::conformance_tests!(Memory);
//! ```
//!
//! The store's own [`ServiceProfile`](table_core::store::ServiceProfile) says what is expected where
//! services differ: limits, order, case of table names. Where a backend is known to behave otherwise
//! than the documented service, it lists a [`Deviation`], and the suite says which assertion it left out.
//!
//! Work queues, patterns, transactions and encryption have suites of their own: [`queues`], [`patterns`],
//! [`eventual`], [`encryption`].

#![deny(dead_code)]

pub mod conformance;
pub mod encryption;
pub mod eventual;
pub mod patterns;
pub mod queues;
pub mod real_time;
mod suite;
mod trouble;
mod wrappers;

pub use async_trait::async_trait;
pub use azurite;

pub use crate::conformance::{Backend, DIFFICULT_KEYS, Deviation, Harness, Scale, TestTable};
