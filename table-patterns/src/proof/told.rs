//! What writers were told, and what was so.

use std::sync::{Arc, Mutex};

use table_core::store::{Outcome, Result};

use super::rest::Verdict;
use super::stage::Stage;
use crate::journal::{Committed, Moved};

/// What writers were told, by the marks of their writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Arc<Mutex<Vec<Answer>>>);

/// The mark of a write, and the outcome of its error.
type Answer = (String, Option<Outcome>);

impl Told {
    pub(super) fn add(&self, stage: &Stage, mark: String, answer: &Result<Committed>) {
        stage.note(|| format!("{mark} is told {:?}", answer.as_ref().map(|c| c.entries)));
        self.outcome(mark, answer.as_ref().err().map(|e| e.outcome()));
    }

    /// The outcome of an error, if it was one.
    pub(super) fn outcome(&self, mark: String, outcome: Option<Outcome>) {
        self.0.lock().unwrap().push((mark, outcome));
    }

    pub(super) fn add_move(&self, stage: &Stage, mark: String, answer: &Result<Moved>) {
        stage.note(|| format!("{mark} is told {answer:?}"));
        let outcome = match answer {
            Ok(Moved::Done(_)) => None,
            Ok(_) => Some(Outcome::NotApplied),
            Err(error) => Some(error.outcome()),
        };
        self.0.lock().unwrap().push((mark, outcome));
    }

    /// What was said not to be written was not, and no error comes after a commit.
    pub(super) fn check(&self, stage: &Stage) -> Verdict {
        for (mark, told) in self.0.lock().unwrap().iter() {
            match told {
                Some(Outcome::NotApplied) if stage.is_committed(mark) => {
                    return Err(format!("{mark} was told that nothing was written"));
                }
                Some(Outcome::Applied) => {
                    return Err(format!("{mark} was told of an error after its commit"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
