//! Losing against other writers, and trying again; versions and keys in errors.

use std::time::Duration;

use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, ErrorKind, Outcome, Result};

/// Times that a read-modify-write is tried unless told otherwise.
pub(crate) const ATTEMPTS: u32 = 10;
/// The longest pause after the first conflict; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(8);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Counts lost races, and pauses after each for a random time.
#[derive(Debug)]
pub(crate) struct Conflicts {
    left: u32,
    pause: Duration,
}

impl Conflicts {
    pub(crate) const fn new(attempts: u32) -> Self {
        Self { left: attempts, pause: FIRST_PAUSE }
    }

    /// Waits if another writer was quicker and attempts are left; otherwise the error.
    pub(crate) async fn wait(&mut self, error: Error) -> Result<()> {
        if !is_lost(&error) {
            return Err(error);
        }
        self.again(error).await
    }

    /// Waits if attempts are left; otherwise the error of the last one, which was certainly not written.
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

/// Whether another writer was quicker: the row changed, came or went, and nothing was written.
pub(crate) fn is_lost(error: &Error) -> bool {
    error.outcome() == Outcome::NotApplied
        && (error.is_precondition_failed() || error.is_already_exists() || error.is_entity_not_found())
}

/// The version that a row was read in, which a write is bound to: "any" is never what an answer without one means.
pub(crate) fn version_of(row: &Entity) -> Result<IfMatch> {
    let etag = row.etag().cloned().map(IfMatch::Exactly);
    etag.ok_or_else(|| without_etag(row.key()))
}

/// The store gave a row without its version.
pub(crate) fn without_etag(key: &Key) -> Error {
    ErrorKind::Service(format!("{key} without an ETag")).into()
}

/// What happened to a row that stands for the entity `key`, told of that entity; the row's error is the source.
pub(crate) fn told_of(key: &Key, error: Error) -> Error {
    let of = |table: &String| (table.clone(), key.to_string());
    let kind = match error.root().kind() {
        ErrorKind::EntityAlreadyExists { table, .. } => {
            let (table, key) = of(table);
            ErrorKind::EntityAlreadyExists { table, key }
        }
        ErrorKind::EntityNotFound { table, .. } => {
            let (table, key) = of(table);
            ErrorKind::EntityNotFound { table, key }
        }
        ErrorKind::PreconditionFailed { table, .. } => {
            let (table, key) = of(table);
            ErrorKind::PreconditionFailed { table, key }
        }
        _ => return error,
    };
    let outcome = error.outcome();
    Error::new(kind).with_outcome(outcome).with_source(error)
}

#[cfg(test)]
mod tests;
