use std::sync::Arc;
use std::time::{Duration, Instant};

use table_core::store::Error;

use super::Writer;
use crate::error::{Failure, LostWrites};
use crate::file::{LockMode, Opened, WriteFailure};
use crate::guard::{Unwound, caught, guarded};

/// The first attempt to reopen the file is due at once. This is the pause before the second attempt; it doubles with each attempt …
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// … up to this limit.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// From the second attempt on, the pause is also at least this many times the duration of the last attempt, up to the same limit.
const PAUSE_PER_DURATION: u32 = 10;

/// The schedule of attempts to reopen the file after failures.
#[derive(Debug, Default)]
pub(super) struct Reopening {
    /// Number of failures since the last commit that reached the disk.
    failures: u32,
    /// Duration of the last attempt.
    took: Duration,
    /// Why the file cannot be written now, and when the next attempt is due.
    now: Option<Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    not_before: Instant,
    reason: String,
    disk_full: bool,
}

impl Reopening {
    pub(super) fn is_pending(&self) -> bool {
        self.now.is_some()
    }

    pub(super) fn failed(&mut self, failure: &Failure, now: Instant) {
        let pause = match self.failures {
            0 => Duration::ZERO,
            n => (FIRST_PAUSE * 2_u32.saturating_pow((n - 1).min(16)))
                .max(self.took * PAUSE_PER_DURATION),
        };
        self.failures += 1;
        let source = std::error::Error::source(failure);
        let reason = source.map_or_else(|| failure.to_string(), ToString::to_string);
        let not_before = now + pause.min(LONGEST_PAUSE);
        self.now = Some(Pending {
            not_before,
            reason,
            disk_full: failure.is_disk_full(),
        });
    }

    /// Records that a commit has reached the disk.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Returns the time until the next attempt; `None` if the file can be written.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.now
            .as_ref()
            .map(|pending| pending.not_before.saturating_duration_since(now))
    }

    fn refused(&self) -> Option<CommitFailure> {
        let Pending {
            reason, disk_full, ..
        } = self.now.clone()?;
        Some(CommitFailure::Refused { reason, disk_full })
    }
}

impl Writer {
    /// Returns an error if the file cannot be written. Reopens the file first if an attempt is due.
    pub(super) fn ensure_writable(&mut self) -> Result<(), CommitFailure> {
        if self.reopening.wait(Instant::now()) == Some(Duration::ZERO) {
            self.reopen();
        }
        self.reopening.refused().map_or(Ok(()), Err)
    }

    /// Records that the open file cannot be written. Reads continue.
    pub(super) fn fail(&mut self, failed: &CommitFailure) {
        if matches!(
            failed,
            CommitFailure::Unreadable | CommitFailure::Refused { .. }
        ) {
            return;
        }
        self.session.stop_writing();
        self.reopening
            .failed(&failed.failure(self.lost()), Instant::now());
    }

    /// Reopens the file after a failure, which recovers it. Until then, readers use the previously opened
    /// file, in the state before the failed commit.
    pub(super) fn reopen(&mut self) {
        let started = Instant::now();
        let opened = guarded(|| self.directory.open(&self.config.file, LockMode::Later));
        let opened = opened.unwrap_or(Err(Failure::NotOpen));
        self.reopening.took = started.elapsed();
        match opened {
            Ok(opened) => self.switch_to(opened),
            Err(failure) => {
                tracing::error!(%failure, "reopening the file after a failure failed");
                if self.database.is_none() {
                    self.shared.fail(&failure);
                }
                self.reopening.failed(&failure, Instant::now());
            }
        }
    }

