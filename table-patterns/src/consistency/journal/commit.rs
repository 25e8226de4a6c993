//! Step 4: the group transaction that commits a write. It contains the entities, their local entries (rows of their partition), and the
//! journal row (`docs/protocol.md`, *A write*).
//!
//! The group is under the ETag of each entity, so the states from which the plan derived its entries are the stored ones. Rows of the partition
//! that belong to entries may differ from the plan; the group is then *rebased* on what is stored, and sent again. The insert of the journal row
//! fails if an abort row is at its key: then another process has given the write up, and may have released its reservations.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::index_name;
use table_core::model::{ETag, Entity, Key};
use table_core::store::{
    Error, ErrorKind, GroupTransaction, LimitKind, Operation, Outcome, Result, Written,
};
use tokio::time::{Instant, sleep};

use super::entity_table::{EntityTable, States};
use super::lease::{Lease, Timing, before};
use super::plan::{Plan, violation};
use super::row::{Evidence, JournalRow, JournalRows};
use crate::entry::shared::feed::Counters;
use crate::entry::shared::{Merge, Prepared, SharedRows};
use crate::entry::{Entry, Location};
use crate::rows::{is_of_later_version, random_pause};

/// The outcome of a group transaction.
pub(super) enum Sent {
    Committed(Vec<Written>),
    /// The write starts over under a new write id.
    StartOver(Cause),
    Failed(Error),
}

/// The reason why a write starts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// An abort row is at the key of the journal row: another process has given the write up.
    AbortRow,
    /// The index states expired; the value is the time since the plan was made.
    StatesExpired(Duration),
    /// The lease of the reservations expired; the value is the time since the plan was made.
    LeaseExpired(Duration),
}

/// The group in the form in which it is sent next.
struct Draft {
    /// The operations of the entities, then those of the local entries.
    rows: Vec<Operation>,
    /// The prepared changes of shared rows; `None` for rows that must be read again.
    shared: Vec<Option<Prepared>>,
    /// The last number of a change that another row had already.
    taken: Option<i64>,
}

/// The part of a draft to which an operation belongs.
enum Part {
    Row(usize),
    /// A shared row, and the position of the operation among those of the row.
    Shared(usize, usize),
    Journal,
}

impl Draft {
    fn new(plan: &Plan) -> Self {
        Self {
            rows: plan.operations.clone(),
            shared: plan.shared.iter().map(|_| None).collect(),
            taken: None,
        }
    }

    fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.rows
            .iter()
            .chain(self.shared.iter().flatten().flat_map(Prepared::in_group))
    }

    fn part(&self, mut index: usize) -> Part {
        if index < self.rows.len() {
            return Part::Row(index);
        }
        index -= self.rows.len();
        for (n, prepared) in self.shared.iter().enumerate() {
            let length = prepared.as_ref().map_or(0, |p| p.in_group().count());
            if index < length {
                return Part::Shared(n, index);
            }
            index -= length;
        }
        Part::Journal
    }

    /// Refuses a group of too many operations, by an error that says what they are.
    fn check_operations(&self, plan: &Plan, most: usize) -> Result<()> {
        let (mut shared, mut of_feed) = (0, 0);
        for prepared in self.shared.iter().flatten() {
            match prepared.numbers {
                Some(_) => of_feed += prepared.in_group().count(),
                None => shared += prepared.in_group().count(),
            }
        }
        let journal = usize::from(plan.has_journal());
        let all = self.rows.len() + shared + of_feed + journal;
        if all <= most {
            return Ok(());
        }
        let (entities, entries) = (
            plan.of_entities,
            self.rows.len() - plan.of_entities + shared,
        );
        let quantity = format!(
            "operations in a group transaction ({entities} of entities, {entries} of index entries, {of_feed} of the feed, {journal} of the journal: \
             write fewer entities at once)"
        );
        Err(Error::limit_of_kind(
            LimitKind::GroupOperations,
            quantity,
            most,
            all,
        ))
    }

    /// Remembers the counters of changes after the group was committed. `written` is its answer.
    fn counters_committed(&self, counters: &Counters, written: &[Written]) {
        let mut end = self.rows.len();
        for prepared in self.shared.iter().flatten() {
            end += prepared.in_group().count();
            if let Some(numbers) = &prepared.numbers {
                // The counter is the last operation of its row.
                let version = end.checked_sub(1).and_then(|last| written.get(last));
                numbers.committed(counters, version.and_then(|written| written.etag.clone()));
            }
        }
    }

    /// Remembers the counters of changes of a group that was not applied. The counter at which it failed is not in the draft any more.
    fn counters_unused(&self, counters: &Counters) {
        let prepared = self.shared.iter().flatten();
        prepared
            .filter_map(|prepared| prepared.numbers.as_ref())
            .for_each(|numbers| numbers.unused(counters));
    }

    fn has_blobs(&self) -> bool {
        self.shared.iter().flatten().any(Prepared::has_blobs)
    }

    /// Whether the group depends on the lease. After the lease other processes may take away its blobs, its
    /// reservations and the ticket that points at its journal row.
    fn is_leased(&self, plan: &Plan) -> bool {
        // `BlobInLease`, `CommitInLease`: a late commit would name a blob that was collected, or take a value
        // that belongs to another entity by now.
        self.has_blobs() || plan.has_journal()
    }

    fn take_shared(&mut self) -> impl Iterator<Item = Prepared> + Send + use<> {
        std::mem::take(&mut self.shared).into_iter().flatten()
    }
}

