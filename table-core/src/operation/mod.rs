//! Writes: operations, entity group transactions, their sizes, and checks that refuse requests which the service
//! would refuse.

mod check;
mod group;
mod size;
mod write;

pub(crate) use check::check_size;
pub use check::{check_group, check_operation, check_query};
pub use group::GroupTransaction;
pub use size::{entity_size, least_payload, property_size};
pub use write::{Operation, OperationKind, Written};
