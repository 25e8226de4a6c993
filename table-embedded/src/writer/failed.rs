use std::sync::Arc;

use table_core::store::Error;

use crate::error::{Failure, Lost};
use crate::guard::guarded;

/// Why work on the file failed as a whole.
#[derive(Debug)]
pub(super) enum Failed {
    /// Before the commit: nothing was done.
    Before(Arc<redb::Error>),
    /// During the commit: it may be done.
    Committing(Arc<redb::Error>),
    /// The engine panicked: it may be done.
    Panicked,
    /// The file is not open.
    NotOpen,
}

impl Failed {
    pub(super) fn before(error: impl Into<redb::Error>) -> Self {
        Self::Before(Arc::new(error.into()))
    }

    pub(super) fn committing(error: impl Into<redb::Error>) -> Self {
        Self::Committing(Arc::new(error.into()))
    }

    pub(super) fn reading(failure: Failure) -> Self {
        match failure {
            Failure::Read(error) => Self::before(error),
            Failure::DamagedPage => Self::Panicked,
            _ => Self::NotOpen,
        }
    }

    pub(super) fn failure(&self, lost: Lost) -> Failure {
        match self {
            Self::Before(error) | Self::Committing(error) => Failure::Write(Arc::clone(error), lost),
            Self::Panicked => Failure::Panicked(lost),
            Self::NotOpen => Failure::NotOpen,
        }
    }

    /// The error of each operation of the batch.
    pub(super) fn error(&self, lost: Lost) -> Error {
        match self {
            Self::Before(_) | Self::NotOpen => self.failure(lost).into(),
            Self::Committing(_) | Self::Panicked => self.failure(lost).ambiguous(),
        }
    }
}

/// Works on the file; a panic of the engine is a failure. After any failure the file must be
/// [reopened](super::Writer::reopen).
pub(super) fn work<T>(work: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    guarded(work).unwrap_or(Err(Failed::Panicked))
}
