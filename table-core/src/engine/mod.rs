//! The service's semantics, once, for every local store: sizes and limits, conditions, merges,
//! scans. Pure: no clock, no I/O.

mod apply;
mod check;
mod list;
mod record;
mod scan;
mod size;

pub use apply::{Change, apply, apply_group};
pub use check::{check_group, check_operation, check_query};
pub use list::list_page;
pub use record::{Record, Stamp};
pub(crate) use scan::project;
pub use scan::{Scan, ScanStep};
pub use size::{entity_size, least_payload};