/// Attempts of a group whose shared rows other writers change.
const SHARED_ROUNDS: usize = 100;

/// Commits planned writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Committer<'a> {
    pub(super) entities: &'a EntityTable,
    pub(super) rows: JournalRows<'a>,
    pub(super) shared: SharedRows<'a>,
    pub(super) timing: Timing,
}

impl Committer<'_> {
    /// Sends the group. Sends it again if a row of the partition is not as planned or as read last: at most 2 repetitions per local
    /// entry, and 100 more if the group has shared rows, in one budget.
    pub(super) async fn commit(&self, plan: &Plan, lease: Lease) -> Sent {
        let mut draft = Draft::new(plan);
        let sent = self.commit_draft(plan, &mut draft, lease).await;
        match &sent {
            Sent::Committed(written) => {
                draft.counters_committed(self.shared.counters, written);
                self.shared.discard_old_blobs(draft.take_shared()).await;
            }
            // The row may name the new blob or still the old one: neither is deleted (`DoubtKeepsBlobs`). A
            // collection deletes the blob that no row names.
            Sent::Failed(error) if error.is_ambiguous() => {}
            _ => {
                draft.counters_unused(self.shared.counters);
                self.shared.discard_new_blobs(draft.take_shared()).await;
            }
        }
        sent
    }

    /// Sends the draft until it is committed, or returns how the write ends. The caller deletes the blobs that the draft leaves unused.
    async fn commit_draft(&self, plan: &Plan, draft: &mut Draft, lease: Lease) -> Sent {
        let shared = if plan.shared.is_empty() {
            0
        } else {
            SHARED_ROUNDS
        };
        if let Err(error) = self.read_local_conflicts(plan, draft).await {
            return Sent::Failed(error.with_outcome(Outcome::NotApplied));
        }
        for round in 0..=2 * plan.local.len() + shared {
            if let Err(error) = self.read_shared(plan, draft).await {
                return Sent::Failed(error.with_outcome(Outcome::NotApplied));
            }
            // Without these checks a late group could commit on stale data: index states may have changed twice since
            // the plan was made, a new blob may have been collected, or the abort row that stopped this writer may be
            // swept and its reservation may belong to another entity.
            if !plan.is_valid() {
                return Sent::StartOver(Cause::StatesExpired(plan.made.elapsed()));
            }
            if draft.is_leased(plan) && !lease.may_send() {
                return Sent::StartOver(Cause::LeaseExpired(plan.made.elapsed()));
            }
            let group = match self.group(plan, draft) {
                Ok(group) => group,
                Err(error) => return Sent::Failed(error),
            };
            let sent = self.entities.store.transact(&self.entities.name, group);
            let sent = match self.deadline(plan, draft, lease) {
                Some(until) => self.timing.until(until, sent).await,
                None => sent.await,
            };
            let error = match sent {
                Ok(written) => return Sent::Committed(written),
                Err(error) if error.outcome() == Outcome::Applied => {
                    tracing::debug!(%error, write = %plan.id, "the answer to a commit cannot be read: the commit has taken effect");
                    return Sent::Committed(unknown_versions(plan));
                }
                Err(error) => error,
            };
            if let Err(end) = self.rebase_draft(plan, draft, error, lease).await {
                return end;
            }
            if draft.shared.iter().any(Option::is_none) {
                sleep(random_pause(round.try_into().unwrap_or(u32::MAX), 4)).await;
            }
        }
        Sent::Failed(contended(plan))
    }

    /// Reads the shared rows that were not read yet or have changed.
    async fn read_shared(&self, plan: &Plan, draft: &mut Draft) -> Result<()> {
        let open: Vec<_> = (0..plan.shared.len())
            .filter(|n| draft.shared[*n].is_none())
            .collect();
        let reads = open
            .iter()
            .map(|n| self.read_one(&plan.shared[*n], draft.taken))
            .collect::<Vec<_>>();
        for (n, read) in open.iter().zip(
            stream::iter(reads)
                .buffered(self.entities.concurrency)
                .collect::<Vec<_>>()
                .await,
        ) {
            draft.shared[*n] = Some(read?);
        }
        Ok(())
    }

    /// Reads a shared row and prepares its change.
    ///
    /// # Errors
    /// The target of a copy does not exist; a row that no feed has written has the number of the next change.
    async fn read_one(&self, merge: &Merge, taken: Option<i64>) -> Result<Prepared> {
        // `CounterReadAgain`: if the number was taken, the counter comes from the table. Another task of this process may have remembered it,
        // or may remember it at any moment, as it was before the change was written that has the number.
        let unknown = Counters::default();
        let counters = match taken {
            Some(_) => &unknown,
            None => self.shared.counters,
        };
        let shared = SharedRows {
            counters,
            ..self.shared
        };
        // `ConditionOnUnchanged`: also where the row needs no change, the group gets a condition on it.
        // Otherwise the row could lose the reference between this read and the commit.
        let read = shared.prepare(merge).await?;
        if let (Some(numbers), Some(taken)) = (&read.numbers, taken) {
            numbers.check_unused(taken)?;
        }
        if read.without_target {
            let (index, target) = (index_name(&merge.index), &merge.at.key);
            return Err(Error::wrong_state(format!(
                "the index '{index}' copies into {target}, which does not exist: write the target first, or in the same group"
            )));
        }
        Ok(read)
    }

    /// The time at which a group that is under way is dropped: the end of the use of its index states, or of its lease. `None`: never.
    fn deadline(&self, plan: &Plan, draft: &Draft, lease: Lease) -> Option<Instant> {
        // `Plan::is_valid` was checked just before the send; from then on, the group may run for the client's
        // part of its life.
        let states = plan
            .permission
            .valid_until
            .map(|until| until + self.timing.client());
        let leased = draft.is_leased(plan).then(|| lease.cut_off());
        states.into_iter().chain(leased).min()
    }

    /// The group in the form of the draft.
    fn group(&self, plan: &Plan, draft: &Draft) -> Result<GroupTransaction> {
        let profile = self.entities.store.profile();
        draft.check_operations(plan, profile.group_operations)?;
        let mut group = GroupTransaction::new(plan.partition.clone(), profile);
        for operation in draft.operations() {
            group.push(operation.clone())?;
        }
        if plan.has_journal() {
            // Last in the group: the writer takes the version of the journal row from the end of the answer.
            group.push(Operation::Insert(
                self.journal_row(plan, None)?.to_entity()?,
            ))?;
        }
        Ok(group)
    }

    /// The journal row of a plan: without an ETag before the commit, with the ETag of the group's answer after it.
    pub(super) fn journal_row(&self, plan: &Plan, etag: Option<ETag>) -> Result<JournalRow> {
        Ok(JournalRow {
            id: plan.id,
            key: plan.id.key(plan.partition.as_str())?,
            etag,
            rows: plan.owners.iter().map(|k| k.row().to_owned()).collect(),
            affected: plan.affected.clone(),
            source: plan.source.as_ref().map(|source| source.key().clone()),
            claim: None,
            lease: self.timing.lease(),
        })
    }

    /// Rebases the draft after an error so that it can be sent again, or returns how the write ends.
    async fn rebase_draft(
        &self,
        plan: &Plan,
        draft: &mut Draft,
        error: Error,
        lease: Lease,
    ) -> Result<(), Sent> {
        if error.is_ambiguous() {
            return Err(self.resolve_lost_commit(plan, error, lease).await);
        }
        let Some(failed) = error.failed_index() else {
            return Err(Sent::Failed(error));
        };
        match draft.part(failed) {
            // Only an abort row can be at the key of a fresh write id.
            Part::Journal if error.is_already_exists() => Err(Sent::StartOver(Cause::AbortRow)),
            // Out of the draft, so that the next round reads the row again. The blob that was prepared for it
            // was never named by a row, and is deleted.
            Part::Shared(n, position) if error.is_conflict() => {
                let numbers = draft.shared[n].as_ref().and_then(|p| p.numbers.as_ref());
                let number = numbers.and_then(|numbers| numbers.at(position));
                draft.taken = number.filter(|_| error.is_already_exists()).or(draft.taken);
                self.shared.discard_new_blobs(draft.shared[n].take()).await;
                Ok(())
            }
            // A conflict of an entity ends the write, because its entries were planned from another state.
            Part::Row(n) if n >= plan.of_entities => {
                self.rebase_local_entry(plan, draft, n, error).await
            }
            _ => Err(Sent::Failed(without_group(error))),
        }
    }

    /// Resolves a commit whose answer was lost: either the journal row is there, or an abort row takes its place.
    /// Both the decision and the abort row must happen within the writer's lease: afterwards a worker may have
    /// finished the write and cleared its journal row.
    async fn resolve_lost_commit(&self, plan: &Plan, error: Error, lease: Lease) -> Sent {
        // Without a journal row, nothing in the table says whether the group took effect.
        if !plan.has_journal() {
            return Sent::Failed(error);
        }
        let abort = self.rows.abort(plan.id, plan.partition.as_str());
        // `FindOutInLease`: later, a missing journal row would prove nothing. A worker may have applied the
        // write and cleared the row, and an abort row in its place would make a committed write look like a
        // failed one.
        let found = if lease.may_send() {
            before(lease.cut_off(), abort).await
        } else {
            None
        };
        match found {
            Some(Ok(Some(Evidence::Abort))) => {
                Sent::Failed(error.with_outcome(Outcome::NotApplied))
            }
            // A journal row; or no row, where one was a moment ago. Abort rows stay, so that was a journal
            // row too.
            Some(Ok(_)) => Sent::Committed(unknown_versions(plan)),
            Some(Err(_)) | None => Sent::Failed(error),
        }
    }

    /// Reads the rows of local entries whose owner the plan does not know: while an index is built, another entity
    /// may have the row. 1 request for each.
    async fn read_local_conflicts(&self, plan: &Plan, draft: &mut Draft) -> Result<()> {
        let reads = plan
            .unknown_owner
            .iter()
            .map(|n| self.rebase_operation(plan, &draft.rows[*n]))
            .collect::<Vec<_>>();
        let seen: Vec<_> = stream::iter(reads)
            .buffered(self.entities.concurrency)
            .try_collect()
            .await?;
        // From the last one to the first: a removed operation does not move the others.
        for (n, operation) in plan.unknown_owner.iter().zip(seen).rev() {
            replace_or_remove(draft, *n, operation);
        }
        Ok(())
    }

    /// Rebases the failed operation on a local entry, which is at this position of the draft, so that the group can be sent again, or
    /// returns how the write ends.
    async fn rebase_local_entry(
        &self,
        plan: &Plan,
        draft: &mut Draft,
        position: usize,
        error: Error,
    ) -> Result<(), Sent> {
        let row_differs = error.is_already_exists()
            || error.is_precondition_failed()
            || error.is_entity_not_found();
        if !row_differs {
            return Err(Sent::Failed(without_group(error)));
        }
        let seen = match &draft.rows[position] {
            // A missing row need not be deleted.
            Operation::Delete(..) if error.is_entity_not_found() => None,
            operation => self
                .rebase_operation(plan, operation)
                .await
                .map_err(Sent::Failed)?,
        };
        replace_or_remove(draft, position, seen);
        Ok(())
    }

    /// The operation with the same effect on the row that is stored now. `None` if there is nothing to delete, if the
    /// row belongs to no entity of the write, or if another entity has the row of a value that both have had.
    ///
    /// # Errors
    /// Another entity has the entry key.
    async fn rebase_operation(
        &self,
        plan: &Plan,
        operation: &Operation,
    ) -> Result<Option<Operation>> {
        let row = self
            .entities
            .store
            .get(&self.entities.name, operation.key(), None)
            .await?;
        let Some(wanted) = operation.entity() else {
            let own = row.filter(|row| {
                self.owner_of(row)
                    .is_some_and(|owner| plan.owners.contains(&owner))
            });
            return own
                .map(|row| Ok(Operation::Delete(row.key().clone(), row.version()?)))
                .transpose();
        };
        let Some(row) = row else {
            return Ok(Some(Operation::Insert(wanted.clone())));
        };
        let holder = match self.owner_of(&row) {
            // An entity, or an entry of an index of another table.
            None => Some(row.key().clone()),
            Some(owner) if plan.owners.contains(&owner) => None,
            Some(owner) => self.has_entry(&owner, row.key()).await?.then_some(owner),
        };
        if let Some(owner) = holder {
            return match plan
                .local
                .iter()
                .find(|entry| entry.location.key == *wanted.key())
            {
                // The row stays with the other entity: the build of the index reports both as duplicates.
                Some(entry) if self.had_same_value(plan, entry) => Ok(None),
                Some(entry) => Err(violation(entry, &owner)),
                None => Err(contended(plan)),
            };
        }
        Ok(Some(Operation::Replace(wanted.clone(), row.version()?)))
    }

    /// The owner of a row of the table that one of its indexes has written.
    fn owner_of(&self, row: &Entity) -> Option<Key> {
        self.entities.owner_of_entry(&self.entities.name, row)
    }

    /// Whether an entity keeps a value of a unique index that is not complete. Two entities may have had the value
    /// before, and the other one has the row.
    fn had_same_value(&self, plan: &Plan, entry: &Entry) -> bool {
        let kept = |operation: &Operation| matches!(operation, Operation::InsertOrReplace(_));
        let planned = plan
            .operations
            .iter()
            .find(|operation| *operation.key() == entry.location.key);
        entry.unique
            && planned.is_some_and(kept)
            && !self.entities.maintainer.is_complete(&entry.index)
    }

    /// Whether an entity has an entry at a key of the table. A row that its owner no longer wants may be overwritten
    /// in the version that was read: an owner that wants it again meets the new row.
    async fn has_entry(&self, owner: &Key, key: &Key) -> Result<bool> {
        let at = Location {
            table: self.entities.name.clone(),
            key: key.clone(),
        };
        let mut states = States::new(vec![owner.clone()]);
        states.read_again(self.entities, owner).await?;
        match states.entry_at(self.entities, owner, &at) {
            // As for a remote row: the owner of a later schema version keeps the row.
            Err(error) if is_of_later_version(&error) => Ok(true),
            entry => Ok(entry?.is_some()),
        }
    }
}

/// The result of a commit whose new versions are unknown.
fn unknown_versions(plan: &Plan) -> Vec<Written> {
    vec![Written::default(); plan.operations.len()]
}

/// The error of the single operation: the caller does not know the group.
fn without_group(error: Error) -> Error {
    match error.into_kind() {
        ErrorKind::TransactionFailed { error, .. } => *error,
        kind => Error::new(kind),
    }
}

/// The error after other writers have changed the same rows too often.
fn contended(plan: &Plan) -> Error {
    let table = plan
        .local
        .first()
        .map_or_else(String::new, |e| e.location.table.to_string());
    let key = plan
        .owners
        .first()
        .map_or_else(String::new, ToString::to_string);
    Error::precondition_failed(table, key)
}

/// Replaces the operation at this position of the draft, or removes it.
fn replace_or_remove(draft: &mut Draft, n: usize, operation: Option<Operation>) {
    match operation {
        Some(operation) => draft.rows[n] = operation,
        None => drop(draft.rows.remove(n)),
    }
}

#[cfg(test)]
mod tests;
