//! What patterns make of the errors of rows.

use table_core::model::Key;
use table_core::store::{Error, ErrorKind, Outcome, Result};

/// Treats an unreadable answer of a write that was applied as a success, with a default value in place of the answer.
///
/// The rows are stored; only their new ETags are unknown.
pub(crate) fn took_effect<T: Default>(answer: Result<T>) -> Result<T> {
    answer.or_else(|error| match error.outcome() {
        Outcome::Applied => {
            tracing::debug!(%error, "the answer to a request that took effect cannot be read");
            Ok(T::default())
        }
        Outcome::NotApplied | Outcome::Ambiguous => Err(error),
    })
}

/// Whether another writer has changed or deleted the row first, and nothing was written: the row must be read again.
pub(crate) fn changed(error: &Error) -> bool {
    !error.is_ambiguous() && (error.is_precondition_failed() || error.is_entity_not_found())
}

/// The error of one row of an entity, with the entity's key in place of the row's. The row's error is the source.
pub(crate) fn with_entity_key(key: &Key, error: Error) -> Error {
    let entity = |table: &String| (table.clone(), key.to_string());
    let kind = match error.root().kind() {
        ErrorKind::EntityAlreadyExists { table, .. } => {
            let (table, key) = entity(table);
            ErrorKind::EntityAlreadyExists { table, key }
        }
        ErrorKind::EntityNotFound { table, .. } => {
            let (table, key) = entity(table);
            ErrorKind::EntityNotFound { table, key }
        }
        ErrorKind::PreconditionFailed { table, .. } => {
            let (table, key) = entity(table);
            ErrorKind::PreconditionFailed { table, key }
        }
        _ => return error,
    };
    let outcome = error.outcome();
    Error::new(kind).with_outcome(outcome).with_source(error)
}
