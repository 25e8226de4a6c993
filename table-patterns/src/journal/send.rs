//! Step 4: the group transaction that commits a write.

use table_core::store::{Error, ErrorKind, GroupTransaction, Operation, Outcome, Result, Written};

use super::Journal;
use super::lease::Lease;
use super::plan::{Plan, violation};
use super::row::Evidence;
use super::rows::Own;
use super::rules::Rule;

/// What a group transaction came to.
pub(super) enum Sent {
    Committed(Vec<Written>),
    /// The journal row's key is taken by an abort row: start over under a new id.
    GivenUp,
    Failed(Error),
}

impl Journal {
    /// Sends the group, again where an entry of the partition is not as the plan took it to be. Each
    /// entry of the partition causes two repetitions at most.
    pub(super) async fn send(&self, plan: &Plan, lease: Lease) -> Sent {
        let mut operations = plan.operations.clone();
        for _ in 0..=2 * plan.local.len() {
            let error = match self.send_once(plan, &operations).await {
                Ok(written) => return Sent::Committed(written),
                Err(error) => error,
            };
            if let Err(end) = self.correct(plan, &mut operations, error, lease).await {
                return end;
            }
        }
        Sent::Failed(contended(plan))
    }

    async fn send_once(&self, plan: &Plan, operations: &[Operation]) -> Result<Vec<Written>> {
        let mut group = GroupTransaction::new(plan.partition.clone(), self.store.profile());
        for operation in operations {
            group.push(operation.clone())?;
        }
        if !plan.touched.is_empty() {
            group.push(Operation::Insert(self.journal_row(plan, None)?.to_entity()?))?;
        }
        self.store.transact(&self.table, group).await
    }

    /// Changes the operations so that they can be sent again, or says how the write ends.
    async fn correct(
        &self,
        plan: &Plan,
        operations: &mut Vec<Operation>,
        error: Error,
        lease: Lease,
    ) -> Result<(), Sent> {
        if error.is_ambiguous() {
            return Err(self.find_out(plan, error, lease).await);
        }
        let Some(index) = error.failed_index() else { return Err(Sent::Failed(error)) };
        match operations.get(index) {
            None if error.is_already_exists() => Err(Sent::GivenUp),
            // An entry of the partition that is not there need not be removed.
            Some(Operation::Delete(..)) if index >= plan.owners.len() && error.is_entity_not_found() => {
                operations.remove(index);
                Ok(())
            }
            Some(Operation::Insert(_)) if index >= plan.owners.len() && error.is_already_exists() => {
                self.keep_own(plan, &mut operations[index]).await.map_err(Sent::Failed)
            }
            _ => Err(Sent::Failed(inner(error))),
        }
    }

    /// An entry of the partition is there already: replaced if it is the entity's own.
    async fn keep_own(&self, plan: &Plan, operation: &mut Operation) -> Result<()> {
        let Operation::Insert(wanted) = operation else { return Ok(()) };
        match self.own_row(&self.table, wanted).await? {
            Own::Write(own) => *operation = own,
            Own::Other(owner) => {
                let entry = plan.local.iter().find(|e| e.location.key == *wanted.key());
                return Err(entry.map_or_else(|| contended(plan), |entry| violation(entry, &owner)));
            }
        }
        Ok(())
    }

    /// The answer was lost: the journal row is there, or an abort row is put in its place. Only while the
    /// writer's lease lasts: afterwards a worker may have finished the write and cleared the row.
    async fn find_out(&self, plan: &Plan, error: Error, lease: Lease) -> Sent {
        let knows = !plan.touched.is_empty() && (lease.may_send() || !self.keeps(Rule::FindOutInLease));
        if !knows {
            return Sent::Failed(error);
        }
        match self.abort(plan.id, plan.partition.as_str()).await {
            Ok(Some(Evidence::Abort)) => Sent::Failed(error.with_outcome(Outcome::NotApplied)),
            Ok(_) => Sent::Committed(vec![Written::default(); plan.operations.len()]),
            Err(_) => Sent::Failed(error),
        }
    }
}

/// The operation's own error: the caller has not seen the group.
fn inner(error: Error) -> Error {
    match error.into_kind() {
        ErrorKind::TransactionFailed { error, .. } => *error,
        kind => Error::new(kind),
    }
}

/// Others kept changing the same rows.
fn contended(plan: &Plan) -> Error {
    let table = plan.local.first().map_or_else(String::new, |e| e.location.table.to_string());
    let key = plan.owners.first().map_or_else(String::new, ToString::to_string);
    ErrorKind::PreconditionFailed { table, key }.into()
}
