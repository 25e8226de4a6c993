//! The behaviours, a module for each operation or subject.

pub mod cancellation;
pub mod concurrency;
pub mod delete;
mod deviation;
pub mod errors;
pub mod etags;
pub mod filters;
pub mod get;
mod harness;
pub mod insert;
pub mod insert_or_merge;
pub mod insert_or_replace;
pub mod keys;
pub mod limits;
mod list;
pub mod merge;
pub mod model;
pub mod paging;
pub mod query;
pub mod replace;
mod sample;
mod table;
pub mod tables;
pub mod transact;
pub mod types;

pub use crate::suite::{run, run_in_virtual_time};
pub use deviation::Deviation;
pub use harness::{Backend, Harness, Scale};
pub use sample::DIFFICULT_KEYS;
pub use table::TestTable;
pub(crate) use table::assert_same;
