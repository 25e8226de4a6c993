//! The wide entities pattern: one logical entity in several rows.
//!
//! # Problem
//! An entity holds at most 252 properties and 1 MiB. A count per day of the year, or a form of four hundred fields,
//! does not fit.
//!
//! # Key layout
//! All rows are system rows of the entity's own partition, which typed tables do not show:
//!
//! | row | RowKey | properties |
//! |---|---|---|
//! | head | `~~w_` + RowKey + `~~000` | `WideRow`: the RowKey; `WideWrite`: the write's id; `WideRows`: number and write id of every other row |
//! | chunk | `~~w_` + RowKey + `~~001` … | `WideWrite`: the id of the write that made it; up to 247 properties, 1 MiB |
//!
//! A `~` of the RowKey is written `~7E`, so that no entity's rows lie among another's; a RowKey that would grow too
//! long is replaced by a hash (`~~wh_` …). Four properties and 8 KiB of every row are left for adapters.
//!
//! # Guarantees
//! - A write happens wholly or not at all: it is one group transaction, conditional on the head's version, so
//!   that no update is lost.
//! - A torn read is impossible to miss. A read of several pages can see rows of different writes; every row says
//!   which write made it, and the head lists what belongs together. What does not is read again, and after the last
//!   attempt is an error (precondition failed), never an answer.
//! - A property stays in its row while it fits: changing one writes its row and the head. An entity that shrinks
//!   leaves no rows behind.
//!
//! # Failure windows
//! None: every change is one request. After an ambiguous error read the entity to see which version it is in.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | get | 1; again where another writer was in between |
//! | insert; replace_stored, set, delete_stored | 1 |
//! | update, upsert, delete_if_exists | 2, again on conflict |
//! | move_to | 4, again on conflict |
//! | query of a partition | 1 per page of the store |
//!
//! # Limits, and when not to use it
//! One group transaction must be able to write the whole: 99 rows of properties, 4 MiB on the wire
//! ([`limits`](table_core::store::limits)). What is larger is refused: keep its large values in blobs, the large entities
//! pattern. One entity takes one writer at a time; a series whose slots are written by many is better off as a data
//! series, which needs no head. Filters on properties see chunks, not entities.

mod chunk;
mod entities;
mod query;
mod read;
mod rows;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub use entities::{Wide, WideEntities};
pub use query::WideQuery;
pub(crate) use rows::is_there;
pub use table::WideTable;
