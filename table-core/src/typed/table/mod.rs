//! [`Table`]: a table of a store, read and written as a type.

mod claim;
mod conditions;
mod group;
mod handle;
mod merge;
mod moves;
mod query;
mod read;
mod row_bounds;
mod run;
mod steps;
mod update;
mod upgrade;
mod versioned;
mod write;

pub use claim::{KeyOf, PartitionIn};
pub use group::TableGroup;
pub use handle::Table;
pub use query::TableQuery;
pub use row_bounds::RowBounds;
use update::Conflicts;
pub use versioned::Versioned;

#[cfg(test)]
mod tests;
