use std::sync::Arc;

use table_core::store::Error;

use crate::error::{Failure, Lost};
use crate::file::WriteFailure;
use crate::guard::{Unwound, caught};

/// Why work on the file failed as a whole.
#[derive(Clone, Debug)]
pub(super) enum Failed {
    /// The engine refused before the commit: nothing was done.
    Before(Arc<redb::Error>),
    /// The engine refused during the commit: it may be done.
    Committing(Arc<redb::Error>),
    /// The disk failed.
    Writing(WriteFailure),
    /// A page cannot be read, before the commit: nothing was done, and the engine is as it was.
    Unreadable,
    /// The engine panicked: it may be done.
    Panicked,
    /// Nothing is written since an earlier failure.
    Refused { reason: String, disk_full: bool },
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
            Failure::DamagedPage => Self::Unreadable,
            other => Self::Refused { reason: other.to_string(), disk_full: false },
        }
    }

    pub(super) fn failure(&self, lost: Lost) -> Failure {
        match self {
            Self::Before(error) | Self::Committing(error) => Failure::Write(Arc::clone(error), lost),
            Self::Writing(failure) => Failure::Disk(Arc::clone(&failure.error), lost),
            Self::Unreadable => Failure::DamagedPage,
            Self::Panicked => Failure::Panicked(lost),
            Self::Refused { reason, disk_full } => {
                Failure::Refused { reason: reason.clone(), disk_full: *disk_full }
            }
        }
    }

    /// The error of each operation of the batch.
    pub(super) fn error(&self, lost: Lost) -> Error {
        let may_be_applied = match self {
            Self::Before(_) | Self::Unreadable | Self::Refused { .. } => false,
            Self::Writing(failure) => failure.may_be_applied,
            Self::Committing(_) | Self::Panicked => true,
        };
        if may_be_applied { self.failure(lost).ambiguous() } else { self.failure(lost).into() }
    }
}

/// Works on the file; a panic of the engine is a failure. After any failure but [`Failed::Unreadable`] nothing can be written
/// before the file was [opened anew](super::Writer::reopen).
pub(super) fn work<T>(work: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    caught(work).unwrap_or(Err(Failed::Panicked))
}

/// [`work`] before a commit: where a page cannot be read, nothing has happened.
pub(super) fn before_commit<T>(work: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    caught(work).unwrap_or_else(|unwound| match unwound {
        Unwound::Unreadable => Err(Failed::Unreadable),
        Unwound::Panicked => Err(Failed::Panicked),
    })
}
