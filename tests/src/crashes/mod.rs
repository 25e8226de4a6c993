//! The conformance suite of crashes: at each request of a path the process ends, or the request or its answer is lost. Pass a
//! [`Backend`](crate::Backend) to [`crash_tests!`](crate::crash_tests), which makes a test of each behaviour. It
//! takes longer than the other suites.

mod bulk;
mod index;
mod large;
#[doc(hidden)]
pub mod list;
mod queue;

pub use crate::suite::{Behaviour, run, run_in_virtual_time};
