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
use super::rules::Rule;
use crate::index::shared::{Merge, Prepared, is_conflict};

/// What a group transaction came to.
pub(super) enum Sent {
    Committed(Vec<Written>),
    /// Start over under a new id.
    GivenUp(Cause),
    Failed(Error),
}

/// Why a write is to start over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The journal row's key is taken by an abort row.
    Others,
    /// So long after it was planned, the states of indexes were too old.
    States(Duration),
    /// So long after it was planned, what it had reserved might have been given away.
    Lease(Duration),
}

/// A group as it is to be sent.
pub(super) struct Draft {
    /// The entities' operations first, then those of the partition's entries.
    pub(super) rows: Vec<Operation>,
    /// What the plan's shared rows come to; none where they are to be read again.
    shared: Vec<Option<Prepared>>,
}

/// Which part of a draft an operation is.
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

/// Shared rows read at once.
const IN_PARALLEL: usize = 16;

/// How often a group is sent again because a shared row was written by others.
const SHARED_ROUNDS: usize = 100;

impl Journal {
    /// Sends the group, again where a row of the partition is not as the plan or the last read took it to
    /// be. Each entry of the partition causes two repetitions at most, shared rows a hundred together.
    pub(super) async fn send(&self, plan: &Plan, lease: Lease) -> Sent {
        let mut draft = Draft::new(plan);
        let sent = self.send_draft(plan, &mut draft, lease).await;
        match &sent {
            Sent::Committed(_) => self.shared().applied(draft.take_shared()).await,
            Sent::Failed(error) if error.is_ambiguous() && self.keeps(Rule::DoubtKeepsBlobs) => {}
            _ => self.shared().refused(draft.take_shared()).await,
        }
        sent
    }

    async fn send_draft(&self, plan: &Plan, draft: &mut Draft, lease: Lease) -> Sent {
        let shared = if plan.shared.is_empty() { 0 } else { SHARED_ROUNDS };
        if let Err(error) = self.look_beside(plan, draft).await {
            return Sent::Failed(error.with_outcome(Outcome::NotApplied));
        }
        for round in 0..=2 * plan.local.len() + shared {
            if let Err(error) = self.read_shared(plan, draft).await {
                return Sent::Failed(error.with_outcome(Outcome::NotApplied));
            }
            // States of indexes may have moved on twice since the plan was made; a blob that is named after
            // its time may have been collected; the abort row that stopped a slow writer may be gone, and what
            // it had reserved another entity's.
            if !plan.is_valid() {
                return Sent::GivenUp(Cause::States(plan.made.elapsed()));
            }
            if self.is_leased(plan, draft) && !lease.may_send() {
                return Sent::GivenUp(Cause::Lease(plan.made.elapsed()));
            }
            let until = self.last_moment(plan, draft, lease);
            let error = match self.send_once(plan, draft, until).await {
                Ok(written) => return Sent::Committed(written),
                Err(error) => error,
            };
            if let Err(end) = self.correct(plan, draft, error, lease).await {
                return end;
            }
            if draft.shared.iter().any(Option::is_none) {
                sleep(pause(round.try_into().unwrap_or(u32::MAX))).await;
            }
        }
        Sent::Failed(contended(plan))
    }

    /// Reads the shared rows that were not read, or have changed since.
    async fn read_shared(&self, plan: &Plan, draft: &mut Draft) -> Result<()> {
        let open: Vec<_> = (0..plan.shared.len()).filter(|n| draft.shared[*n].is_none()).collect();
        let reads = open.iter().map(|n| self.read_one(&plan.shared[*n])).collect::<Vec<_>>();
        for (n, read) in open.iter().zip(stream::iter(reads).buffered(IN_PARALLEL).collect::<Vec<_>>().await)
        {
            draft.shared[*n] = Some(read?);
        }
        Ok(())
    }

