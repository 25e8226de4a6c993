//! Typed tables with indexes, and the patterns of Microsoft's *Table design guide*, over any
//! [`TableStore`](table_core::store::TableStore).
//!
//! A [`Database`] is a store with what its tables share; it creates a [`Table`] for each entity type, which reads, writes and looks up
//! entities and maintains the indexes that types declare. Start there: `use table_patterns::prelude::*;`.
//!
//! Each module documents the problem, the key layout, the guarantees, the failure windows and the
//! cost in requests. `docs/cookbook.md` maps the guide's sections to them.
//!
//! # Features
//! Both are off unless asked for.
//!
//! | feature | adds |
//! |---|---|
//! | `blobs` | content in blobs: `large`, `log_blobs`, backups, `examination` (which reads them), lists of index entries in blobs, blobs in eventual transactions |
//! | `paging` | `paging`: pages for web clients |

// What only content in blobs needs stays in its file: without the feature it has no use.
#![cfg_attr(not(feature = "blobs"), allow(dead_code, unused_imports))]

mod blobs;
pub mod bulk;
pub mod changes;
mod consistency;
pub mod eventual;
#[cfg(feature = "blobs")]
pub mod examination;
mod large_values;
#[cfg(feature = "blobs")]
pub mod log_blobs;
#[cfg(feature = "paging")]
pub mod paging;
pub mod prelude;
mod rows;
mod shapes;
pub mod table;
#[cfg(test)]
mod tests;
pub mod upkeep;

use consistency::{entity_rows, entry};
pub use consistency::{index, journal, queue};
pub use rows::clock;
#[cfg(feature = "blobs")]
pub use shapes::large;
pub use shapes::{
    compound, heterogeneous, log_tail, relationship, series, spread, time_slices, wide,
};
pub use table::{Database, Group, Table};
