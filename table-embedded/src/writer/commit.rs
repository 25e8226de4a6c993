use std::sync::Arc;
use std::time::Instant;

use redb::{Database, StorageBackend as _, WriteTransaction};
use table_core::Result;
use table_core::store::Written;

use super::batch::{Batch, Ledger};
use super::intake::Intake;
use super::reopen::CommitFailure;
use super::{FLUSH_AFTER, FLUSH_BYTES, Unflushed, Writer, reopen};
use crate::error::Failure;
use crate::options::Durability;

pub(super) type Answers = Vec<Result<Vec<Written>>>;

/// What a commit executes.
#[derive(Debug)]
pub(super) enum Work<'i> {
    Requests(&'i mut Intake),
    /// Removes rows of a dropped table.
    Reclaim(u64),
}

impl Writer {
    /// Executes the work in order and commits it. Returns an answer for each request that was taken.
    pub(super) fn commit(&mut self, work: Work<'_>) -> Result<Answers, CommitFailure> {
        self.ensure_writable()?;
        let done = reopen::caught_work(|| self.transact(work));
        if let Err(failed) = &done {
            self.fail(failed);
        }
        done
    }

    fn transact(&mut self, mut work: Work<'_>) -> Result<Answers, CommitFailure> {
        let database = self.database()?;
        let started = Instant::now();
        // The unwinding is caught before the transaction is dropped, so it is rolled back and the engine's
        // state is unchanged.
        let mut transaction =
            reopen::before_commit(|| database.begin_write().map_err(CommitFailure::before))?;
        let (answers, finished) = reopen::before_commit(|| self.decide(&transaction, &mut work))?;
        let Some((ledger, must_sync)) = finished else {
            return Ok(answers);
        };
        let (bytes, reclaims) = match work {
            Work::Requests(intake) => (intake.bytes(), false),
            Work::Reclaim(_) => (0, true),
        };
        // Also in relaxed mode a sync is due for a change of tables, for the mark of versions (an ETag must never repeat after a crash),
        // and for reclaiming, whose commit prepares the fast recovery.
        let sync = must_sync || reclaims || self.is_sync_due(bytes);
        let durability = if sync {
            redb::Durability::Immediate
        } else {
            redb::Durability::None
        };
        transaction
            .set_durability(durability)
            .map_err(CommitFailure::before)?;
        let quick = reclaims || sync && self.is_recovery_long();
        transaction.set_quick_repair(quick);
        self.commit_transaction(transaction)?;
        self.versions.committed();
        let writes = answers.iter().filter(|answer| answer.is_ok()).count();
        self.committed(ledger, (!sync).then_some((writes, bytes)));
        self.recovery_prepared = quick;
        if sync {
            self.reopening.succeeded();
        }
        let transactions = answers.len();
        tracing::debug!(transactions, bytes, sync, elapsed = ?started.elapsed(), "committed");
        Ok(answers)
    }

    /// Returns the database, if it can be written.
    pub(super) fn database(&self) -> Result<Arc<Database>, CommitFailure> {
        if let Some(failure) = self.session.failure() {
            return Err(CommitFailure::Writing(failure));
        }
        let closed = || CommitFailure::Refused {
            reason: Failure::NotOpen.to_string(),
            disk_full: false,
        };
        self.database.clone().ok_or_else(closed)
    }

    /// Commits. Readers keep the previous state until the commit is published. If the commit fails, they keep
    /// it too, although the engine then considers the commit done.
    pub(super) fn commit_transaction(
        &self,
        transaction: WriteTransaction,
    ) -> Result<(), CommitFailure> {
        reopen::before_commit(|| self.shared.keep_snapshot().map_err(CommitFailure::reading))?;
        if let Some(failure) = self.session.failure() {
            return Err(CommitFailure::Writing(failure));
        }
        // The session keeps failed writes from the engine, so a successful `commit` proves nothing: the session is asked before
        // and after.
        let committed = transaction.commit();
        if let Some(failure) = self.session.failure() {
            return Err(CommitFailure::Writing(failure));
        }
        committed.map_err(CommitFailure::committing)
    }

    /// Whether recovery would scan more than allowed. The commit then prepares a short recovery, which costs
    /// a second sync and writing the engine's allocation map.
    fn is_recovery_long(&self) -> bool {
        self.session
            .len()
            .is_ok_and(|len| len > self.config.file.scan_up_to)
    }

    /// Returns the answers and, if anything changed, the new ledger and whether the commit must be on disk.
    fn decide(
        &mut self,
        transaction: &WriteTransaction,
        work: &mut Work<'_>,
    ) -> Result<(Answers, Option<(Ledger, bool)>), CommitFailure> {
        let mut batch = Batch::begin(transaction, self.ledger.clone(), &self.changes)
            .map_err(CommitFailure::before)?;
        let mut answers = Answers::new();
        match work {
            Work::Requests(intake) => {
                while let Some(request) = intake.next(&self.requests) {
                    let answer = batch.execute(request, &mut self.versions);
                    answers.push(answer.map_err(CommitFailure::before)?);
                }
            }
            Work::Reclaim(table) => batch.reclaim(*table).map_err(CommitFailure::before)?,
        }
        let finished = batch
            .finish(&mut self.versions)
            .map_err(CommitFailure::before)?;
        Ok((answers, finished))
    }

    fn committed(&mut self, ledger: Ledger, unflushed: Option<(usize, usize)>) {
        self.ledger = ledger;
        self.changes
            .publish_with(|| self.shared.publish(&self.ledger.catalog));
        self.last_commit = Instant::now();
        // `since` stays that of the oldest write: the promise of `Durability::Relaxed` counts from there.
        let before = self.unflushed.unwrap_or(Unflushed {
            since: self.last_commit,
            writes: 0,
            bytes: 0,
        });
        self.unflushed = unflushed.map(|(writes, bytes)| Unflushed {
            writes: before.writes + writes,
            bytes: before.bytes + bytes,
            ..before
        });
    }

    /// Whether writes of this many bytes must be on disk before they are acknowledged.
    fn is_sync_due(&self, bytes: usize) -> bool {
        let many = |unflushed: Unflushed| unflushed.bytes + bytes >= FLUSH_BYTES;
        self.config.durability == Durability::Immediate
            || self.is_flush_overdue()
            || self.unflushed.is_some_and(many)
    }

    /// Whether acknowledged writes should be on disk by now but are not.
    pub(super) fn is_flush_overdue(&self) -> bool {
        self.unflushed
            .is_some_and(|unflushed| unflushed.since.elapsed() >= FLUSH_AFTER)
    }
}
