//! Shapes of stored data: how entities, series and logs are laid out in rows, partitions, tables and blobs.

pub mod compound;
pub mod heterogeneous;
#[cfg(feature = "blobs")]
pub mod large;
pub mod log_tail;
pub mod relationship;
pub mod series;
mod soft_delete;
pub mod spread;
pub mod time_slices;
pub mod wide;
