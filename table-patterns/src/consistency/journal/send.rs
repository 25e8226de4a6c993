//! Step 4: the group transaction that commits a write.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use table_core::manifest::index_name;
use table_core::store::{Error, ErrorKind, GroupTransaction, Operation, Outcome, Result, Written};
use tokio::time::{Instant, sleep};

use super::Journal;
use super::lease::{Lease, before};
use super::merge::pause;
use super::plan::Plan;
use super::row::Evidence;
use crate::entry::shared::{Merge, Prepared};

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
pub(super) struct Draft {
    /// The operations of the entities, then those of the local entries.
    pub(super) rows: Vec<Operation>,
    /// The prepared changes of shared rows; `None` for rows that must be read again.
    shared: Vec<Option<Prepared>>,
}

/// The part of a draft to which an operation belongs.
enum Part {
    Row(usize),
    Shared(usize),
    Journal,
}

impl Draft {
    fn new(plan: &Plan) -> Self {
        Self { rows: plan.operations.clone(), shared: plan.shared.iter().map(|_| None).collect() }
    }

    fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.rows.iter().chain(self.shared.iter().flatten().flat_map(Prepared::in_group))
    }

    fn part(&self, mut index: usize) -> Part {
        if index < self.rows.len() {
            return Part::Row(index);
        }
        index -= self.rows.len();
        for (n, prepared) in self.shared.iter().enumerate() {
            let length = prepared.as_ref().map_or(0, |p| p.in_group().count());
            if index < length {
                return Part::Shared(n);
            }
            index -= length;
        }
        Part::Journal
    }

    fn has_blobs(&self) -> bool {
        self.shared.iter().flatten().any(Prepared::has_blobs)
    }

    fn take_shared(&mut self) -> impl Iterator<Item = Prepared> + Send + use<> {
        std::mem::take(&mut self.shared).into_iter().flatten()
    }
}

/// Attempts of a group whose shared rows other writers change.
const SHARED_ROUNDS: usize = 100;

impl Journal {
    /// Sends the group. Sends it again if a row of the partition is not as planned or as read last. Each local entry
    /// causes at most 2 repetitions, all shared rows together at most 100.
    pub(super) async fn send(&self, plan: &Plan, lease: Lease) -> Sent {
        let mut draft = Draft::new(plan);
        let sent = self.send_draft(plan, &mut draft, lease).await;
        match &sent {
            Sent::Committed(_) => self.shared().applied(draft.take_shared()).await,
            Sent::Failed(error) if error.is_ambiguous() => {}
            _ => self.shared().refused(draft.take_shared()).await,
        }
        sent
    }

