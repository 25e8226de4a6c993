//! The service's semantics, shared by all local stores: sizes, limits, conditions, merges, scans. Pure
//! functions: no clock, no I/O.

mod apply;
mod rows;
mod scan;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use crate::operation::property_size;
pub use crate::operation::{check_group, check_operation, check_query, entity_size};
pub use apply::{Change, apply, apply_group, apply_to};
pub use rows::{Record, RecordRef, Rows, Stamp, list_page};
pub use scan::{Scan, ScanStep, SortableRange, read_entity};
