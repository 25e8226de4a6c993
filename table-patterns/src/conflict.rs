//! Losing against other writers, and trying again.

use std::time::Duration;

use table_core::store::{Error, Outcome, Result};

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
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || !is_lost(&error) {
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
