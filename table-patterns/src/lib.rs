//! The patterns of Microsoft's *Table design guide*, over any
//! [`TableStore`](table_core::store::TableStore).
//!
//! Each module documents the problem, the key layout, the guarantees, the failure windows and the
//! cost in requests. `docs/cookbook.md` maps the guide's sections to them.

mod blob;
pub mod bulk;
pub mod clock;
pub mod compound;
mod conflict;
mod encrypted;
mod entity_writer;
pub mod eventual;
pub mod heterogeneous;
pub mod index;
pub mod journal;
pub mod large;
pub mod log_blobs;
pub mod log_tail;
mod plain;
pub mod queue;
pub mod relationship;
pub mod series;
pub mod spread;
pub mod time_slices;
mod took_effect;
mod upgrade;
pub mod upkeep;
pub mod wide;
mod work;

#[cfg(test)]
mod proof;
