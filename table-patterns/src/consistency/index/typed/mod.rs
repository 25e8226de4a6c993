//! Typed tables with declared indexes: [`IndexedTable`], its lookups and groups.

mod bulk;
mod declared;
mod found;
mod group;
mod lookup;
mod read;
mod stored;
mod table;
mod upgrade;
mod write;

pub use found::Found;
pub use group::{GroupOf, IndexedGroup};
pub use lookup::Lookup;
pub use stored::StoredQuery;
pub use table::IndexedTable;
pub(crate) use table::{all_indexes, open_entities};
