//! Declared indexes: what `#[index(…)]` says, and typed names for the entries to look up.

mod builder;
mod entries;
mod part_range;
mod schema;

pub use builder::EntriesBuilder;
pub use entries::{EntriesOf, IndexEntries, ManyEntries, OneEntry};
pub use part_range::PartRange;
pub use schema::IndexedEntity;
