use std::sync::Arc;

use table_core::store::Error;

use crate::error::{Failure, Lost};
use crate::file::WriteFailure;
use crate::guard::{Unwound, caught};

/// Why the work of a whole commit failed.
#[derive(Clone, Debug)]
pub(super) enum Failed {
    /// The engine refused before the commit: not applied.
    Before(Arc<redb::Error>),
    /// The engine refused during the commit: ambiguous.
    Committing(Arc<redb::Error>),
    /// The disk failed.
    Writing(WriteFailure),
    /// A page could not be read before the commit: not applied, and the engine's state is unchanged.
    Unreadable,
    /// The engine panicked: ambiguous.
    Panicked,
    /// Writes are refused since an earlier failure.
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

    /// Returns the error for each operation of the batch.
    pub(super) fn error(&self, lost: Lost) -> Error {
        let may_be_applied = match self {
            Self::Before(_) | Self::Unreadable | Self::Refused { .. } => false,
            Self::Writing(failure) => failure.may_be_applied,
            Self::Committing(_) | Self::Panicked => true,
        };
        if may_be_applied { self.failure(lost).ambiguous() } else { self.failure(lost).into() }
    }
}

/// Works on the file and converts a panic of the engine to a failure. After any failure but
/// [`Failed::Unreadable`], the file must be [reopened](super::Writer::reopen) before the next write.
pub(super) fn work<T>(work: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    caught(work).unwrap_or(Err(Failed::Panicked))
}

/// Like [`work`], before a commit: an unreadable page then means that nothing was applied.
pub(super) fn before_commit<T>(work: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    caught(work).unwrap_or_else(|unwound| match unwound {
        Unwound::Unreadable => Err(Failed::Unreadable),
        Unwound::Panicked => Err(Failed::Panicked),
    })
}
