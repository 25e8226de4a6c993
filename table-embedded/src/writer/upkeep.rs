use std::fs::File;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::Database;

use super::reopen::{self, CommitFailure};
use super::{Unflushed, Writer};
use crate::disk::Access;
use crate::disk::bytes_to_compact;
use crate::error::{Failure, LostWrites};
use crate::guard::guarded;
use crate::verify::Pinned;

/// Logs a failure of work that no caller waits for.
fn log(done: Result<(), CommitFailure>) {
    if let Err(failed) = done {
        tracing::error!(failure = %failed.failure(LostWrites::default()), "background work failed");
    }
}

impl Writer {
    /// Does the work for times without requests.
    pub(super) fn idle(&mut self) {
        if self.ensure_writable().is_err() {
            return;
        }
        let reclaims =
            self.reclaiming.wait(&self.ledger.dropped, Instant::now()) == Some(Duration::ZERO);
        let done = if reclaims && !self.is_flush_overdue() {
            self.reclaim()
        } else {
            self.prepare_recovery()
        };
        log(done);
    }

    /// Does the work that cannot wait for a time without requests.
    pub(super) fn between_commits(&mut self) {
        if self.is_flush_overdue() {
            log(self.prepare_recovery());
        } else if self.is_reclaiming_due() {
            log(self.reclaim());
        }
    }

    /// Records the pages in use by a commit without changes, and makes unflushed writes durable. After a crash, the next start reads
    /// this record instead of scanning the file.
    pub(super) fn prepare_recovery(&mut self) -> Result<(), CommitFailure> {
        self.ensure_writable()?;
        let prepared = reopen::caught_work(|| {
            let database = self.database()?;
            let mut transaction =
                reopen::before_commit(|| database.begin_write().map_err(CommitFailure::before))?;
            transaction.set_quick_repair(true);
            self.commit_transaction(transaction)
        });
        match &prepared {
            Ok(()) => {
                (self.unflushed, self.recovery_prepared) = (None, true);
                self.reopening.succeeded();
            }
            Err(failed) => self.fail(failed),
        }
        prepared
    }

    /// Pins the last commit: it is on the disk, and its pages do not change. If `include_engine_tables`, also verifies the engine's own tables.
    pub(super) fn pin(&mut self, include_engine_tables: bool) -> Result<Pinned, Failure> {
        // A verification compares the pages on the disk with the header, so the last commit must be there; in relaxed mode it may not be.
        if self.config.access != Access::Read && !self.recovery_prepared {
            match self.prepare_recovery() {
                // A damaged page does not end the verification, which shall report it.
                Ok(()) | Err(CommitFailure::Unreadable) => {}
                Err(failed) => return Err(failed.failure(self.lost())),
            }
            // Readers switch to this commit, so its pages are the ones they pin.
            self.changes
                .publish_with(|| self.shared.publish(&self.ledger.catalog));
        }
        let snapshot = match self
            .shared
            .generation()
            .and_then(|generation| self.shared.snapshot_of(generation))
        {
            Ok(snapshot) => Some(snapshot),
            Err(Failure::DamagedPage | Failure::Read(_)) => None,
            Err(failure) => return Err(failure),
        };
        // Only to remove pages from the system's cache: without it, the verification reads through the cache.
        let file = File::open(self.directory.file()).ok();
        let pinned =
            guarded(|| Pinned::new(snapshot, self.session.clone(), file, include_engine_tables));
        pinned.unwrap_or(Err(Failure::DamagedPage))
    }

    fn check_free_space(&self) -> Result<(), Failure> {
        let path = self.directory.file();
        let needed =
            bytes_to_compact(&path).map_err(Failure::io("reading the metadata of", &path))?;
        let free = (self.config.file.free_space.0)(&path)
            .map_err(Failure::io("reading the free space of the disk of", &path))?;
        if free < needed {
            Err(Failure::NoRoom { needed, free })
        } else {
            Ok(())
        }
    }

    /// Removes all rows of dropped tables, then returns free space to the file system.
    pub(super) fn compact(&mut self) -> Result<(), Failure> {
        self.check_free_space()?;
        let compacted = self
            .compact_file()
            .map_err(|failed| failed.failure(self.lost()));
        match (&compacted, &self.database) {
            (Ok(()), Some(database)) => self
                .shared
                .resume(Arc::clone(database), self.ledger.catalog.clone()),
            // The failed compaction took the database away, so reads have no file until it is reopened.
            _ if self.shared.is_interrupted() => self.reopen(),
            _ => {}
        }
        compacted
    }

    fn compact_file(&mut self) -> Result<(), CommitFailure> {
        let started = Instant::now();
        while !self.ledger.dropped.is_empty() {
            self.reclaim()?;
        }
        self.prepare_recovery()?;
        self.shared.pause();
        let mut database = self.take_database().ok_or(CommitFailure::Panicked)?;
        self.session.set_reports_errors(true);
        let compacted = reopen::caught_work(|| {
            while database.compact().map_err(CommitFailure::before)? {}
            Ok(())
        });
        self.session.set_reports_errors(false);
        tracing::info!(elapsed = ?started.elapsed(), succeeded = compacted.is_ok(), "compacted");
        if let Err(failed) = &compacted {
            self.session.stop_writing();
            self.fail(failed);
            // Dropping it may panic again.
            guarded(|| drop(database));
        } else {
            self.database = Some(Arc::new(database));
        }
        self.recovery_prepared = false;
        compacted
    }

    /// Writes the data in memory and closes the file.
    pub(super) fn shut_down(&mut self) -> Result<(), CommitFailure> {
        let prepared = if self.recovery_prepared && !self.reopening.is_pending() {
            Ok(())
        } else {
            self.prepare_recovery()
        };
        self.shared.close();
        self.close_file();
        prepared
    }

    /// Returns the writes that a failure now would lose.
    pub(super) fn lost(&self) -> LostWrites {
        LostWrites(self.unflushed.map_or(0, |Unflushed { writes, .. }| writes))
    }

    /// Closes the file after the last reader has finished.
    pub(super) fn close_file(&mut self) {
        let database = self.take_database();
        // Dropping it may write and panic again.
        guarded(|| drop(database));
    }

    /// Waits for current readers and takes the database for exclusive use. The caller has [paused](crate::shared::Shared::pause) or closed
    /// the readers, so that no new one begins.
    fn take_database(&mut self) -> Option<Database> {
        let mut database = self.database.take()?;
        loop {
            match Arc::try_unwrap(database) {
                Ok(alone) => return Some(alone),
                Err(shared) => database = shared,
            }
            // By polling, because an `Arc` does not report its last drop. Readers hold it for one page, and a compaction or a reopening
            // takes longer than a millisecond in any case.
            sleep(Duration::from_millis(1));
        }
    }
}
