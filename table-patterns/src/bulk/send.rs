use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use table_core::model::{Key, PartitionKey, TableName};
use table_core::store::{
    Error, ErrorKind, GroupTransaction, Operation, Outcome, Result, TableStore, Written,
};

use super::BulkOutcome;
use super::open::Batch;

/// Sends groups, and finds out what becomes of each operation.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    store: Arc<dyn TableStore>,
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
    pub(super) fn new(store: Arc<dyn TableStore>) -> Self {
        Self { store, requests: Arc::default() }
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
