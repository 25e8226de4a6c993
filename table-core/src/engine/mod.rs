//! The service's semantics, once, for every local store: sizes and limits, conditions, merges,
//! scans. Pure: no clock, no I/O.

mod apply;
mod check;
mod list;
mod page_rows;
mod record;
mod rows;
mod scan;
mod size;
#[cfg(test)]
mod tests;

pub use apply::{Change, apply, apply_group, apply_to};
pub use check::{check_group, check_operation, check_query};
pub use list::list_page;
pub use record::{Record, RecordRef, Stamp};
pub use rows::Rows;
pub use scan::{Scan, ScanStep, SortableRange, read_entity};

pub(crate) use size::Tally;
pub use size::{entity_size, least_payload, property_size};
