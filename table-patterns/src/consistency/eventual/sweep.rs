//! Forgetting what was finished long ago.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use table_core::model::{IfMatch, SYSTEM_PREFIX, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::store::{Result, TableStore, TableStoreExt as _};

use super::coordinator::Coordinator;
use super::head::{Head, ROW};
use super::ledger::Ledger;
use crate::clock::after;

impl Coordinator {
    /// Removes the heads of transactions that were finished longer ago than `keep`; how many. A head is the
    /// evidence by which a message or submission that comes again is known to be done: without it, *all steps are
    /// done again*. Keep it for days, longer than any message can lie in the queue while no worker comes (no queue here
    /// forgets one). Less than two leases is taken for two leases, in which a message comes back whose submitter or
    /// worker died. (The age of a head is the one thing for which the clocks of the store and of this machine meet.)
    ///
    /// Cost: a scan of the table, and one request per head.
    ///
    /// # Errors
    /// The storage's.
    pub async fn sweep(&self, keep: Duration) -> Result<usize> {
        self.ledger.sweep(keep.max(self.timing.lease() * 2)).await
    }
}

/// Removes the heads of transactions in a table that were finished longer ago than `keep`, in whatever program; how many.
pub(crate) async fn sweep_heads(
    store: Arc<dyn TableStore>,
    table: TableName,
    keep: Duration,
) -> Result<usize> {
    Ledger { store, table }.sweep(keep).await
}

impl Ledger {
    async fn sweep(&self, keep: Duration) -> Result<usize> {
        let heads = Filter::starts_with(Filter::PARTITION_KEY, &format!("{SYSTEM_PREFIX}t_"));
        let query = Query::new().with_filter(heads.and(Filter::eq(Filter::ROW_KEY, ROW)));
        let mut removed = 0;
        let mut rows = self.store.query_stream(self.table.clone(), query);
        while let Some(row) = rows.try_next().await? {
            let old = row.timestamp().is_some_and(|written| after(written, keep) <= Ticks::now());
            let finished = !Head::read(&row)?.is_open();
            if let (true, true, Some(etag)) = (old, finished, row.etag()) {
                self.delete(row.key().clone(), IfMatch::from(etag)).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}
