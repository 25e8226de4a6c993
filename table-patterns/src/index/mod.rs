//! Secondary indexes: entries derived from entities, kept in step with them.

mod build;
mod catalog;
mod definition;
mod entry;
mod indexed;
mod lookup;
mod scrub;
mod set;
mod state;
mod typed;

pub use build::{BuildProgress, IndexBuild};
pub use catalog::CatalogEntry;
pub(crate) use catalog::is_indexed;
pub use definition::{Index, Payload, Placement, Uniqueness};
pub use entry::{Entry, EntryDiff, Location, Maintainer};
pub use indexed::{IndexOptions, IndexedEntities};
pub use lookup::{IndexQuery, Trust};
pub use scrub::{ScrubCursor, ScrubMode, ScrubReport};
pub use state::IndexState;
pub use typed::IndexedTable;

#[cfg(test)]
mod tests;
