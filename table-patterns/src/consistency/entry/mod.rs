//! Index entries: how an entity becomes entries, and the rows that hold them. The [`journal`](crate::journal) writes entries and the
//! [`index`](crate::index) chooses them, so both use this module.
//!
//! | module | part |
//! |---|---|
//! | `definition` | [`Index`]: derives the entries of an entity from an index definition |
//! | `entry` | [`Entry`] and its row; `EntryDiff`: the changes between two states of an entity; [`Maintainer`]: the source of the entries |
//! | `row_properties` | the properties by which rows are distinguished |
//! | `shared` | rows that several entities share: lists, summaries, copies, and the counter of a feed |

mod definition;
#[expect(
    clippy::module_inception,
    reason = "the file is about the type of this name"
)]
mod entry;
pub(crate) mod row_properties;
pub(crate) mod shared;

pub use definition::{Index, Payload, Placement, Uniqueness};
pub(crate) use entry::{Derived, EntryDiff, is_entry_property};
pub use entry::{Entry, Location, Maintainer, Permission, Recorded};
pub use shared::Summary;
pub use table_core::manifest::{Overflow, Shape};
