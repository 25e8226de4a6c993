//! The table of the transactions: records, and the pieces of plans that are larger than a message.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use table_core::model::{Entity, IfMatch, Key, SYSTEM_PREFIX, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::store::limits::BINARY_BYTES;
use table_core::store::{Error, Operation, Result, TableStore, TableStoreExt as _};

use super::coordinator::Coordinator;
use super::plan::{TransactionId, fingerprint};
use super::record::{ROW, TransactionRecord, partition};
use crate::clock::after;
use crate::rows::{accept_applied, existed, get_bytes, set_bytes};

/// The number of bytes of a piece: 11 full properties. Azurite limits the size of an entity in base64, and a piece stays below its 1 MiB.
const PIECE_BYTES: usize = 11 * BINARY_BYTES;
/// The start of the RowKeys of pieces.
const PIECE_PREFIX: &str = "c_";
/// The start of the names of the properties with the bytes of a piece.
const PART: &str = "P";

/// The number of rows of a plan with this number of bytes.
pub(super) const fn piece_count(bytes: usize) -> usize {
    bytes.div_ceil(PIECE_BYTES)
}

/// The table of a coordinator's transactions.
#[derive(Clone, Debug)]
pub(super) struct TransactionTable {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
}

impl TransactionTable {
    pub(super) async fn read(&self, id: TransactionId) -> Result<Option<TransactionRecord>> {
        let row = self
            .store
            .get(&self.table, &Key::new(partition(id), ROW)?, None)
            .await?;
        row.as_ref().map(TransactionRecord::read).transpose()
    }

