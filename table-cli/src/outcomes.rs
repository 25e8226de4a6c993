//! The outcomes of the rows of a long command.

use table_core::store::{Error, Outcome};

/// The rows that are named.
const NAMED: usize = 10;

/// The rows of a command by outcome.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Rows with which it was done.
    pub(crate) done: u64,
    /// Rows with which it was certainly not done.
    pub(crate) skipped: u64,
    /// Rows with which it was perhaps done: the answer was lost.
    pub(crate) ambiguous: u64,
    /// The first rows with which it was not certainly done, with the reasons.
    pub(crate) named: Vec<String>,
}

impl Outcomes {
    /// Counts a row with which it was not done.
    pub(crate) fn skip(&mut self, row: String) {
        self.skipped += 1;
        self.name(row);
    }

    /// Counts the outcome of an entity.
    pub(crate) fn add(&mut self, key: &str, error: Option<&Error>) {
        match error.map(|error| (error, error.outcome())) {
            // With the row it was done. A later step has failed, which upkeep repeats.
            None | Some((_, Outcome::Applied)) => self.done += 1,
            Some((error, Outcome::NotApplied)) => self.skip(format!("{key}: {error}")),
            Some((error, Outcome::Ambiguous)) => {
                self.ambiguous += 1;
                self.name(format!("{key}: perhaps done: {error}"));
            }
        }
    }

    /// Lists a row with its reason, if it is among the first.
    fn name(&mut self, row: String) {
        if self.named.len() < NAMED {
            self.named.push(row);
        }
    }
}
