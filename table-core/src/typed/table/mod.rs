//! [`Table`]: a handle for a table with entities of one type.

mod group;
mod handle;
mod keys;
mod query;
mod read;
mod run;
mod update;
mod write;

pub use group::TableGroup;
pub use handle::Table;
pub use keys::{KeyOf, PartitionIn, RowBounds};
pub use query::TableQuery;
pub use read::Versioned;

#[cfg(test)]
mod tests;
