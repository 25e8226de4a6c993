//! Typed entities over partition-key/row-key tables: the model, the queries, the semantics of the
//! service, one async storage trait, and an in-memory store with the whole of them.

pub mod adapter;
pub mod engine;
pub mod memory;
pub mod model;
pub mod prelude;
pub mod query;
pub mod queue;
pub mod store;
pub mod typed;

pub use store::{Error, Result};
#[doc(hidden)]
pub use typed::derived as __private;
