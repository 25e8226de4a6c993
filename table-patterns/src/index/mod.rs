//! Secondary indexes: entries derived from entities, kept in step with them.

mod entry;

pub use entry::{Entry, EntryDiff, Location, Maintainer};
