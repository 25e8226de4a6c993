use std::sync::Arc;
use std::time::Instant;

use redb::{Database, StorageBackend as _, StorageError, Table, TableError, WriteTransaction};
use table_core::Result;
use table_core::engine::Stamp;
use table_core::model::{Properties, PropertyDictionary};
use table_core::store::Written;

use super::batch::{Batch, Ledger};
use super::queue::Request;
use super::reopen::CommitFailure;
use super::{FLUSH_AFTER, FLUSH_BYTES, Unflushed, Writer, reopen};
use crate::error::Failure;
use crate::format;
use crate::format::{DICTIONARY, META_VERSION_MARK};
use crate::options::Durability;

pub(super) type Answers = Vec<Result<Vec<Written>>>;

/// The contents of a commit.
#[derive(Debug, Default)]
pub(super) struct CommitInput {
    pub(super) requests: Vec<Request>,
    pub(super) bytes: usize,
    /// The dropped table of which rows are removed.
    pub(super) reclaim: Option<u64>,
}

impl Writer {
    /// Decides the requests in order and commits them. Returns an answer for each request.
    pub(super) fn commit(&mut self, input: CommitInput) -> Result<Answers, CommitFailure> {
        self.ensure_writable()?;
        let done = reopen::caught_work(|| self.transact(input));
        if let Err(failed) = &done {
            self.fail(failed);
        }
        done
    }

    fn transact(&mut self, input: CommitInput) -> Result<Answers, CommitFailure> {
        let database = self.database()?;
        let (started, transactions, bytes) = (Instant::now(), input.requests.len(), input.bytes);
        let reclaims = input.reclaim.is_some();
        // The unwinding is caught before the transaction is dropped, so it is rolled back and the engine's
        // state is unchanged.
        let mut transaction =
            reopen::before_commit(|| database.begin_write().map_err(CommitFailure::before))?;
        let (answers, finished) = reopen::before_commit(|| self.decide(&transaction, input))?;
        let Some((ledger, must_sync)) = finished else { return Ok(answers) };
        // Also in relaxed mode a sync is due for a change of tables, for the mark of versions (an ETag must never repeat after a crash),
        // and for reclaiming, whose commit prepares the fast recovery.
        let sync = must_sync || reclaims || self.is_sync_due(bytes);
        let durability = if sync { redb::Durability::Immediate } else { redb::Durability::None };
        transaction.set_durability(durability).map_err(CommitFailure::before)?;
        let quick = reclaims || sync && self.is_recovery_long();
        transaction.set_quick_repair(quick);
        self.end(transaction)?;
        self.versions.committed();
        let writes = answers.iter().filter(|answer| answer.is_ok()).count();
        self.committed(ledger, (!sync).then_some((writes, bytes)));
        self.recovery_prepared = quick;
        if sync {
            self.reopening.succeeded();
        }
        tracing::debug!(transactions, bytes, sync, elapsed = ?started.elapsed(), "committed");
        Ok(answers)
    }

    /// Returns the database, if it can be written.
    pub(super) fn database(&self) -> Result<Arc<Database>, CommitFailure> {
        if let Some(failure) = self.session.failure() {
            return Err(CommitFailure::Writing(failure));
        }
        let closed = || CommitFailure::Refused { reason: Failure::NotOpen.to_string(), disk_full: false };
        self.database.clone().ok_or_else(closed)
    }

    /// Commits. Readers keep the previous state until the commit is published. If the commit fails, they keep
    /// it too, although the engine then considers the commit done.
    pub(super) fn end(&self, transaction: WriteTransaction) -> Result<(), CommitFailure> {
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
        self.session.len().is_ok_and(|len| len > self.config.file.scan_up_to)
    }

    /// Returns the answers and, if anything changed, the new ledger and whether the commit must be on disk.
    fn decide(
        &mut self,
        transaction: &WriteTransaction,
        input: CommitInput,
    ) -> Result<(Answers, Option<(Ledger, bool)>), CommitFailure> {
        let mut batch =
            Batch::begin(transaction, self.ledger.clone(), &self.changes).map_err(CommitFailure::before)?;
        let answers = input.requests.into_iter().map(|request| batch.execute(request, &mut self.versions));
        let answers = answers.collect::<Result<_, _>>().map_err(CommitFailure::before)?;
        if let Some(table) = input.reclaim {
            batch.reclaim(table).map_err(CommitFailure::before)?;
        }
        let finished = batch.finish(&mut self.versions).map_err(CommitFailure::before)?;
        Ok((answers, finished))
    }

    fn committed(&mut self, ledger: Ledger, unflushed: Option<(usize, usize)>) {
        self.ledger = ledger;
        self.changes.published(|| self.shared.publish(&self.ledger.catalog));
        self.last_commit = Instant::now();
        // `since` stays that of the oldest write: the promise of `Durability::Relaxed` counts from there.
        let before = self.unflushed.unwrap_or(Unflushed { since: self.last_commit, writes: 0, bytes: 0 });
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
        self.unflushed.is_some_and(|unflushed| unflushed.since.elapsed() >= FLUSH_AFTER)
    }
}

/// Builds the stored values of rows. New dictionary entries get their numbers in the same transaction.
pub(super) struct Packer<'t> {
    transaction: &'t WriteTransaction,
    dictionary: Arc<PropertyDictionary>,
    /// For each dictionary number, the number that followed it last. Rows are alike, so this predicts the
    /// next number.
    next: Vec<u16>,
    grown: bool,
}