    async fn send_draft(&self, plan: &Plan, draft: &mut Draft, lease: Lease) -> Sent {
        let shared = if plan.shared.is_empty() { 0 } else { SHARED_ROUNDS };
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
            if self.is_leased(plan, draft) && !lease.may_send() {
                return Sent::StartOver(Cause::LeaseExpired(plan.made.elapsed()));
            }
            let until = self.deadline(plan, draft, lease);
            let error = match self.send_once(plan, draft, until).await {
                Ok(written) => return Sent::Committed(written),
                Err(error) => error,
            };
            if let Err(end) = self.rebase_draft(plan, draft, error, lease).await {
                return end;
            }
            if draft.shared.iter().any(Option::is_none) {
                sleep(pause(round.try_into().unwrap_or(u32::MAX))).await;
            }
        }
        Sent::Failed(contended(plan))
    }

    /// Reads the shared rows that were not read yet or have changed.
    async fn read_shared(&self, plan: &Plan, draft: &mut Draft) -> Result<()> {
        let open: Vec<_> = (0..plan.shared.len()).filter(|n| draft.shared[*n].is_none()).collect();
        let reads = open.iter().map(|n| self.read_one(&plan.shared[*n])).collect::<Vec<_>>();
        for (n, read) in
            open.iter().zip(stream::iter(reads).buffered(self.concurrency).collect::<Vec<_>>().await)
        {
            draft.shared[*n] = Some(read?);
        }
        Ok(())
    }

    async fn read_one(&self, merge: &Merge) -> Result<Prepared> {
        let read = self.shared().prepare(merge).await?;
        if read.without_target {
            let (index, target) = (index_name(&merge.index), &merge.at.key);
            return Err(Error::invalid_request(format!(
                "the index '{index}' copies into {target}, which does not exist: write the target first, or in the same group"
            )));
        }
        Ok(read)
    }

    /// The time after which the group must not be sent: its index states or its lease have expired.
    fn deadline(&self, plan: &Plan, draft: &Draft, lease: Lease) -> Option<Instant> {
        let states = plan.permission.valid_until.map(|until| until + self.timing.client());
        let leased = self.is_leased(plan, draft).then(|| lease.cut_off());
        states.into_iter().chain(leased).min()
    }

    /// Whether the group depends on the lease. After the lease other processes may take away its blobs, its
    /// reservations and the ticket that points at its journal row.
    fn is_leased(&self, plan: &Plan, draft: &Draft) -> bool {
        draft.has_blobs() || plan.has_journal()
    }

    async fn send_once(&self, plan: &Plan, draft: &Draft, until: Option<Instant>) -> Result<Vec<Written>> {
        let mut group = GroupTransaction::new(plan.partition.clone(), self.store.profile());
        for operation in draft.operations() {
            group.push(operation.clone())?;
        }
        if plan.has_journal() {
            group.push(Operation::Insert(self.journal_row(plan, None)?.to_entity()?))?;
        }
        let sent = self.store.transact(&self.table, group);
        let sent = match until {
            Some(until) => before(until, sent).await.unwrap_or_else(|| Err(self.timing.cut_off())),
            None => sent.await,
        };
        match sent {
            Err(error) if error.outcome() == Outcome::Applied => {
                tracing::debug!(%error, write = %plan.id, "the answer to a commit cannot be read: the commit has taken effect");
                Ok(unknown_versions(plan))
            }
            sent => sent,
        }
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
        let Some(failed) = error.failed_index() else { return Err(Sent::Failed(error)) };
        match draft.part(failed) {
            Part::Journal if error.is_already_exists() => Err(Sent::StartOver(Cause::AbortRow)),
            Part::Shared(n) if error.is_conflict() => {
                self.shared().refused(draft.shared[n].take()).await;
                Ok(())
            }
            Part::Row(n) if n >= plan.owners.len() => self.rebase_local_entry(plan, draft, n, error).await,
            _ => Err(Sent::Failed(inner(error))),
        }
    }

    /// Resolves a commit whose answer was lost: either the journal row is there, or an abort row takes its place.
    /// Both the decision and the abort row must happen within the writer's lease: afterwards a worker may have
    /// finished the write and cleared its journal row.
    async fn resolve_lost_commit(&self, plan: &Plan, error: Error, lease: Lease) -> Sent {
        if !plan.has_journal() {
            return Sent::Failed(error);
        }
        let abort = self.abort(plan.id, plan.partition.as_str());
        let found = if lease.may_send() { before(lease.cut_off(), abort).await } else { None };
        match found {
            Some(Ok(Some(Evidence::Abort))) => Sent::Failed(error.with_outcome(Outcome::NotApplied)),
            Some(Ok(_)) => Sent::Committed(unknown_versions(plan)),
            Some(Err(_)) | None => Sent::Failed(error),
        }
    }
}

/// The result of a commit whose new versions are unknown.
fn unknown_versions(plan: &Plan) -> Vec<Written> {
    vec![Written::default(); plan.operations.len()]
}

/// The error of the single operation: the caller does not know the group.
pub(super) fn inner(error: Error) -> Error {
    match error.into_kind() {
        ErrorKind::TransactionFailed { error, .. } => *error,
        kind => Error::new(kind),
    }
}

/// The error after other writers have changed the same rows too often.
pub(super) fn contended(plan: &Plan) -> Error {
    let table = plan.local.first().map_or_else(String::new, |e| e.location.table.to_string());
    let key = plan.owners.first().map_or_else(String::new, ToString::to_string);
    ErrorKind::PreconditionFailed { table, key }.into()
}