    /// Closes the file that failed and serves from the newly opened file.
    fn switch_to(&mut self, opened: Opened) {
        if self.lost().0 > 0 {
            tracing::error!(
                writes = self.lost().0,
                "acknowledged writes that were not yet on disk may be lost"
            );
        }
        // Two sessions must never write one file. The new session keeps its changes in memory until `release`, and `close_file` waits for
        // the readers of the old session and ends it.
        self.shared.pause();
        self.close_file();
        let Opened {
            database,
            contents,
            session,
            scanned,
        } = opened;
        self.reopening.now = None;
        // Separate, because dropping a database during unwinding would abort the process.
        let released = guarded(|| session.release().and_then(|()| session.take_locks()));
        match released {
            Some(Ok(())) => tracing::warn!("reopened the file after a failure"),
            // The pending changes are in memory: the file can be read, and reopened once more.
            Some(Err(source)) => {
                session.stop_writing();
                let failure = Failure::io("recovering", self.directory.file())(source);
                self.reopening.failed(&failure, Instant::now());
            }
            None => {
                session.stop_writing();
                self.reopening.failed(&Failure::NotOpen, Instant::now());
            }
        }
        self.versions.reopened(contents.version_mark);
        (self.session, self.unflushed, self.recovery_prepared) = (session, None, !scanned);
        self.serve_from(database, contents);
    }
}

/// Why the work of a whole commit failed.
#[derive(Clone, Debug)]
pub(super) enum CommitFailure {
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

impl CommitFailure {
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
            other => Self::Refused {
                reason: other.to_string(),
                disk_full: false,
            },
        }
    }

    pub(super) fn failure(&self, lost: LostWrites) -> Failure {
        match self {
            Self::Before(error) | Self::Committing(error) => {
                Failure::Write(Arc::clone(error), lost)
            }
            Self::Writing(failure) => Failure::Disk(Arc::clone(&failure.error), lost),
            Self::Unreadable => Failure::DamagedPage,
            Self::Panicked => Failure::Panicked(lost),
            Self::Refused { reason, disk_full } => Failure::Refused {
                reason: reason.clone(),
                disk_full: *disk_full,
            },
        }
    }

    /// Returns the error for each operation of the batch.
    pub(super) fn error(&self, lost: LostWrites) -> Error {
        let may_be_applied = match self {
            Self::Before(_) | Self::Unreadable | Self::Refused { .. } => false,
            Self::Writing(failure) => failure.may_be_applied,
            Self::Committing(_) | Self::Panicked => true,
        };
        if may_be_applied {
            self.failure(lost).ambiguous()
        } else {
            self.failure(lost).into()
        }
    }
}

/// Does work on the file and converts a panic of the engine to a failure. After any failure but
/// [`CommitFailure::Unreadable`] and [`CommitFailure::Refused`], the file must be [reopened](super::Writer::reopen) before the next write.
pub(super) fn caught_work<T>(
    work: impl FnOnce() -> Result<T, CommitFailure>,
) -> Result<T, CommitFailure> {
    caught(work).unwrap_or(Err(CommitFailure::Panicked))
}

/// Like [`caught_work`], before a commit: an unreadable page then means that nothing was applied.
pub(super) fn before_commit<T>(
    work: impl FnOnce() -> Result<T, CommitFailure>,
) -> Result<T, CommitFailure> {
    caught(work).unwrap_or_else(|unwound| match unwound {
        Unwound::Unreadable => Err(CommitFailure::Unreadable),
        Unwound::Panicked => Err(CommitFailure::Panicked),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_attempts_grow_until_a_commit_succeeds() {
        let (mut reopening, now) = (Reopening::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            reopening.failed(&Failure::NotOpen, now);
            pauses.push(reopening.wait(now).unwrap().as_millis());
            reopening.now = None;
        }
        let expected = [
            0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000,
        ];
        assert_eq!(pauses, expected);
        reopening.succeeded();
        reopening.took = Duration::from_secs(2);
        reopening.failed(&Failure::NotOpen, now);
        assert_eq!(reopening.wait(now), Some(Duration::ZERO));
        reopening.failed(&Failure::NotOpen, now);
        assert_eq!(reopening.wait(now), Some(Duration::from_secs(20)));
    }
}
