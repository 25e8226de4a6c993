use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use table_core::manifest::{Manifest, Touched};
use table_core::model::{Key, PartitionKey, TableName};
use table_core::store::{
    Error, ErrorKind, GroupTransaction, ManifestCache, Operation, Outcome, PlainWrite, Result, TableStore,
    Written,
};

use super::BulkOutcome;
use super::open::Batch;

/// Sends groups, and finds out what becomes of each operation.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    store: Arc<dyn TableStore>,
    manifests: Arc<ManifestCache>,
    /// Whether what indexes are of is written, too.
    writes_indexed: bool,
    requests: Arc<AtomicU64>,
}

/// What a failed group means for its operations.
enum Verdict {
    /// This one failed it; the others can be sent again.
    Culprit(usize),
    /// It is too large in the exact form that is sent.
    TooLarge,
    /// None is written, or nobody knows.
    All,
}

impl Sender {
    pub(super) fn new(store: Arc<dyn TableStore>, writes_indexed: bool) -> Self {
        Self { manifests: ManifestCache::over(&*store), store, writes_indexed, requests: Arc::default() }
    }

    pub(super) const fn manifests(&self) -> &Arc<ManifestCache> {
        &self.manifests
    }

    pub(super) fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    /// Sends until every operation of the batch is settled.
    pub(super) async fn settle(self, batch: Batch) -> Vec<BulkOutcome> {
        let Batch { table, group, .. } = batch;
        let partition = group.partition().clone();
        let mut outcomes = Vec::with_capacity(group.len());
        let mut todo = vec![group.into_operations()];
        while let Some(mut operations) = todo.pop() {
            // What waited for others is looked at again: an index may have been declared since it was read.
            let rests_on = match self.rests_on(&table).await {
                Ok(rests_on) => rests_on,
                Err(error) => {
                    let refused =
                        |o: &Operation| Self::refused(table.clone(), o.key().clone(), error.clone());
                    outcomes.extend(operations.iter().map(refused));
                    continue;
                }
            };
            if let Some(rests_on) = &rests_on {
                operations.retain(|operation| {
                    let refused = check_plain(rests_on.manifest(), &table, operation).err();
                    let is_free = refused.is_none();
                    let refuse = |error| Self::refused(table.clone(), operation.key().clone(), error);
                    outcomes.extend(refused.map(refuse));
                    is_free
                });
                if operations.is_empty() {
                    continue;
                }
            }
            let request = self.requests.fetch_add(1, Ordering::Relaxed);
            let outcome = |operation: &Operation, result| {
                let (table, key) = (table.clone(), operation.key().clone());
                BulkOutcome { table, key, request: Some(request), result }
            };
            let error = match self.send(&table, &partition, &operations).await {
                Ok(written) => {
                    outcomes.extend(operations.iter().zip(written).map(|(o, w)| outcome(o, Ok(w))));
                    continue;
                }
                Err(error) => error,
            };
            match verdict(&error, operations.len()) {
                Verdict::Culprit(index) => {
                    let culprit = operations.remove(index);
                    outcomes.push(outcome(&culprit, Err(error.root().clone())));
                    todo.push(operations);
                }
                Verdict::TooLarge => {
                    todo.push(operations.split_off(operations.len() / 2));
                    todo.push(operations);
                }
                Verdict::All => outcomes.extend(operations.iter().map(|o| outcome(o, Err(error.clone())))),
            }
        }
        outcomes
    }

    /// What a request rests on, until it is answered.
    async fn rests_on(&self, table: &TableName) -> Result<Option<PlainWrite>> {
        if self.writes_indexed {
            return Ok(None);
        }
        self.manifests.plain_write(&*self.store, table).await.map(Some)
    }

    /// One operation needs no group transaction.
    async fn send(
        &self,
        table: &TableName,
        partition: &PartitionKey,
        operations: &[Operation],
    ) -> Result<Vec<Written>> {
        if let [operation] = operations {
            return self.store.write(table, operation.clone()).await.map(|written| vec![written]);
        }
        let mut group = GroupTransaction::new(partition.clone(), self.store.profile());
        operations.iter().try_for_each(|operation| group.push(operation.clone()))?;
        self.store.transact(table, group).await
    }

    /// An operation that cannot be in any group.
    pub(super) fn refused(table: TableName, key: Key, error: Error) -> BulkOutcome {
        BulkOutcome { table, key, request: None, result: Err(error) }
    }
}

/// Refuses what an index of the manifest is of.
pub(super) fn check_plain(manifest: &Manifest, table: &TableName, operation: &Operation) -> Result<()> {
    const INSTEAD: &str = "write it through `IndexedTable`, or bring the entries along (`write_indexed`)";
    manifest.check_plain(table, Touched::by(operation), operation.kind().name(), INSTEAD)
}

fn verdict(error: &Error, operations: usize) -> Verdict {
    if operations < 2 || error.outcome() != Outcome::NotApplied {
        return Verdict::All;
    }
    match (error.failed_index(), error.kind()) {
        (Some(index), _) if index < operations && !error.is_transient() => Verdict::Culprit(index),
        (None, ErrorKind::LimitExceeded { .. }) => Verdict::TooLarge,
        _ => Verdict::All,
    }
}
