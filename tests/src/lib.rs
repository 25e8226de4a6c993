//! The conformance suite of [`TableStore`](table_core::store::TableStore), which every backend and every adapter
//! must pass. There is one function for each behaviour and one module for each operation.
//!
//! Implement [`Backend`], and [`conformance_tests!`] makes a test of every behaviour:
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
//! The [`ServiceProfile`](table_core::store::ServiceProfile) of the store sets the expectations where services
//! differ: limits, order, case of table names. A backend with a known difference from the documented service lists a
//! [`Deviation`]. The suite then reports the assertion that it leaves out.
//!
//! Work queues, patterns, eventual transactions, encryption and crashes have suites of their own: [`queues`], [`patterns`],
//! [`eventual`], [`encryption`], [`crashes`].

#![deny(dead_code)]

mod clock;
pub mod conformance;
pub mod crashes;
pub mod encryption;
pub mod eventual;
mod fault_runs;
#[allow(dead_code, reason = "other packages use it too")]
#[path = "../support/faulty_blobs.rs"]
mod faulty_blobs;
mod opening;
pub mod patterns;
pub mod queues;
pub mod real_time;
mod suite;
mod wrappers;

pub use async_trait::async_trait;
pub use azurite;

pub use crate::clock::Clock;
pub use crate::conformance::{Backend, DIFFICULT_KEYS, Deviation, Harness, Scale, TestTable};
pub use crate::opening::{open_table, open_table_with};
pub use crate::wrappers::SmallPageStore;
