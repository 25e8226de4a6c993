//! Trying again what is safe to try again.

mod attempts;
mod evidence;
mod job;
mod policy;
mod run;
mod store;
#[cfg(test)]
mod tests;
mod write_id;

pub use policy::{AbsentInsert, RetryPolicy};
pub use store::Retrying;
pub use write_id::WRITE_ID_PROPERTY;
