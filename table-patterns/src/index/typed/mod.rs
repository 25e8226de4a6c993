//! Declared indexes: [`IndexedTable`] and what it is used with.

mod bulk;
mod declared;
mod group;
mod lookup;
mod read;
mod table;
mod write;

pub use group::IndexedGroup;
pub use lookup::Lookup;
pub use table::IndexedTable;
