//! Writes of single operations and of groups.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch, TableName};
use table_core::store::{
    Conflicts, Error, GroupTransaction, Operation, Result, TableStore, Written,
};

use super::EncryptedStore;
use super::merge::{Prepared, reads_first};

/// Maximum number of entities that a group reads concurrently for its merges. A group has up to 100 merges, each of which reads
/// first; the library's other fan-outs have the same default.
const CONCURRENT_READS: usize = 16;

impl<S: TableStore> EncryptedStore<S> {
    /// Encrypts an operation and sends it. A merge reads first, and is prepared again after a conflict.
    pub(super) async fn write_one(
        &self,
        table: &TableName,
        operation: Operation,
    ) -> Result<Written> {
        if !reads_first(&operation) {
            let operation = self
                .encrypt_operation(&self.table_id(table), operation)
                .await?;
            return self.inner.write(table, operation).await;
        }
        let mut conflicts = Conflicts::new(self.shared.attempts);
        loop {
            let prepared = self.prepare(table, operation.clone()).await?;
            match self.inner.write(table, prepared.operation).await {
                Err(error)
                    if prepared.retries_conflict
                        && another_attempt_may_succeed(&operation, &error) =>
                {
                    conflicts.wait(error).await?;
                }
                other => return other,
            }
        }
    }

    /// Encrypts a group and sends it. Its merges read first, and are prepared again after a conflict.
    pub(super) async fn write_group(
        &self,
        table: &TableName,
        group: GroupTransaction,
    ) -> Result<Vec<Written>> {
        if !group.operations().iter().any(reads_first) {
            return self
                .inner
                .transact(table, self.encrypt_group(table, group).await?)
                .await;
        }
        let mut conflicts = Conflicts::new(self.shared.attempts);
        loop {
            let (prepared, retries_conflict) = self.prepare_group(table, group.clone()).await?;
            // Only operations without an ETag of the caller are prepared again. If a condition of the caller fails, the caller gets the error.
            let is_retried = |e: &Error| {
                let failed = e
                    .failed_index()
                    .filter(|i| retries_conflict.get(*i) == Some(&true));
                let failed = failed.and_then(|i| group.operations().get(i));
                failed.is_some_and(|operation| another_attempt_may_succeed(operation, e))
            };
            match self.inner.transact(table, prepared).await {
                Err(error) if is_retried(&error) => conflicts.wait(error).await?,
                other => return other,
            }
        }
    }

    async fn encrypt_group(
        &self,
        table: &TableName,
        mut group: GroupTransaction,
    ) -> Result<GroupTransaction> {
        let id = self.table_id(table);
        for (index, slot) in group.operations_mut().iter_mut().enumerate() {
            // Encryption takes the operation by value. The delete only fills its place in the group until the next line; it is never sent,
            // because an error drops the whole group.
            let operation =
                std::mem::replace(slot, Operation::Delete(slot.key().clone(), IfMatch::Any));
            *slot = self
                .encrypt_operation(&id, operation)
                .await
                .map_err(|e| Error::in_transaction(index, e))?;
        }
        Ok(group)
    }

    /// Prepares the operations of a group, and returns for each whether it is prepared again after a
    /// conflict.
    async fn prepare_group(
        &self,
        table: &TableName,
        mut group: GroupTransaction,
    ) -> Result<(GroupTransaction, Vec<bool>)> {
        let operations: Vec<Operation> = group.operations().to_vec();
        let prepared: Vec<Prepared> = stream::iter(operations.into_iter().enumerate())
            .map(|(index, operation)| async move {
                let refusal = refusal(&operation);
                match (self.prepare(table, operation).await, refusal) {
                    (Err(e), Some(refusal))
                        if e.is_entity_not_found() || e.is_precondition_failed() =>
                    {
                        Ok(refusal)
                    }
                    (prepared, _) => prepared.map_err(|e| Error::in_transaction(index, e)),
                }
            })
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await?;
        let retries_conflict = prepared.iter().map(|p| p.retries_conflict).collect();
        for (slot, prepared) in group.operations_mut().iter_mut().zip(prepared) {
            *slot = prepared.operation;
        }
        Ok((group, retries_conflict))
    }
}

/// Whether the operation met another writer. A merge of a missing entity did not: that it is missing is the answer.
fn another_attempt_may_succeed(operation: &Operation, error: &Error) -> bool {
    let is_merge = matches!(operation, Operation::Merge(..));
    error.is_conflict() && !(is_merge && error.is_entity_not_found())
}

/// An ETag in the form of the service, with the first second of its range of times
/// (<https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model>), which no row that exists today
/// can have: a condition on it always fails.
const UNASSIGNED_ETAG: &str = "W/\"datetime'1601-01-01T00%3A00%3A00.0000000Z'\"";

/// Returns an operation that the store refuses in the same way as the merge, so that the store reports which
/// operation of the group fails first.
fn refusal(operation: &Operation) -> Option<Prepared> {
    let Operation::Merge(entity, version) = operation else {
        return None;
    };
    let retries_conflict = *version == IfMatch::Any;
    let version = if retries_conflict {
        IfMatch::Exactly(UNASSIGNED_ETAG.into())
    } else {
        version.clone()
    };
    Some(Prepared {
        operation: Operation::Merge(Entity::from(entity.key().clone()), version),
        retries_conflict,
    })
}
