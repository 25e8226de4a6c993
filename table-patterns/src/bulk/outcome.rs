use table_core::model::{Key, TableName};
use table_core::store::{Error, Outcome, Result, Written};

/// Failures that a [`BulkSummary`] keeps.
const KEPT: usize = 100;

/// What became of one operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BulkOutcome {
    /// The table it was for.
    pub table: TableName,
    /// The entity it was for.
    pub key: Key,
    /// The number of the request that settled it, from 0; `None` if it was refused before any was sent. **Operations
    /// written by one request were written atomically; nothing else was.**
    pub request: Option<u64>,
    /// Its new version, or the error: its [`outcome`](Error::outcome) says whether it may have been
    /// applied all the same.
    pub result: Result<Written>,
}

/// What became of all operations.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BulkSummary {
    /// Operations applied.
    pub written: u64,
    /// Operations certainly not applied.
    pub failed: u64,
    /// Operations whose answer was lost: they may have been applied.
    pub ambiguous: u64,
    /// Requests sent to write, retries not counted.
    pub requests: u64,
    /// The first 100 operations that failed or are ambiguous.
    pub failures: Vec<BulkOutcome>,
}

impl BulkSummary {
    /// Counts one more.
    pub fn add(&mut self, outcome: BulkOutcome) {
        self.requests = self.requests.max(outcome.request.map_or(0, |request| request + 1));
        match outcome.result.as_ref().map_err(Error::outcome) {
            Ok(_) | Err(Outcome::Applied) => self.written += 1,
            Err(Outcome::NotApplied) => self.failed += 1,
            Err(Outcome::Ambiguous) => self.ambiguous += 1,
        }
        if outcome.result.is_err() && self.failures.len() < KEPT {
            self.failures.push(outcome);
        }
    }

    /// The number of operations applied, if all were.
    ///
    /// # Errors
    /// The first failure that was reported.
    pub fn into_result(self) -> Result<u64> {
        match self.failures.into_iter().next().map(|failure| failure.result) {
            Some(Err(error)) => Err(error),
            _ => Ok(self.written),
        }
    }
}
