use std::time::{Duration, Instant};

use super::Writer;
use super::failed::Failed;
use crate::error::Failure;
use crate::file::{LockMode, Opened};
use crate::guard::guarded;

/// Between a failure and the second attempt to open the file anew; then twice as long each time, …
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The disk is left alone for so many times the time that the last attempt took.
const SHARE_OF_PAUSE: u32 = 10;

/// When to open the file anew after failures.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// Failures since the last commit that reached the disk.
    failures: u32,
    /// How long the last attempt took.
    took: Duration,
    /// Why nothing can be written now, and when that is to be tried.
    now: Option<Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    not_before: Instant,
    reason: String,
    disk_full: bool,
}

impl Broken {
    pub(super) fn is_broken(&self) -> bool {
        self.now.is_some()
    }

    pub(super) fn failed(&mut self, failure: &Failure, now: Instant) {
        let pause = match self.failures {
            0 => Duration::ZERO,
            n => (FIRST_PAUSE * 2_u32.saturating_pow((n - 1).min(16))).max(self.took * SHARE_OF_PAUSE),
        };
        self.failures += 1;
        let source = std::error::Error::source(failure);
        let reason = source.map_or_else(|| failure.to_string(), ToString::to_string);
        let not_before = now + pause.min(LONGEST_PAUSE);
        self.now = Some(Pending { not_before, reason, disk_full: failure.is_disk_full() });
    }

    /// A commit has reached the disk.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// How long to wait for the next attempt; `None` if nothing is broken.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.now.as_ref().map(|pending| pending.not_before.saturating_duration_since(now))
    }

    fn refused(&self) -> Option<Failed> {
        let Pending { reason, disk_full, .. } = self.now.clone()?;
        Some(Failed::Refused { reason, disk_full })
    }
}

impl Writer {
    /// Whether the file can be written; opens it anew if it is time for that.
    pub(super) fn usable(&mut self) -> Result<(), Failed> {
        if self.broken.wait(Instant::now()) == Some(Duration::ZERO) {
            self.reopen();
        }
        self.broken.refused().map_or(Ok(()), Err)
    }

    /// Notes that the file cannot be written as it is open now. Readers go on.
    pub(super) fn fail(&mut self, failed: &Failed) {
        if matches!(failed, Failed::Unreadable | Failed::Refused { .. }) {
            return;
        }
        self.session.give_up();
        self.broken.failed(&failed.failure(self.lost()), Instant::now());
    }

    /// Opens the file anew, which recovers it, after a failure made it unusable. Readers read on what was open until then, as it
    /// was before the commit that failed.
    pub(super) fn reopen(&mut self) {
        let started = Instant::now();
        let opened = guarded(|| self.directory.open(&self.config.file, LockMode::Later));
        let opened = opened.unwrap_or(Err(Failure::NotOpen));
        self.broken.took = started.elapsed();
        match opened {
            Ok(opened) => self.go_over_to(opened),
            Err(failure) => {
                tracing::error!(%failure, "opening the file anew after a failure failed");
                if self.database.is_none() {
                    self.shared.fail(&failure);
                }
                self.broken.failed(&failure, Instant::now());
            }
        }
    }

    fn go_over_to(&mut self, opened: Opened) {
        if self.lost().0 > 0 {
            tracing::error!(
                writes = self.lost().0,
                "acknowledged writes that were not yet on disk may be lost"
            );
        }
        self.shared.pause();
        self.let_go();
        let Opened { database, contents, session, scanned } = opened;
        self.broken.now = None;
        // By itself: to let go of a database while something panics would end the process.
        let released = guarded(|| session.release().and_then(|()| session.take_locks()));
        match released {
            Some(Ok(())) => tracing::warn!("opened the file anew after a failure"),
            // What was to be written is held: it can be read, and opened anew once more.
            Some(Err(source)) => {
                session.give_up();
                let failure = Failure::io("recovering", self.directory.file())(source);
                self.broken.failed(&failure, Instant::now());
            }
            None => {
                session.give_up();
                self.broken.failed(&Failure::NotOpen, Instant::now());
            }
        }
        self.versions.reopened(contents.version_mark);
        (self.session, self.unflushed, self.settled) = (session, None, !scanned);
        self.serve_from(database, contents);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_get_rarer_until_a_commit_reaches_the_disk() {
        let (mut broken, now) = (Broken::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            broken.failed(&Failure::NotOpen, now);
            pauses.push(broken.wait(now).unwrap().as_millis());
            broken.now = None;
        }
        let expected = [0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000];
        assert_eq!(pauses, expected);
        broken.succeeded();
        broken.took = Duration::from_secs(2);
        broken.failed(&Failure::NotOpen, now);
        assert_eq!(broken.wait(now), Some(Duration::ZERO));
        broken.failed(&Failure::NotOpen, now);
        assert_eq!(broken.wait(now), Some(Duration::from_secs(20)));
    }
}
