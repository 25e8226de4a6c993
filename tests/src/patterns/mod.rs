//! The conformance suite of the patterns: what each must do on every store, a module for each pattern and a
//! function for each behaviour. Give [`pattern_tests!`](crate::pattern_tests) a
//! [`Backend`](crate::Backend), and it makes a test of each.

mod before;
mod bent;
pub mod bulk;
pub mod bulk_crashes;
mod company;
pub mod compound;
pub mod costs;
mod counted;
mod crowd;
pub mod declared_bulk;
pub mod declared_indexes;
pub mod declared_lookups;
pub mod declared_merges;
pub mod declared_shapes;
pub mod declared_stored;
pub mod denormalization;
mod handles;
pub mod heterogeneous;
pub mod index_crashes;
pub mod index_lists;
pub mod index_order;
pub mod index_reads;
pub mod index_scans;
pub mod index_shapes;
pub mod index_upkeep;
pub mod large;
pub mod large_crashes;
mod list;
pub mod log_blobs;
pub mod log_tail;
pub mod models_by_key;
pub mod models_in_time;
pub mod queue_crashes;
pub mod relationship;
pub mod series;
pub mod series_values;
pub mod several_types;
pub mod spread;
pub mod spread_moves;
pub mod streams;
pub mod time_slice_trouble;
pub mod time_slices;
pub mod upkeep;
pub mod verbs;
pub mod wide;
pub mod wide_structs;

pub use crate::suite::{run, run_in_virtual_time};
