//! Maintenance of indexes: builds, scrubs and drops, and the view of a table that upkeep needs.

pub(crate) mod build;
mod build_groups;
mod build_shared;
pub(crate) mod drop;
pub(crate) mod scrub;
mod scrub_shared;
mod scrub_summaries;
pub(crate) mod upkeep;
