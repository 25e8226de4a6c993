//! What every pattern needs to write rows: long bytes, clocks, retries after conflicts, permission by the manifest, encryption rules,
//! upgrades.

pub(crate) mod binary;
pub mod clock;
pub(crate) mod encrypted;
pub(crate) mod errors;
pub(crate) mod plain;
pub(crate) mod readable;
#[cfg(test)]
mod tests;
pub(crate) mod upgrade;

/// The number of bytes of properties at which a window ends.
pub(crate) const WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// A new random id, of a write or a process.
pub(crate) fn fresh_id() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

/// The identity of a query of a table: the fingerprint of its continuation tokens.
#[cfg(feature = "paging")]
pub(crate) fn query_identity(
    profile: &table_core::store::ServiceProfile,
    table: &table_core::model::TableName,
    query: &table_core::query::Query,
) -> String {
    use table_core::query::{Continuation, Position};
    Continuation::new(profile, table, query, Position { first: String::new(), second: None }).to_string()
}
