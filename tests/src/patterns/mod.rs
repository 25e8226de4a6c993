//! The conformance suite of the patterns: one module for each pattern, one function for each behaviour. Pass a
//! [`Backend`](crate::Backend) to [`pattern_tests!`](crate::pattern_tests), which makes a test of each
//! behaviour.

mod bulk;
mod company;
mod compound;
mod costs;
mod counting_blobs;
mod declared_bulk;
mod declared_indexes;
mod declared_lookups;
mod declared_shapes;
mod declared_writes;
mod denormalization;
mod expiry;
mod expiry_claims;
mod expiry_index;
mod expiry_versions;
mod explain;
mod feed;
mod forms;
mod handles;
mod heterogeneous;
mod index_lists;
mod index_order;
mod index_reads;
mod index_scans;
mod index_shapes;
mod index_upkeep;
mod large;
#[doc(hidden)]
pub mod list;
mod log_blobs;
mod log_tail;
mod migrations;
mod models_by_key;
mod models_in_time;
mod pages;
mod planted;
mod readable;
mod refusals;
mod relationship;
mod series;
mod sets;
mod several_types;
mod split;
mod spread;
mod spread_moves;
mod streams;
mod summaries;
mod time_slice_recovery;
mod time_slices;
mod upkeep;
mod verbs;
mod wide;

pub use self::verbs::documented_verbs;
pub use crate::suite::{Behaviour, run, run_in_virtual_time};
