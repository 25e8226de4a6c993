use std::sync::Arc;
use std::time::Instant;

use redb::WriteTransaction;
use table_core::Result;
use table_core::store::Written;

use super::batch::{Batch, Ledger};
use super::failed::{self, Failed};
use super::queue::Request;
use super::{FLUSH_AFTER, FLUSH_BYTES, Unflushed, Writer};
use crate::options::Durability;

pub(super) type Answers = Vec<Result<Vec<Written>>>;

/// What a commit is of.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) requests: Vec<Request>,
    pub(super) bytes: usize,
    /// The dropped table of which rows are removed.
    pub(super) reclaim: Option<u64>,
}

impl Writer {
    /// Decides the requests in order and commits them; an answer for each. After an error, the file must
    /// be [reopened](Self::reopen).
    pub(super) fn commit(&mut self, work: Work) -> Result<Answers, Failed> {
        failed::work(|| self.transact(work))
    }

    fn transact(&mut self, work: Work) -> Result<Answers, Failed> {
        let database = self.database.clone().ok_or(Failed::NotOpen)?;
        let (started, transactions, bytes) = (Instant::now(), work.requests.len(), work.bytes);
        let reclaims = work.reclaim.is_some();
        let mut transaction = database.begin_write().map_err(Failed::before)?;
        let (answers, finished) = self.decide(&transaction, work)?;
        let Some((ledger, must_sync)) = finished else { return Ok(answers) };
        let sync = must_sync || reclaims || self.is_sync_due(bytes);
        let durability = if sync { redb::Durability::Immediate } else { redb::Durability::None };
        transaction.set_durability(durability).map_err(Failed::before)?;
        transaction.set_quick_repair(reclaims);
        if !Arc::ptr_eq(&ledger.catalog, &self.ledger.catalog) {
            self.shared.hold().map_err(Failed::reading)?;
        }
        transaction.commit().map_err(Failed::committing)?;
        let writes = answers.iter().filter(|answer| answer.is_ok()).count();
        self.committed(ledger, (!sync).then_some((writes, bytes)));
        self.settled = reclaims;
        tracing::debug!(transactions, bytes, sync, elapsed = ?started.elapsed(), "committed");
        Ok(answers)
    }

    /// The answers; and, if anything changed, the ledger to keep and whether the commit must be on disk.
    fn decide(
        &mut self,
        transaction: &WriteTransaction,
        work: Work,
    ) -> Result<(Answers, Option<(Ledger, bool)>), Failed> {
        let mut batch = Batch::begin(transaction, self.ledger.clone()).map_err(Failed::before)?;
        let answers = work.requests.into_iter().map(|request| batch.make(request, &mut self.versions));
        let answers = answers.collect::<Result<_, _>>().map_err(Failed::before)?;
        if let Some(table) = work.reclaim {
            batch.reclaim(table).map_err(Failed::before)?;
        }
        let finished = batch.finish(&mut self.versions).map_err(Failed::before)?;
        Ok((answers, finished))
    }

    fn committed(&mut self, ledger: Ledger, unflushed: Option<(usize, usize)>) {
        self.ledger = ledger;
        self.shared.publish(&self.ledger.catalog);
        self.last_commit = Instant::now();
        let before = self.unflushed.unwrap_or(Unflushed { since: self.last_commit, writes: 0, bytes: 0 });
        self.unflushed = unflushed.map(|(writes, bytes)| Unflushed {
            writes: before.writes + writes,
            bytes: before.bytes + bytes,
            ..before
        });
    }

    /// Whether writes of so many bytes must be on disk before they are acknowledged.
    fn is_sync_due(&self, bytes: usize) -> bool {
        let many = |unflushed: Unflushed| unflushed.bytes + bytes >= FLUSH_BYTES;
        self.config.durability == Durability::Immediate
            || self.is_flush_overdue()
            || self.unflushed.is_some_and(many)
    }

    /// Whether acknowledged writes should be on disk by now, and are not.
    pub(super) fn is_flush_overdue(&self) -> bool {
        self.unflushed.is_some_and(|unflushed| unflushed.since.elapsed() >= FLUSH_AFTER)
    }
}
