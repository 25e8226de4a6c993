//! The answers that writers received, compared with the commits.

use std::sync::{Arc, Mutex};

use table_core::store::{Outcome, Result};

use super::final_state::Verdict;
use super::scheduler::Scheduler;
use crate::patterns::journal::{Committed, Moved};

/// The answers that writers received, by the marks of their writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledgements(Arc<Mutex<Vec<Answer>>>);

/// The mark of a write, and the outcome of its error; `None` for a success.
type Answer = (String, Option<Outcome>);

impl Acknowledgements {
    pub(super) fn add(&self, scheduler: &Scheduler, mark: String, answer: &Result<Committed>) {
        scheduler.note(|| {
            format!(
                "{mark} is answered with {:?}",
                answer.as_ref().map(|c| c.entries)
            )
        });
        self.outcome(mark, answer.as_ref().err().map(|e| e.outcome()));
    }

    /// Adds an answer: the outcome of an error, or `None`.
    pub(super) fn outcome(&self, mark: String, outcome: Option<Outcome>) {
        self.0.lock().unwrap().push((mark, outcome));
    }

    pub(super) fn add_move(&self, scheduler: &Scheduler, mark: String, answer: &Result<Moved>) {
        scheduler.note(|| format!("{mark} is answered with {answer:?}"));
        let outcome = match answer {
            Ok(Moved::Done(_)) => None,
            Ok(_) => Some(Outcome::NotApplied),
            Err(error) => Some(error.outcome()),
        };
        self.0.lock().unwrap().push((mark, outcome));
    }

    /// Checks that no write with the answer *not applied* was committed, and that no error says *applied*.
    pub(super) fn check(&self, scheduler: &Scheduler) -> Verdict {
        for (mark, answer) in self.0.lock().unwrap().iter() {
            match answer {
                Some(Outcome::NotApplied) if scheduler.is_committed(mark) => {
                    return Err(format!(
                        "the write {mark} was committed, and its answer was *not applied*"
                    ));
                }
                Some(Outcome::Applied) => {
                    return Err(format!(
                        "the write {mark} was answered with an error whose outcome is *applied*"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
