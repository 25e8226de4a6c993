use std::fs::File;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::Database;

use super::broken::{self, Failed};
use super::{Unflushed, Writer};
use crate::disk::Access;
use crate::disk::needed_to_compact;
use crate::error::{Failure, Lost};
use crate::guard::guarded;
use crate::verify::Pinned;

/// Logs a failure of work that no caller waits for.
fn log(done: Result<(), Failed>) {
    if let Err(failed) = done {
        tracing::error!(failure = %failed.failure(Lost::default()), "background work failed");
    }
}

impl Writer {
    /// Does the work for times without requests.
    pub(super) fn idle(&mut self) {
        if self.usable().is_err() {
            return;
        }
        let reclaims = self.reclaiming.wait(&self.ledger.dropped, Instant::now()) == Some(Duration::ZERO);
        let done = if reclaims && !self.is_flush_overdue() { self.reclaim() } else { self.settle() };
        log(done);
    }

    /// Does the work that cannot wait for a time without requests.
    pub(super) fn between_commits(&mut self) {
        if self.is_flush_overdue() {
            log(self.settle());
        } else if self.is_reclaiming_due() {
            log(self.reclaim());
        }
    }

    /// Prepares the file for fast recovery and makes unflushed writes durable. After a crash, the next start
    /// reads the allocation state of this commit instead of scanning the file.
    pub(super) fn settle(&mut self) -> Result<(), Failed> {
        self.usable()?;
        let settled = broken::work(|| {
            let database = self.database()?;
            let mut transaction = broken::before_commit(|| database.begin_write().map_err(Failed::before))?;
            transaction.set_quick_repair(true);
            self.end(transaction)
        });
        match &settled {
            Ok(()) => {
                (self.unflushed, self.settled) = (None, true);
                self.broken.succeeded();
            }
            Err(failed) => self.fail(failed),
        }
        settled
    }

    /// Pins the last commit: it is on the disk, and its pages do not change.
    pub(super) fn pin(&mut self, own: bool) -> Result<Pinned, Failure> {
        if self.config.access != Access::Read && !self.settled {
            match self.settle() {
                Ok(()) | Err(Failed::Unreadable) => {}
                Err(failed) => return Err(failed.failure(self.lost())),
            }
            // Readers switch to this commit, so its pages are the ones they pin.
            self.changes.published(|| self.shared.publish(&self.ledger.catalog));
        }
        let snapshot = match self.shared.generation().and_then(|now| self.shared.snapshot_of(now)) {
            Ok(snapshot) => Some(snapshot),
            Err(Failure::DamagedPage | Failure::Read(_)) => None,
            Err(failure) => return Err(failure),
        };
        let file = File::open(self.directory.file()).ok();
        let pinned = guarded(|| Pinned::new(snapshot, self.session.clone(), file, own));
        pinned.unwrap_or(Err(Failure::DamagedPage))
    }

    fn check_room(&self) -> Result<(), Failure> {
        let path = self.directory.file();
        let needed = needed_to_compact(&path).map_err(Failure::io("reading the metadata of", &path))?;
        let free = (self.config.file.free.0)(&path)
            .map_err(Failure::io("reading the free space of the disk of", &path))?;
        if free < needed { Err(Failure::NoRoom { needed, free }) } else { Ok(()) }
    }

    /// Removes all rows of dropped tables, then returns free space to the file system.
    pub(super) fn compact(&mut self) -> Result<(), Failure> {
        self.check_room()?;
        let compacted = self.compact_file().map_err(|failed| failed.failure(self.lost()));
        match (&compacted, &self.database) {
            (Ok(()), Some(database)) => self.shared.resume(Arc::clone(database), self.ledger.catalog.clone()),
            // The engine refuses reads too.
            _ if self.shared.is_interrupted() => self.reopen(),
            _ => {}
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
        let mut database = self.take_database().ok_or(Failed::Panicked)?;
        self.session.set_strict(true);
        let compacted = broken::work(|| {
            while database.compact().map_err(Failed::before)? {}
            Ok(())
        });
        self.session.set_strict(false);
        tracing::info!(elapsed = ?started.elapsed(), succeeded = compacted.is_ok(), "compacted");
        if let Err(failed) = &compacted {
            self.session.give_up();
            self.fail(failed);
            // Dropping it may panic again.
            guarded(|| drop(database));
        } else {
            self.database = Some(Arc::new(database));
        }
        self.settled = false;
        compacted
    }

    /// Writes the data in memory and closes the file.
    pub(super) fn shut_down(&mut self) -> Result<(), Failed> {
        let settled = if self.settled && !self.broken.is_broken() { Ok(()) } else { self.settle() };
        self.shared.close();
        self.close_file();
        settled
    }

    /// Returns the writes that a failure now would lose.
    pub(super) fn lost(&self) -> Lost {
        Lost(self.unflushed.map_or(0, |Unflushed { writes, .. }| writes))
    }

    /// Closes the file after the last reader has finished.
    pub(super) fn close_file(&mut self) {
        let database = self.take_database();
        // Dropping it may write and panic again.
        guarded(|| drop(database));
    }

    /// Waits for current readers and takes the database for exclusive use.
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
