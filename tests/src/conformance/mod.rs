//! The behaviours of stores: one module for each operation or subject.

mod cancellation;
mod concurrency;
mod delete;
mod deviation;
mod errors;
mod etags;
mod filters;
mod get;
mod harness;
mod insert;
mod insert_or_merge;
mod insert_or_replace;
mod keys;
mod limits;
#[doc(hidden)]
pub mod list;
mod merge;
mod model;
mod paging;
mod query;
mod replace;
mod sample;
mod table;
mod tables;
mod transact;
mod types;

pub use crate::suite::{Behaviour, run, run_in_virtual_time};
pub use deviation::Deviation;
pub use harness::{Backend, Harness, Scale};
pub use sample::DIFFICULT_KEYS;
pub use table::TestTable;
pub(crate) use table::assert_same;
