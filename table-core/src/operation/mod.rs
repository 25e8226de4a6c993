//! Writes: operations, entity group transactions, their sizes, and checks that refuse requests which the service
//! would refuse.

mod check;
mod group;
mod write;

pub(crate) use check::check_size;
pub use check::{check_group, check_operation, check_query, entity_size, property_size};
pub use group::GroupTransaction;
pub use write::{BulkOutcome, BulkSummary, Operation, OperationKind, Written};
