//! Repeats requests that are safe to repeat.

mod attempts;
mod conclusion;
mod job;
mod policy;
mod run;
mod store;
#[cfg(test)]
mod tests;
mod write_id;

pub(in crate::adapter) use attempts::Attempts;
pub use policy::{AbsentInsert, RetryPolicy};
pub(in crate::adapter) use run::in_doubt;
pub use store::Retrying;
pub use write_id::WRITE_ID_PROPERTY;
