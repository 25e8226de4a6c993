use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use redb::{Database, WriteTransaction};
use table_core::Result;
use table_core::store::{Error, Written};

use super::batch::{Batch, Ledger};
use super::queue::Request;
use super::{FLUSH_AFTER, FLUSH_BYTES, Unflushed, Writer};
use crate::error::Failure;
use crate::options::Durability;

/// Rows of dropped tables that are removed along with other writes: writes hardly wait for it.
const ROWS_ALONG: usize = 256;

/// Why a whole batch failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// Before the commit: nothing was done.
    Before(Arc<redb::Error>),
    /// During the commit: it may be done.
    Committing(Arc<redb::Error>),
    /// The thread panicked: it may be done.
    Panicked,
    /// The file is not open.
    NotOpen,
}

impl Failed {
    fn before(error: impl Into<redb::Error>) -> Self {
        Self::Before(Arc::new(error.into()))
    }

    fn reading(failure: Failure) -> Self {
        match failure {
            Failure::Read(error) => Self::before(error),
            _ => Self::NotOpen,
        }
    }

    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Before(error) | Self::Committing(error) => Failure::Write(Arc::clone(error)),
            Self::Panicked => Failure::Lost,
            Self::NotOpen => Failure::NotOpen,
        }
    }

    /// The error of each operation of the batch.
    pub(super) fn error(&self) -> Error {
        match self {
            Self::Before(_) | Self::NotOpen => self.failure().into(),
            Self::Committing(_) | Self::Panicked => self.failure().ambiguous(),
        }
    }
}

type Answers = Vec<Result<Vec<Written>>>;

/// What a commit is of.
struct Work {
    requests: Vec<Request>,
    bytes: usize,
    /// Rows of dropped tables to remove, at most.
    reclaim: usize,
}

impl Writer {
    /// Decides the requests in order and commits them; an answer for each. After an error, the file must
    /// be [reopened](Self::reopen).
    pub(super) fn commit(&mut self, requests: Vec<Request>, bytes: usize) -> Result<Answers, Failed> {
        self.guarded(Work { requests, bytes, reclaim: ROWS_ALONG })
    }

    /// Removes rows of dropped tables in a commit of its own.
    pub(super) fn reclaim(&mut self, rows: usize) -> Result<(), Failed> {
        self.guarded(Work { requests: Vec::new(), bytes: 0, reclaim: rows }).map(drop)
    }

    fn guarded(&mut self, work: Work) -> Result<Answers, Failed> {
        let database = self.database.clone().ok_or(Failed::NotOpen)?;
        let transact = AssertUnwindSafe(|| self.transact(&database, work));
        catch_unwind(transact).unwrap_or(Err(Failed::Panicked))
    }

    fn transact(&mut self, database: &Database, work: Work) -> Result<Answers, Failed> {
        let (started, transactions) = (Instant::now(), work.requests.len());
        let mut transaction = database.begin_write().map_err(Failed::before)?;
        let (answers, finished) = self.decide(&transaction, work.requests, work.reclaim)?;
        let Some((ledger, must_sync)) = finished else { return Ok(answers) };
        let sync = must_sync || self.is_flush_due(work.bytes);
        let durability = if sync { redb::Durability::Immediate } else { redb::Durability::None };
        transaction.set_durability(durability).map_err(Failed::before)?;
        if !Arc::ptr_eq(&ledger.catalog, &self.ledger.catalog) {
            self.shared.hold().map_err(Failed::reading)?;
        }
        transaction.commit().map_err(|error| Failed::Committing(Arc::new(error.into())))?;
        self.committed(ledger, sync, work.bytes);
        tracing::debug!(transactions, bytes = work.bytes, sync, elapsed = ?started.elapsed(), "committed");
        Ok(answers)
    }

    /// The answers; and, if anything changed, the ledger to keep and whether the commit must be on disk.
    fn decide(
        &mut self,
        transaction: &WriteTransaction,
        requests: Vec<Request>,
        reclaim: usize,
    ) -> Result<(Answers, Option<(Ledger, bool)>), Failed> {
        let mut batch = Batch::begin(transaction, self.ledger.clone()).map_err(Failed::before)?;
        let answers = requests.into_iter().map(|request| batch.make(request, &mut self.versions));
        let answers = answers.collect::<Result<_, _>>().map_err(Failed::before)?;
        batch.reclaim(reclaim).map_err(Failed::before)?;
        let finished = batch.finish(&mut self.versions).map_err(Failed::before)?;
        Ok((answers, finished))
    }

    fn committed(&mut self, ledger: Ledger, sync: bool, bytes: usize) {
        self.ledger = ledger;
        self.shared.publish(&self.ledger.catalog);
        self.last_commit = Instant::now();
        self.settled = false;
        let before = self.unflushed.unwrap_or(Unflushed { since: self.last_commit, bytes: 0 });
        self.unflushed = (!sync).then_some(Unflushed { bytes: before.bytes + bytes, ..before });
    }

    fn is_flush_due(&self, bytes: usize) -> bool {
        let due = |u: Unflushed| u.since.elapsed() >= FLUSH_AFTER || u.bytes + bytes >= FLUSH_BYTES;
        self.config.durability == Durability::Immediate || self.unflushed.is_some_and(due)
    }
}