    /// Inserts a record. Returns `None` if the transaction has a record already.
    ///
    /// # Errors
    /// Also if the outcome is ambiguous: the record may be there.
    pub(super) async fn insert(
        &self,
        record: TransactionRecord,
    ) -> Result<Option<TransactionRecord>> {
        match accept_applied(
            self.store
                .write(&self.table, Operation::Insert(record.to_entity()?))
                .await,
        ) {
            Ok(written) => Ok(Some(TransactionRecord {
                etag: written.etag,
                ..record
            })),
            Err(e) if e.is_already_exists() && !e.is_ambiguous() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Replaces a record in the version that was read. Returns `None` if the version has changed, or if the
    /// outcome is ambiguous: in both cases the claim cannot be relied on.
    pub(super) async fn replace(
        &self,
        record: TransactionRecord,
    ) -> Result<Option<TransactionRecord>> {
        let Some(etag) = record.etag.clone() else {
            return Ok(None);
        };
        let replace = Operation::Replace(record.to_entity()?, etag.into());
        match accept_applied(self.store.write(&self.table, replace).await) {
            Ok(written) => Ok(Some(TransactionRecord {
                etag: written.etag,
                ..record
            })),
            Err(e) if e.is_ambiguous() || e.is_precondition_failed() || e.is_entity_not_found() => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Writes piece `n` of a plan.
    pub(super) async fn put_piece(&self, plan: PlanRef, n: usize, text: &str) -> Result<()> {
        let bytes = text.as_bytes();
        let piece = &bytes[n * PIECE_BYTES..bytes.len().min((n + 1) * PIECE_BYTES)];
        let mut row = Entity::from(plan.piece_key(n)?);
        set_bytes(&mut row, PART, piece);
        accept_applied(
            self.store
                .write(&self.table, Operation::InsertOrReplace(row))
                .await,
        )
        .map(drop)
    }

    /// The text of a stored plan.
    ///
    /// # Errors
    /// The stored text is not the plan that was committed.
    pub(super) async fn read_plan(&self, record: &TransactionRecord) -> Result<String> {
        let plan = record.plan_ref();
        let of_transaction = Filter::eq(Filter::PARTITION_KEY, partition(plan.id));
        let filter = of_transaction.and(Filter::starts_with(Filter::ROW_KEY, &plan.piece_prefix()));
        // One more than there are shows that another program has added rows.
        let query = Query::new().with_filter(filter).with_top(plan.pieces + 1);
        let mut rows = self.store.query_all(&self.table, &query).await?;
        // The numbers of pieces have five digits, so the order of texts is that of numbers.
        rows.sort_by(|a, b| a.key().row().cmp(b.key().row()));
        let bytes = rows.iter().flat_map(|row| get_bytes(row, PART)).collect();
        let text = String::from_utf8(bytes).ok();
        let text = text.filter(|text| rows.len() == plan.pieces && fingerprint(text) == plan.hash);
        text.ok_or_else(|| {
            Error::corrupt(format!(
                "the stored plan of the transaction {} is not the plan that was committed: {} of {} rows were read",
                record.id,
                rows.len(),
                plan.pieces
            ))
        })
    }

    /// Removes the pieces of a plan that exist.
    pub(super) async fn remove_pieces(&self, plan: PlanRef) -> Result<()> {
        // One by one, by their keys: no query is needed, and a removal that was interrupted goes on.
        for n in 0..plan.pieces {
            self.delete(plan.piece_key(n)?, IfMatch::Any).await?;
        }
        Ok(())
    }

    /// Deletes a row if it exists.
    async fn delete(&self, key: Key, condition: IfMatch) -> Result<()> {
        existed(accept_applied(
            self.store
                .write(&self.table, Operation::Delete(key, condition))
                .await,
        ))
        .map(drop)
    }

    /// Removes the records that finished longer ago than `keep`.
    async fn sweep(&self, keep: Duration) -> Result<usize> {
        let partitions = Filter::starts_with(Filter::PARTITION_KEY, &format!("{SYSTEM_PREFIX}t_"));
        let query = Query::new().with_filter(partitions.and(Filter::eq(Filter::ROW_KEY, ROW)));
        let (mut removed, mut damage) = (0, None);
        let mut rows = self.store.query_stream(self.table.clone(), query);
        while let Some(row) = rows.try_next().await? {
            // The store's clock against this machine's: a rough age, which only decides how long evidence stays.
            let old = row
                .timestamp()
                .is_some_and(|written| after(written, keep) <= Ticks::now());
            let finished = match TransactionRecord::read(&row) {
                Ok(record) => !record.is_open(),
                Err(error) => {
                    // The records after it are removed too. The error is reported at the end.
                    damage.get_or_insert(error);
                    continue;
                }
            };
            if let (true, true, Some(etag)) = (old, finished, row.etag()) {
                self.delete(row.key().clone(), IfMatch::from(etag)).await?;
                removed += 1;
            }
        }
        damage.map_or(Ok(removed), Err)
    }
}

impl Coordinator {
    /// Removes the records of transactions that finished longer ago than `keep`. Returns the number of removed
    /// records.
    ///
    /// The record is the evidence that a transaction is finished. If a message or a submission comes after its
    /// removal, *all steps are done again*. Keep records for days: longer than any message can stay in the queue
    /// while no worker runs. `keep` is at least two leases, because the message of a worker that died comes back
    /// within that time. The age of a record is measured by this machine's clock against the store's.
    ///
    /// Cost: a scan of the table, and 1 request per removed record.
    ///
    /// # Errors
    /// The store's; a damaged record, with its key, after the others were removed.
    pub async fn sweep(&self, keep: Duration) -> Result<usize> {
        self.transactions
            .sweep(keep.max(self.timing.lease() * 2))
            .await
    }
}

/// Removes the records in a table of transactions that finished longer ago than `keep`. Returns their number.
pub(crate) async fn sweep_records(
    store: Arc<dyn TableStore>,
    table: TableName,
    keep: Duration,
) -> Result<usize> {
    TransactionTable { store, table }.sweep(keep).await
}

/// The identity of a plan, and the number of rows that hold it: 0 if the plan is in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanRef {
    pub(super) id: TransactionId,
    pub(super) hash: i64,
    pub(super) pieces: usize,
}

impl PlanRef {
    /// The start of the RowKeys of the plan's pieces. Two plans under one id have different hashes, so they do not overwrite each other.
    fn piece_prefix(self) -> String {
        format!("{PIECE_PREFIX}{:016x}_", self.hash)
    }

    pub(super) fn piece_key(self, n: usize) -> Result<Key> {
        Key::new(partition(self.id), format!("{}{n:05}", self.piece_prefix()))
    }
}