    async fn read_one(&self, merge: &Merge) -> Result<Prepared> {
        let mut read = self.shared().prepare(merge).await?;
        if !self.keeps(Rule::ConditionOnUnchanged) {
            read.unchanged.clear();
        }
        if read.without_target {
            let (index, target) = (index_name(&merge.index), &merge.at.key);
            return Err(Error::invalid_request(format!(
                "the index '{index}' copies into {target}, which does not exist: write that first, or with it"
            )));
        }
        Ok(read)
    }

    /// From when on the group may not leave any more: what it was made from is too old then.
    fn last_moment(&self, plan: &Plan, draft: &Draft, lease: Lease) -> Option<Instant> {
        let states = plan.permission.valid_until.map(|until| until + self.timing.client());
        let leased = self.is_leased(plan, draft).then(|| lease.cut_off());
        states.into_iter().chain(leased).min()
    }

    /// Whether the group rests on what others may take away when the lease is over: blobs, reservations, and the
    /// ticket that leads to its journal row.
    fn is_leased(&self, plan: &Plan, draft: &Draft) -> bool {
        (draft.has_blobs() && self.keeps(Rule::BlobInLease))
            || (plan.has_journal() && self.keeps(Rule::CommitInLease))
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
                tracing::debug!(%error, write = %plan.id, "the answer to a commit cannot be read");
                Ok(unseen(plan))
            }
            sent => sent,
        }
    }

    /// Changes the draft so that it can be sent again, or says how the write ends.
    async fn correct(&self, plan: &Plan, draft: &mut Draft, error: Error, lease: Lease) -> Result<(), Sent> {
        if error.is_ambiguous() {
            return Err(self.find_out(plan, error, lease).await);
        }
        let Some(failed) = error.failed_index() else { return Err(Sent::Failed(error)) };
        match draft.part(failed) {
            Part::Journal if error.is_already_exists() => Err(Sent::GivenUp(Cause::Others)),
            Part::Shared(n) if is_conflict(&error) => {
                self.shared().refused(draft.shared[n].take()).await;
                Ok(())
            }
            Part::Row(n) if n >= plan.owners.len() => self.correct_entry(plan, draft, n, error).await,
            _ => Err(Sent::Failed(inner(error))),
        }
    }

    /// The answer was lost: the journal row is there, or an abort row is put in its place. Only while the
    /// writer's lease lasts, however long the abort row is on its way: afterwards a worker may have finished
    /// the write and cleared the row.
    async fn find_out(&self, plan: &Plan, error: Error, lease: Lease) -> Sent {
        if !plan.has_journal() {
            return Sent::Failed(error);
        }
        let abort = self.abort(plan.id, plan.partition.as_str());
        let found = match lease.may_send() || !self.keeps(Rule::FindOutInLease) {
            true if self.keeps(Rule::FindOutInLease) && self.keeps(Rule::FindOutCutOff) => {
                before(lease.cut_off(), abort).await
            }
            true => Some(abort.await),
            false => None,
        };
        match found {
            Some(Ok(Some(Evidence::Abort))) => Sent::Failed(error.with_outcome(Outcome::NotApplied)),
            Some(Ok(_)) => Sent::Committed(unseen(plan)),
            Some(Err(_)) | None => Sent::Failed(error),
        }
    }
}

/// A commit whose versions are not known.
fn unseen(plan: &Plan) -> Vec<Written> {
    vec![Written::default(); plan.operations.len()]
}

/// The operation's own error: the caller has not seen the group.
pub(super) fn inner(error: Error) -> Error {
    match error.into_kind() {
        ErrorKind::TransactionFailed { error, .. } => *error,
        kind => Error::new(kind),
    }
}

/// Others kept changing the same rows.
pub(super) fn contended(plan: &Plan) -> Error {
    let table = plan.local.first().map_or_else(String::new, |e| e.location.table.to_string());
    let key = plan.owners.first().map_or_else(String::new, ToString::to_string);
    ErrorKind::PreconditionFailed { table, key }.into()
}
