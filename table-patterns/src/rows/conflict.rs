//! Repeating an update after a conflict with another writer; versions and keys in errors.

use std::time::Duration;

use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, ErrorKind, Outcome, Result};

/// The default number of attempts of a read-modify-write.
pub(crate) const ATTEMPTS: u32 = 10;
/// The longest pause after the first conflict. The bound doubles with each conflict.
const FIRST_PAUSE: Duration = Duration::from_millis(8);
/// The longest pause after any conflict.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Counts conflicts, and waits for a random time after each.
#[derive(Debug)]
pub(crate) struct Conflicts {
    left: u32,
    pause: Duration,
}

impl Conflicts {
    pub(crate) const fn new(attempts: u32) -> Self {
        Self { left: attempts, pause: FIRST_PAUSE }
    }

    /// Waits after a conflict if attempts are left; otherwise returns the error.
    pub(crate) async fn wait(&mut self, error: Error) -> Result<()> {
        if !is_lost(&error) {
            return Err(error);
        }
        self.again(error).await
    }

    /// Waits if attempts are left; otherwise returns the error of the last attempt, which was certainly not applied.
    pub(crate) async fn again(&mut self, error: Error) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Err(error);
        }
        tokio::time::sleep(self.pause.mul_f64(fastrand::f64())).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// Whether another writer has changed, inserted or deleted the row first, and nothing was written.
pub(crate) fn is_lost(error: &Error) -> bool {
    error.outcome() == Outcome::NotApplied
        && (error.is_precondition_failed() || error.is_already_exists() || error.is_entity_not_found())
}

/// The condition that a row has the version that was read. A row without an ETag is an error: a write with the condition
/// "any version" could overwrite changes of other writers.
pub(crate) fn version_of(row: &Entity) -> Result<IfMatch> {
    let etag = row.etag().cloned().map(IfMatch::Exactly);
    etag.ok_or_else(|| without_etag(row.key()))
}

/// The error for a row that the store returned without an ETag.
pub(crate) fn without_etag(key: &Key) -> Error {
    ErrorKind::Service(format!("the store returned {key} without an ETag")).into()
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

#[cfg(test)]
mod tests;
