use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch, TableName};
use table_core::store::{Conflicts, Error, GroupTransaction, Operation, Result, TableStore, Written};

use super::EncryptedStore;
use super::merge::{Prepared, reads_first};

/// Maximum number of entities that a group reads concurrently for its merges.
const IN_PARALLEL: usize = 16;

impl<S: TableStore> EncryptedStore<S> {
    pub(super) async fn write_group(
        &self,
        table: &TableName,
        group: GroupTransaction,
    ) -> Result<Vec<Written>> {
        if !group.operations().iter().any(reads_first) {
            return self.inner.transact(table, self.encrypt_group(table, group).await?).await;
        }
        let mut conflicts = Conflicts::new(self.shared.attempts);
        loop {
            let (prepared, again) = self.prepare_group(table, group.clone()).await?;
            // Only operations without an ETag of the caller are prepared again. If the caller's own condition fails, the caller must know.
            let ours = |e: &Error| e.failed_index().is_some_and(|i| again.get(i) == Some(&true));
            match self.inner.transact(table, prepared).await {
                Err(error) if ours(&error) && error.is_conflict() => conflicts.wait(error).await?,
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
            let operation = std::mem::replace(slot, Operation::Delete(slot.key().clone(), IfMatch::Any));
            *slot =
                self.encrypt_operation(&id, operation).await.map_err(|e| Error::in_transaction(index, e))?;
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
                    (Err(e), Some(refusal)) if e.is_entity_not_found() || e.is_precondition_failed() => {
                        Ok(refusal)
                    }
                    (prepared, _) => prepared.map_err(|e| Error::in_transaction(index, e)),
                }
            })
            .buffered(IN_PARALLEL)
            .try_collect()
            .await?;
        let again = prepared.iter().map(|p| p.again).collect();
        for (slot, prepared) in group.operations_mut().iter_mut().zip(prepared) {
            *slot = prepared.operation;
        }
        Ok((group, again))
    }
}

/// An ETag of the valid form that no service assigns.
const NEVER: &str = "W/\"datetime'1601-01-01T00%3A00%3A00.0000000Z'\"";

/// Returns an operation that the store refuses in the same way as the merge, so that the store reports which
/// operation of the group fails first.
fn refusal(operation: &Operation) -> Option<Prepared> {
    let Operation::Merge(entity, version) = operation else { return None };
    let again = *version == IfMatch::Any;
    let version = if again { IfMatch::Exactly(NEVER.into()) } else { version.clone() };
    Some(Prepared { operation: Operation::Merge(Entity::from(entity.key().clone()), version), again })
}
