//! Rows of remote entries: rows that hold one entry each, written in groups, and rows that hold the entries of several entities.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::index_name;
use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::store::{Error, GroupTransaction, Operation, Result};
use tokio::time::sleep;

use super::entity_table::{EntityTable, States};
use super::row::AffectedKey;
use crate::entry::row_properties::is_unique_row;
use crate::entry::shared::{
    Holder, Merge, Prepared, SharedRows, contended, held_by, key_collision,
};
use crate::entry::{Entry, Location};
use crate::rows::{accept_applied, random_pause};

/// What is to be done with a row.
enum OnRow {
    /// This operation.
    Operation(Operation),
    /// The row has become a unique row: rule U decides.
    Unique,
    /// Nothing, because the row belongs to another entity or index.
    Collision(Error),
}

/// The operations of a step that are not sent as they were planned.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Rows that have become unique rows: rule U decides about them.
    pub(super) unique: Vec<Location>,
    /// The errors of entries whose rows belong to others.
    pub(super) collisions: Vec<Error>,
}

/// Attempts with a shared row that other writers change.
const ROUNDS: u32 = 30;

/// Writes the rows of remote entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteRows<'a> {
    pub(super) entities: &'a EntityTable,
    pub(super) shared: SharedRows<'a>,
}

impl RemoteRows<'_> {
    /// Writes the plain entries of one partition in groups. Asks `may_send` before each group, and skips deletions of
    /// missing rows. Returns whether all were sent; the others stay in `operations`.
    ///
    /// # Errors
    /// Another entity has an entry with the same key: nothing of its group was written.
    pub(crate) async fn put_while(
        &self,
        to: &(TableName, PartitionKey),
        operations: &mut Vec<Operation>,
        may_send: impl FnMut() -> bool + Send,
    ) -> Result<bool> {
        self.put_rows(to, operations, &States::default(), may_send)
            .await
    }

    /// Writes plain entries as [`put_while`](Self::put_while) does, for the entities of one write, which are in `states`: a row that belongs
    /// to one of them may be taken over when that entity is deleted.
    ///
    /// # Errors
    /// A row belongs to another entity: its operation is no longer in `operations`, and the caller can go on with the others.
    pub(super) async fn put_rows(
        &self,
        to: &(TableName, PartitionKey),
        operations: &mut Vec<Operation>,
        states: &States,
        mut may_send: impl FnMut() -> bool + Send,
    ) -> Result<bool> {
        while !operations.is_empty() {
            let group = self.first_group(&to.1, operations)?;
            let taken = group.len();
            if !may_send() {
                return Ok(false);
            }
            // No bound on the repetitions: each caller drops the work at the end of its lease, or ends it by
            // `may_send`.
            match accept_applied(self.entities.store.transact(&to.0, group).await) {
                Ok(_) => drop(operations.drain(..taken)),
                Err(e) => self.rebase_failed(&to.0, operations, states, e).await?,
            }
        }
        Ok(true)
    }

    /// The first operations that fit into one group.
    fn first_group(
        &self,
        partition: &PartitionKey,
        operations: &[Operation],
    ) -> Result<GroupTransaction> {
        let mut group = GroupTransaction::new(partition.clone(), self.entities.store.profile());
        for operation in operations {
            if !group.is_empty() && !group.fits(operation) {
                break;
            }
            group.push(operation.clone())?;
        }
        Ok(group)
    }

    /// Rebases the operation that failed so that the group can be sent again, or returns the error.
    async fn rebase_failed(
        &self,
        table: &TableName,
        operations: &mut Vec<Operation>,
        states: &States,
        error: Error,
    ) -> Result<()> {
        let Some(failed) = error.failed_index().filter(|_| !error.is_ambiguous()) else {
            return Err(error);
        };
        match &operations[failed] {
            // Another applier of the same write has deleted the row: the group goes on without the operation.
            Operation::Delete(..) if error.is_entity_not_found() => drop(operations.remove(failed)),
            // Another applier has written the row since it was read.
            Operation::Delete(key, _) if error.is_precondition_failed() && !states.is_empty() => {
                match self.removal(table, key, states).await? {
                    Some(OnRow::Operation(delete)) => operations[failed] = delete,
                    // A unique row: the write that has made it one is responsible for it.
                    Some(OnRow::Unique | OnRow::Collision(_)) | None => {
                        operations.remove(failed);
                    }
                }
            }
            Operation::Insert(row) if error.is_already_exists() => {
                match self.put(table, row, states).await {
                    Ok(put) => operations[failed] = put,
                    Err(error) if error.is_key_collision() => {
                        operations.remove(failed);
                        return Err(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            Operation::Replace(row, _)
                if error.is_precondition_failed() || error.is_entity_not_found() =>
            {
                operations[failed] = Operation::Insert(row.clone());
            }
            _ => return Err(error),
        }
        Ok(())
    }

    /// The operation that writes an entry over the row that is there. 1 request, and 1 more if the row is an entry of another entity.
    ///
    /// # Errors
    /// A key collision: the row belongs to another entity that still has the entry, to another index, or to the index of another table, or it
    /// is an entity.
    async fn put(&self, table: &TableName, wanted: &Entity, states: &States) -> Result<Operation> {
        let Some(row) = self.entities.store.get(table, wanted.key(), None).await? else {
            return Ok(Operation::Insert(wanted.clone()));
        };
        let index = Entry::index_of(wanted).unwrap_or_default();
        let Some(owner) = self.entities.owner_of_entry(table, &row) else {
            return Err(key_collision(index, row.key(), row.key()));
        };
        // Of another generation of the index: an earlier one may have left the row.
        let is_of_index =
            Entry::index_of(&row).is_some_and(|of| index_name(of) == index_name(index));
        let is_gone = states.contains(&owner) && states.get(&owner).is_none();
        let is_own = is_of_index && owner == Entry::owner_of(wanted)?;
        // The row is read before its owner, and written in the version that was read: an owner that gets the entry again meets the new row.
        let is_free = is_gone
            || is_own
            || (is_of_index
                && !is_unique_row(&row)
                && !self.has_entry(table, row.key(), &owner, states).await?);
        if !is_free {
            return Err(held_by(index, row.key(), &owner));
        }
        Ok(Operation::Replace(wanted.clone(), row.version()?))
    }

    /// Whether an entity has an entry at a row. No request for an entity of the write, otherwise 1.
    async fn has_entry(
        &self,
        table: &TableName,
        row: &Key,
        owner: &Key,
        states: &States,
    ) -> Result<bool> {
        let at = Location {
            table: table.clone(),
            key: row.clone(),
        };
        if states.contains(owner) {
            return Ok(states.may_have(self.entities, owner, &at));
        }
        let mut owners = States::new(vec![owner.clone()]);
        owners.read_again(self.entities, owner).await?;
        Ok(owners.may_have(self.entities, owner, &at))
    }

    /// Checks before the commit of a write that the rows of its new entries are free, or belong to the entities of the write. `states` has the
    /// entities as the write will leave them. 1 request for each row, and 1 more for the row of another entity.
    ///
    /// # Errors
    /// A key collision.
    pub(super) async fn check_free(
        &self,
        rows: &[Entry],
        shared: &[Merge],
        states: &States,
    ) -> Result<()> {
        let rows = rows.iter().map(|entry| {
            Box::pin(async move {
                let row = entry.to_entity();
                self.put(&entry.location.table, &row, states)
                    .await
                    .map(drop)
            }) as BoxFuture<'_, Result<()>>
        });
        let shared = shared
            .iter()
            .map(|merge| Box::pin(self.shared.check(merge)) as BoxFuture<'_, Result<()>>);
        let checked = self.entities.all_of(rows.chain(shared).collect()).await;
        checked.into_iter().collect()
    }

    /// The deletion of a row, if the row belongs to an entity of the write. 1 request.
    async fn removal(
        &self,
        table: &TableName,
        key: &Key,
        states: &States,
    ) -> Result<Option<OnRow>> {
        let row = self.entities.store.get(table, key, None).await?;
        let is_own = |row: &Entity| {
            self.entities
                .owner_of_entry(table, row)
                .is_some_and(|owner| states.contains(&owner))
        };
        let Some(row) = row.filter(is_own) else {
            return Ok(None);
        };
        // `ByDefinition`: a unique row must not be overwritten or deleted as a plain one.
        if is_unique_row(&row) {
            return Ok(Some(OnRow::Unique));
        }
        Ok(Some(OnRow::Operation(Operation::Delete(
            key.clone(),
            row.version()?,
        ))))
    }

    /// Brings the changes and deletions of rows to the rows that are there. A row that is not there is inserted or left out. A
    /// row of another entity, or of an index of another table, is neither changed nor deleted. 1 request per change and deletion.
    pub(super) async fn on_own_rows(
        &self,
        table: &TableName,
        operations: &mut Vec<Operation>,
        states: &States,
    ) -> Result<LeftOut> {
        let reads: Vec<_> = operations
            .iter()
            .map(|operation| self.on_own_row(table, operation, states))
            .collect();
        let found: Vec<_> = stream::iter(reads)
            .buffered(self.entities.parallel_requests())
            .try_collect()
            .await?;
        let (mut kept, mut left_out) = (Vec::with_capacity(found.len()), LeftOut::default());
        for (operation, found) in operations.iter().zip(found) {
            match found {
                Some(OnRow::Operation(operation)) => kept.push(operation),
                Some(OnRow::Collision(error)) => left_out.collisions.push(error),
                Some(OnRow::Unique) => {
                    left_out.unique.push(Location {
                        table: table.clone(),
                        key: operation.key().clone(),
                    });
                }
                None => {}
            }
        }
        *operations = kept;
        Ok(left_out)
    }

    async fn on_own_row(
        &self,
        table: &TableName,
        operation: &Operation,
        states: &States,
    ) -> Result<Option<OnRow>> {
        match operation {
            Operation::Delete(key, _) => self.removal(table, key, states).await,
            Operation::InsertOrReplace(row) => match self.put(table, row, states).await {
                Err(error) if error.is_key_collision() => Ok(Some(OnRow::Collision(error))),
                put => put.map(|put| Some(OnRow::Operation(put))),
            },
            // An insert needs no read: it fails if the row exists.
            other => Ok(Some(OnRow::Operation(other.clone()))),
        }
    }

    /// Applies the change of one shared row for the entities of one write, which are in `states`. Asks `may_send` before each write. 2 requests,
    /// repeated after conflicts.
    ///
    /// # Errors
    /// A key collision: the row belongs to another index or entity. A conflict if that entity has given the row up, but is still in it: the
    /// journal row of its write leads an applier to the row.
    pub(super) async fn merge(
        &self,
        merge: &Merge,
        states: &States,
        may_send: impl Fn() -> bool + Send,
    ) -> Result<bool> {
        for round in 0..ROUNDS {
            let prepared = match self.shared.prepare(merge).await {
                Err(error) if error.is_key_collision() => {
                    let (at, holder) = (&merge.at, Holder::of(&error));
                    let is_held = match holder {
                        Some(owner) => self.has_entry(&at.table, &at.key, owner, states).await?,
                        None => true,
                    };
                    return Err(if is_held { error } else { contended(at) });
                }
                prepared => prepared?,
            };
            if prepared.operations.is_empty() {
                return Ok(true);
            }
            if !may_send() {
                self.shared.discard_new_blobs([prepared]).await;
                return Ok(false);
            }
            if self.shared.send(&merge.at, prepared).await? {
                return Ok(true);
            }
            sleep(random_pause(round, 4)).await;
        }
        Err(contended(&merge.at))
    }

    /// Applies the changes of shared rows of one partition, as many in a group as fit. Returns whether all were sent;
    /// the others stay in `merges`.
    pub(crate) async fn merge_while(
        &self,
        to: &(TableName, PartitionKey),
        merges: &mut Vec<Merge>,
        mut may_send: impl FnMut() -> bool + Send,
    ) -> Result<bool> {
        let mut failures = 0;
        while !merges.is_empty() {
            let some = merges
                .len()
                .min(self.entities.store.profile().group_operations);
            let rows = self.shared;
            // Collected first: with a closure over borrowed merges in the stream, the future would not be `Send`.
            let reads: Vec<_> = merges[..some]
                .iter()
                .map(|merge| rows.prepare(merge))
                .collect();
            let prepared: Vec<_> = stream::iter(reads)
                .buffered(self.entities.concurrency)
                .try_collect()
                .await?;
            let (group, taken, left) = self.first_merges(&to.1, prepared)?;
            // The next group prepares them again, from the rows as they are then.
            self.shared.discard_new_blobs(left).await;
            if !group.is_empty() && !may_send() {
                self.shared.discard_new_blobs(taken).await;
                return Ok(false);
            }
            let count = taken.len();
            if self.send_merges(&to.0, group, taken).await? {
                drop(merges.drain(..count));
                failures = 0;
                continue;
            }
            failures += 1;
            if failures > ROUNDS {
                return Err(contended(&merges[0].at));
            }
            sleep(random_pause(failures, 4)).await;
        }
        Ok(true)
    }

    /// The changes that fit into one group, and the remaining ones.
    fn first_merges(
        &self,
        partition: &PartitionKey,
        prepared: Vec<Prepared>,
    ) -> Result<(GroupTransaction, Vec<Prepared>, Vec<Prepared>)> {
        let mut group = GroupTransaction::new(partition.clone(), self.entities.store.profile());
        let (mut taken, mut left) = (Vec::new(), prepared.into_iter());
        for prepared in left.by_ref() {
            // In a copy: either all operations of a change are in the group, or none.
            let mut longer = group.clone();
            let fits = prepared
                .operations
                .iter()
                .try_for_each(|o| longer.push(Operation::clone(o)));
            match fits {
                Ok(()) => (group, _) = (longer, taken.push(prepared)),
                Err(error) if taken.is_empty() => return Err(error),
                Err(_) => {
                    let left = std::iter::once(prepared).chain(left).collect();
                    return Ok((group, taken, left));
                }
            }
        }
        Ok((group, taken, Vec::new()))
    }

    async fn send_merges(
        &self,
        table: &TableName,
        group: GroupTransaction,
        taken: Vec<Prepared>,
    ) -> Result<bool> {
        let sent = if group.is_empty() {
            Ok(Vec::new())
        } else {
            self.entities.store.transact(table, group).await
        };
        match accept_applied(sent) {
            Ok(_) => self.shared.discard_old_blobs(taken).await,
            Err(error) if error.is_ambiguous() => return Err(error),
            Err(error) => {
                self.shared.discard_new_blobs(taken).await;
                return if error.is_conflict() {
                    Ok(false)
                } else {
                    Err(error)
                };
            }
        }
        Ok(true)
    }
}

type ByPartition = BTreeMap<(TableName, PartitionKey), Vec<Operation>>;

/// The operations that make the affected keys agree with the wanted entries, by partition. Rows that should not exist are inserted,
/// so that a collision fails: new keys, and keys that had another kind of row when the write was planned. Of the other keys
/// [`on_own_rows`](RemoteRows::on_own_rows) reads the rows.
pub(super) fn operations(
    affected: Vec<(Location, &AffectedKey)>,
    wanted: &BTreeMap<Location, Entry>,
) -> ByPartition {
    let mut by_partition = ByPartition::new();
    for (at, affected) in affected {
        let is_new = affected.added || affected.unique || affected.shared.is_some();
        let operation = match wanted.get(&at) {
            Some(entry) if is_new => Operation::Insert(entry.to_entity()),
            Some(entry) => Operation::InsertOrReplace(entry.to_entity()),
            None => Operation::Delete(at.key.clone(), IfMatch::Any),
        };
        by_partition
            .entry((at.table, at.key.partition_key()))
            .or_default()
            .push(operation);
    }
    by_partition
}
