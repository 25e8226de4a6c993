use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::Database;

use super::batch::Ledger;
use super::failed::{self, Failed};
use super::{Unflushed, Writer};
use crate::error::{Failure, Lost};
use crate::guard::guarded;
use crate::options::Access;

impl Writer {
    /// What is to be done while nobody asks for anything.
    pub(super) fn idle(&mut self) {
        if self.database.is_none() {
            return self.reopen();
        }
        let reclaims = self.reclaiming.wait(&self.ledger.dropped, Instant::now()) == Some(Duration::ZERO);
        let done = if reclaims && !self.is_flush_overdue() { self.reclaim() } else { self.settle() };
        self.go_on(done);
    }

    /// What does not wait until nobody asks for anything.
    pub(super) fn between_commits(&mut self) {
        if self.is_flush_overdue() {
            let done = self.settle();
            self.go_on(done);
        } else if self.is_reclaiming_due() {
            let done = self.reclaim();
            self.go_on(done);
        }
    }

    /// Opens the file anew if it cannot be written any more: after one failure the engine refuses all that comes later,
    /// reads included.
    pub(super) fn check(&mut self) {
        if self.config.access == Access::Read {
            return self.reopen();
        }
        let done = self.settle();
        self.go_on(done);
    }

    fn go_on(&mut self, done: Result<(), Failed>) {
        if let Err(failed) = done {
            tracing::error!(failure = %failed.failure(self.lost()), "work between requests failed");
            self.reopen();
        }
    }

    /// Makes the file quick to recover, and what is unflushed durable: after a crash, the next start reads
    /// the allocation state of this commit instead of scanning the file.
    pub(super) fn settle(&mut self) -> Result<(), Failed> {
        let Some(database) = self.database.clone() else { return Ok(()) };
        failed::work(|| {
            let mut transaction = database.begin_write().map_err(Failed::before)?;
            transaction.set_quick_repair(true);
            transaction.commit().map_err(Failed::committing)
        })?;
        self.unflushed = None;
        self.settled = true;
        Ok(())
    }

    /// Removes all rows of dropped tables, then gives free space back.
    pub(super) fn compact(&mut self) -> Result<(), Failure> {
        let compacted = self.compact_file().map_err(|failed| failed.failure(self.lost()));
        match (&compacted, &self.database) {
            (Ok(()), Some(database)) => self.shared.resume(Arc::clone(database), self.ledger.catalog.clone()),
            _ => self.reopen(),
        }
        compacted
    }

    fn compact_file(&mut self) -> Result<(), Failed> {
        let started = Instant::now();
        while !self.ledger.dropped.is_empty() {
            self.reclaim()?;
        }
        self.settle()?;
        self.shared.pause();
        let mut database = self.take_database().ok_or(Failed::NotOpen)?;
        let compacted = failed::work(|| {
            while database.compact().map_err(Failed::before)? {}
            Ok(())
        });
        // Also after a failure: reopening lets go of it with care.
        self.database = Some(Arc::new(database));
        self.settled = false;
        tracing::info!(elapsed = ?started.elapsed(), succeeded = compacted.is_ok(), "compacted");
        compacted
    }

    /// Opens the file anew, which recovers it, after a failure made it unusable.
    pub(super) fn reopen(&mut self) {
        self.shared.pause();
        if self.lost().0 > 0 {
            tracing::error!(
                writes = self.lost().0,
                "acknowledged writes that were not yet on disk may be lost"
            );
        }
        self.let_go();
        match guarded(|| self.directory.open(&self.config.file)).unwrap_or(Err(Failure::NotOpen)) {
            Ok((database, contents)) => {
                tracing::warn!("reopened after a failure");
                let database = Arc::new(database);
                self.versions.reopened(contents.version_mark);
                self.ledger = Ledger::from(contents);
                self.shared.resume(Arc::clone(&database), self.ledger.catalog.clone());
                self.database = Some(database);
            }
            Err(failure) => {
                tracing::error!(%failure, "reopening after a failure failed");
                self.shared.fail(&failure);
            }
        }
        (self.unflushed, self.settled) = (None, true);
    }

    /// Writes what is still in memory and lets go of the file.
    pub(super) fn shut_down(&mut self) -> Result<(), Failed> {
        let settled = if self.settled { Ok(()) } else { self.settle() };
        self.shared.close();
        self.let_go();
        settled
    }

    /// What a failure now takes along.
    pub(super) fn lost(&self) -> Lost {
        Lost(self.unflushed.map_or(0, |Unflushed { writes, .. }| writes))
    }

    /// Closes the file once the readers are out.
    fn let_go(&mut self) {
        let database = self.take_database();
        // It may write for a last time, and panic as it did before.
        guarded(|| drop(database));
    }

    /// The database for this thread alone: waits for the readers that are inside.
    fn take_database(&mut self) -> Option<Database> {
        let mut database = self.database.take()?;
        loop {
            match Arc::try_unwrap(database) {
                Ok(alone) => return Some(alone),
                Err(shared) => database = shared,
            }
            sleep(Duration::from_millis(1));
        }
    }
}