impl<'t> Packer<'t> {
    pub(super) const fn new(transaction: &'t WriteTransaction, dictionary: Arc<PropertyDictionary>) -> Self {
        Self { transaction, dictionary, next: Vec::new(), grown: false }
    }

    pub(super) fn dictionary(&self) -> &PropertyDictionary {
        &self.dictionary
    }

    /// Returns the dictionary if it has new entries.
    pub(super) fn into_new_dictionary(self) -> Option<Arc<PropertyDictionary>> {
        self.grown.then_some(self.dictionary)
    }

    /// Appends the stored value of a row.
    pub(super) fn push_row(
        &mut self,
        out: &mut Vec<u8>,
        key: &[u8],
        stamp: Stamp,
        properties: &Properties,
    ) -> Result<(), StorageError> {
        stamp.push_bytes(out);
        let mut last = 0;
        let mut packed = properties.as_packed();
        // Numbers make the row shorter, so one allocation is enough.
        out.reserve(packed.len());
        while !packed.is_empty() {
            // No entry has the number 0, so without a prediction `pack_as` refuses and the entry is looked up.
            let likely = self.next.get(usize::from(last)).copied().unwrap_or_default();
            if self.dictionary.pack_as(likely, &mut packed, out) {
                last = likely;
                continue;
            }
            let number = |entry: &[u8]| {
                let number = self.number(last, entry)?;
                last = number.unwrap_or(last);
                Ok::<_, StorageError>(number)
            };
            if !PropertyDictionary::pack_next(&mut packed, out, number)? {
                break;
            }
        }
        format::seal_row(out, key);
        Ok(())
    }

    /// Returns the number of a dictionary entry that follows the entry `last`.
    fn number(&mut self, last: u16, entry: &[u8]) -> Result<Option<u16>, StorageError> {
        let last = usize::from(last);
        let number = match self.dictionary.number(entry) {
            None => self.add(entry)?,
            known => known,
        };
        if let Some(number) = number {
            self.next.resize(self.next.len().max(last + 1), 0);
            self.next[last] = number;
        }
        Ok(number)
    }

    #[cold]
    fn add(&mut self, entry: &[u8]) -> Result<Option<u16>, StorageError> {
        // Readers share this dictionary, so a change copies it.
        let number =
            (!self.dictionary.is_full()).then(|| Arc::make_mut(&mut self.dictionary).add(entry)).flatten();
        let Some(number) = number else { return Ok(None) };
        let mut table = self.transaction.open_table(DICTIONARY).map_err(storage)?;
        table.insert(u64::from(number), entry)?;
        self.grown = true;
        Ok(Some(number))
    }
}

/// The table exists and is open only once, so the error comes from the file.
fn storage(error: TableError) -> StorageError {
    match error {
        TableError::Storage(error) => error,
        other => StorageError::Corrupted(other.to_string()),
    }
}

/// Number of versions reserved at once, so that the mark on disk changes rarely.
const BLOCK: u64 = 1 << 20;

/// Assigns the versions that become ETags: each once, across reopening and crashes.
///
/// Versions up to the mark on disk may have been assigned, so a reopened store starts above it. The mark is
/// raised at the latest in the commit that needs it.
#[derive(Debug)]
pub(super) struct Versions {
    last: u64,
    /// The mark on disk.
    mark: u64,
    /// The mark of a commit that has not ended.
    raised: u64,
}

impl Versions {
    /// Starts above the mark on disk.
    pub(super) fn after(mark: u64) -> Self {
        Self { last: mark, mark, raised: mark }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Raises the mark if needed. Returns whether this commit must then reach the disk.
    pub(super) fn reserve(&mut self, meta: &mut Table<'_, &str, u64>) -> Result<bool, StorageError> {
        if self.last <= self.mark {
            self.raised = self.mark;
            return Ok(false);
        }
        self.raised = self.last + BLOCK;
        meta.insert(META_VERSION_MARK, self.raised)?;
        Ok(true)
    }

    /// Records that the commit of the last [`reserve`](Self::reserve) is done. A commit that fails without a reopening leaves the mark as
    /// it is on disk: otherwise later commits would not raise it, and versions would repeat after a crash.
    pub(super) const fn committed(&mut self) {
        self.mark = self.raised;
    }

    /// Skips all versions that may have been assigned before a commit with unknown outcome.
    pub(super) fn reopened(&mut self, mark: u64) {
        // `last` may be above the mark of the file that was opened again, because the failed commit may have raised it. Its versions
        // may have reached callers, so they are not assigned again.
        self.last = self.last.max(mark);
        (self.mark, self.raised) = (mark, mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::META;

    #[test]
    fn a_failed_commit_leaves_the_mark_to_the_next_one() {
        let memory = redb::backends::InMemoryBackend::new();
        let database = redb::Builder::new().create_with_backend(memory).unwrap();
        let mut versions = Versions::after(0);
        versions.next();
        let reserve = |versions: &mut Versions, commits: bool| {
            let transaction = database.begin_write().unwrap();
            let raised = versions.reserve(&mut transaction.open_table(META).unwrap()).unwrap();
            if commits {
                transaction.commit().unwrap();
                versions.committed();
            } else {
                transaction.abort().unwrap();
            }
            raised
        };
        assert!(reserve(&mut versions, false), "the first version needs a mark");
        assert!(reserve(&mut versions, true), "the mark is not on disk");
        assert!(!reserve(&mut versions, true), "the mark is on disk");
    }
}
