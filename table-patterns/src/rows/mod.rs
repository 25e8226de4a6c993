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

use table_core::model::Entity;
use table_core::store::{Outcome, Result, Written};
use table_core::typed::FromEntity;

/// The number of bytes of properties at which a window ends.
pub(crate) const WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// The value of an entity that was written. An error says that the write took effect.
pub(crate) fn written_value<T: FromEntity>(entity: Entity, written: Written) -> Result<T> {
    T::from_entity(entity.with_system(written.etag, None))
        .map_err(|error| error.with_outcome(Outcome::Applied))
}

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
