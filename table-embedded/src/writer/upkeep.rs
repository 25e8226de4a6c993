use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::Database;

use super::Writer;
use super::batch::Ledger;
use crate::error::Failure;

/// Rows of dropped tables that one commit removes while there is nothing else to do: about a
/// millisecond, for which a write may have to wait.
const ROWS_ALONE: usize = 4096;

impl Writer {
    /// What is to be done between requests.
    pub(super) fn idle(&mut self) {
        let done = if self.database.is_none() {
            self.reopen();
            return;
        } else if self.ledger.dropped.is_empty() {
            self.settle()
        } else {
            self.reclaim(ROWS_ALONE).map_err(|failed| failed.failure())
        };
        if let Err(failure) = done {
            tracing::error!(%failure, "work between requests failed");
            self.reopen();
        }
    }

    /// Makes the file quick to recover, and what is unflushed durable: after a crash, the next start reads
    /// the allocation state of this commit instead of scanning the file.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        let Some(database) = &self.database else { return Ok(()) };
        let mut transaction = database.begin_write().map_err(Failure::write)?;
        transaction.set_quick_repair(true);
        transaction.commit().map_err(Failure::write)?;
        self.unflushed = None;
        self.settled = true;
        Ok(())
    }

    /// Removes all rows of dropped tables, then gives free space back.
    pub(super) fn compact(&mut self) -> Result<(), Failure> {
        let compacted = self.compact_file();
        match (&compacted, &self.database) {
            (Ok(()), Some(database)) => self.shared.resume(Arc::clone(database), self.ledger.catalog.clone()),
            _ => self.reopen(),
        }
        compacted
    }

    fn compact_file(&mut self) -> Result<(), Failure> {
        let started = Instant::now();
        while !self.ledger.dropped.is_empty() {
            self.reclaim(ROWS_ALONE).map_err(|failed| failed.failure())?;
        }
        self.settle()?;
        self.shared.pause();
        let mut database = self.take_database().ok_or(Failure::NotOpen)?;
        while database.compact().map_err(Failure::write)? {}
        self.database = Some(Arc::new(database));
        self.settled = false;
        tracing::info!(elapsed = ?started.elapsed(), "compacted");
        Ok(())
    }

    /// Opens the file anew, which recovers it, after a failure made it unusable.
    pub(super) fn reopen(&mut self) {
        self.shared.pause();
        let database = self.take_database();
        // It may write for a last time, and panic as it did before.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
        let opened = catch_unwind(AssertUnwindSafe(|| self.directory.open(&self.config.file)));
        match opened.unwrap_or(Err(Failure::NotOpen)) {
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
    pub(super) fn shut_down(&mut self) -> Result<(), Failure> {
        let settled = if self.settled { Ok(()) } else { self.settle() };
        self.shared.close();
        drop(self.take_database());
        settled
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
