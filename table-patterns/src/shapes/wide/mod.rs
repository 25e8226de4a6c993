//! The wide entities pattern: one logical entity in several rows.
//!
//! # Problem
//! An entity has at most 252 properties and 1 MiB. A count per day of the year, or a form of four hundred fields, does not
//! fit.
//!
//! # Key layout
//! All rows are system rows in the entity's own partition. Typed tables do not return system rows.
//!
//! | row | RowKey | properties |
//! |---|---|---|
//! | head row | `~~w_` + RowKey + `~~000` | `WideRow`: the RowKey; `WideWrite`: the id of the last write; `WideRows`: number and write id of every chunk |
//! | chunk | `~~w_` + RowKey + `~~001` … | `WideWrite`: the id of the write that wrote the chunk; up to 247 properties, 1 MiB |
//!
//! A `~` in the RowKey is stored as `~7E`, so that the rows of two entities never mix. A RowKey that would become too long
//! is replaced by a hash (`~~wh_` …). Four properties and 8 KiB of every row are left for adapters.
//!
//! # Guarantees
//! - A write is atomic: it is one group transaction under the condition that the head row has the version that was read.
//!   No update is lost.
//! - A read never returns rows of different writes. A read of several pages can meet them; every chunk has the id of its
//!   write, and the head row lists the chunks with their ids. If they differ, the rows are read again, and after the last
//!   attempt the read fails with precondition failed.
//! - A property stays in its chunk while it fits: a change of one property writes its chunk and the head row. An entity
//!   that shrinks leaves no chunks behind.
//!
//! # Failure windows
//! None: every change is 1 request. After an ambiguous error, read the entity to see its version.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | get | 1; again after a concurrent write |
//! | insert; replace_stored, set, delete_stored | 1 |
//! | update, upsert, delete_if_exists | 2, and again after a conflict |
//! | move_to | 4, and again after a conflict |
//! | query of a partition | 1 per page of the store |
//!
//! # Limits, and when not to use it
//! One group transaction must be able to write the whole entity: 99 chunks and 4 MiB on the wire
//! ([`limits`](table_core::store::limits)). A larger entity is refused: keep its large values in blobs, with
//! [large entities](crate::large). One entity takes one writer at a time; for values that many writers change, use a
//! [data series](crate::series), which has no head row. Filters on properties would see chunks, not entities, so there are
//! none.

mod entities;
mod query;
mod reader;
mod rows;
mod set;
mod table;
#[cfg(test)]
mod tests;

pub use entities::{Wide, WideEntities};
pub use query::WideQuery;
pub(crate) use rows::{is_head_row, is_there, is_wide_row};
pub use table::WideTable;
