use table_core::store::Error;

use super::step::Step;
use crate::consistency::work::is_of_the_storage;

/// Why a transaction is not finished yet.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) error: Error,
    /// Whether it counts towards poison: waiting does not mend it.
    pub(super) counts: bool,
    /// What the head says of it then; nothing where it is no failure of a step.
    pub(super) recorded: Option<Recorded>,
}

/// A failure of a step that the head tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It is tried again; it has failed so often.
    Failed(u32),
    /// It is not tried again.
    Poisoned,
}

impl Stopped {
    /// A handler says itself, by the kind of its error, whether it only has to wait.
    pub(super) fn at(step: &Step, error: Error) -> Self {
        match step {
            Step::Handle { .. } => {
                Self { counts: !(error.is_transient() || error.is_ambiguous()), error, recorded: None }
            }
            _ => error.into(),
        }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self { counts: !is_of_the_storage(&error), error, recorded: None }
    }
}
