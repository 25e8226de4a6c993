//! The service's semantics, shared by all local stores: sizes, limits, conditions, merges, scans. Pure
//! functions: no clock, no I/O.

mod apply;
mod page_rows;
mod record;
mod rows;
mod scan;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use crate::operation::property_size;
pub use crate::operation::{check_group, check_operation, check_query, entity_size};
pub use apply::{Change, apply, apply_group, apply_to};
pub use record::{Record, RecordRef, Stamp};
pub use rows::Rows;
pub use scan::{Scan, ScanStep, SortableRange, list_page, read_entity};
