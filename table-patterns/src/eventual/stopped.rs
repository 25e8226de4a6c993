use table_core::store::Error;

use super::step::Step;
use crate::work::is_of_the_storage;

/// Why a transaction is not finished yet.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) error: Error,
    /// Whether it counts towards poison: waiting does not mend it.
    pub(super) counts: bool,
}

impl Stopped {
    /// A handler says itself, by the kind of its error, whether it only has to wait.
    pub(super) fn at(step: &Step, error: Error) -> Self {
        match step {
            Step::Handle { .. } => Self { counts: !(error.is_transient() || error.is_ambiguous()), error },
            _ => error.into(),
        }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self { counts: !is_of_the_storage(&error), error }
    }
}
