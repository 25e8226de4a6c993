//! [`PlainTable`]: a handle for a table with entities of one type.

mod expire;
mod group;
mod handle;
mod keys;
mod load;
mod query;
mod read;
mod readable;
mod run;
mod schema_diff;
mod serde_table;
mod set;
mod update;
mod upgrade;
mod write;

pub use group::PlainGroup;
pub use handle::PlainTable;
pub use keys::{KeyOf, PartitionIn, RowBounds};
pub use load::{LoadedRow, RowLoader};
pub use query::TableQuery;
pub use read::Versioned;
pub use schema_diff::{PropertyDiff, SchemaDiff};
pub use serde_table::SerdeTable;
pub(crate) use set::WritePath;
pub use set::{Decision, RowChange, SetWrite, SetWriter, changed};
pub use upgrade::{Upgrade, UpgradeCursor, UpgradePage, UpgradeReport, UpgradeRow, UpgradeRows};

#[cfg(test)]
mod tests;
