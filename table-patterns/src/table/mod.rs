//! [`Database`] and [`Table`]: typed entities, and everything that a program does with them.

mod database;
mod group;
mod handle;
mod indexes;
mod large;
mod lookup;
mod set;
mod stored;
mod summary;
mod write;

pub use self::database::Database;
pub use self::group::Group;
pub use self::handle::Table;
pub use self::lookup::{Found, Lookup};
pub use self::stored::StoredQuery;
pub use self::summary::SummaryOf;

#[cfg(test)]
mod tests;
