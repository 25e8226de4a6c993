//! Typed tables with declared indexes: [`IndexedTable`], its lookups and groups.

mod group;
mod lookup;
pub(crate) mod set;

mod stored;
mod summary;
mod table;
mod write;

pub use group::{GroupOf, IndexedGroup};
pub use lookup::{Found, Lookup};
pub use stored::StoredQuery;
pub use summary::SummaryOf;
pub use table::IndexedTable;
pub(crate) use table::{all_indexes, open_entities};
