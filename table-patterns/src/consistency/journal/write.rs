//! A write from its ticket to its answer.

use std::time::Duration;

use table_core::model::{ETag, Entity};
use table_core::queue::Receipt;
use table_core::store::{Error, Outcome, Result, Written};
use tokio::time::sleep;

use super::Journal;
use super::apply::{Entries, Known};
use super::change::Change;
use super::lease::{Lease, before};
use super::plan::{Plan, violation};
use super::row::JournalRow;
use super::rules::Rule;
use super::send::{Cause, Sent};
use super::state::States;
use super::ticket::Ticket;
use super::touched::Touched;
use super::turns::Turn;
use super::unique::{By, Reservation};
use crate::index::Entry;

/// How often a write that others gave up starts over.
pub(super) const ATTEMPTS: u32 = 10;

/// When a write answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// When remote entries are in step as well.
    #[default]
    Applied,
    /// When it is committed and handed over to the workers of the queue: one of them applies the remote entries as soon
    /// as it asks the queue. Three requests, and the renewal of the ticket (two of a queue in a table). Without a queue one, and
    /// nobody applies the entries before a [sweep](Journal::sweep). A process that dies before it has handed the
    /// write over leaves it to workers that wait a lease twice, for the ticket and at the journal row.
    Committed,
}

/// What one attempt came to.
pub(super) enum Attempt {
    Committed(Committed),
    GivenUp(Cause),
}

/// A committed write.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The entities' new versions, in the order of the changes; without an ETag where the answer
    /// was lost and the commit was proved by the journal row.
    pub written: Vec<Written>,
    /// Whether remote entries are in step.
    pub entries: Entries,
}

/// What a write has before its commit.
#[derive(Default)]
pub(super) struct Reserved {
    /// The versions of unique rows.
    known: Known,
    /// The source of a move, with its mark.
    source: Option<Entity>,
}

impl Committed {
    /// The new version of the entity, where one was written: of the first, of several. `None` after a removal, and where the
    /// answer was lost.
    pub fn etag(&self) -> Option<&ETag> {
        self.written.first()?.etag.as_ref()
    }

    /// Nothing was to be written.
    pub(crate) const fn nothing() -> Self {
        Self { written: Vec::new(), entries: Entries::Applied }
    }
}

impl Journal {
    /// Writes changes of entities of one partition, atomically, and their entries.
    ///
    /// A unique value elsewhere may go from one entity of the write to another: 3 requests for each. An entity that was read while it was being moved: the move is given up before it is written,
    /// one request more.
    ///
    /// # Errors
    /// A precondition failed, a unique value is taken, a limit; nothing was applied then, nor where what comes
    /// before the commit took too long ten times, as the error says. An ambiguous
    /// error where it could not be found out whether the write was committed.
    pub async fn write(&self, changes: &[Change], acknowledge: Acknowledge) -> Result<Committed> {
        let changes = self.without_moves(changes).await?;
        let mut attempt = 0;
        loop {
            let (plan, turn) = self.plan_in_turn(&changes).await?;
            match self.attempt(&plan, turn, &changes, acknowledge).await? {
                Attempt::Committed(committed) => return Ok(committed),
                Attempt::GivenUp(cause) if attempt + 1 == ATTEMPTS => {
                    return Err(self.always_given_up(&plan, cause));
                }
                Attempt::GivenUp(_) => sleep(pause(attempt)).await,
            }
            attempt += 1;
        }
    }

    /// A plan; if it changes shared rows of the partition, with the turn to do so. While that was waited for,
    /// the states of indexes may have become too old.
    async fn plan_in_turn(&self, changes: &[Change]) -> Result<(Plan, Option<Turn>)> {
        let plan = self.plan(changes, self.prepare().await?)?;
        if plan.shared.is_empty() {
            return Ok((plan, None));
        }
        let turn = self.turns.take(&plan.partition, self.timing.lease() / 4).await;
        let permission = self.prepare().await?;
        let is_as_before = permission.valid_until == plan.permission.valid_until;
        let plan = if is_as_before { plan } else { self.plan(changes, permission)? };
        Ok((plan, turn))
    }

    /// One attempt under one id. The turn ends with the commit.
    pub(super) async fn attempt(
        &self,
        plan: &Plan,
        turn: Option<Turn>,
        changes: &[Change],
        acknowledge: Acknowledge,
    ) -> Result<Attempt> {
        let lease = Lease::start(self.timing);
        let mut ticket = None;
        if self.keeps(Rule::TicketFirst) {
            ticket = self.put_ticket(plan).await?;
        }
        let reserved = match self.reserve_in_lease(plan, lease).await {
            Ok(Some(reserved)) => reserved,
            Ok(None) => {
                // A reservation may still be on its way: the ticket stays.
                self.release(plan, None).await;
                return Ok(Attempt::GivenUp(Cause::Lease(plan.made.elapsed())));
            }
            Err(error) => return Err(self.withdraw(plan, ticket.as_ref(), error).await),
        };
        let sent = self.send(plan, lease).await;
        drop(turn);
        match sent {
            Sent::Failed(error) if error.is_ambiguous() => Err(error),
            Sent::Failed(error) => Err(self.withdraw(plan, ticket.as_ref(), error).await),
            Sent::GivenUp(cause) => {
                self.release(plan, ticket.as_ref()).await;
                Ok(Attempt::GivenUp(cause))
            }
            Sent::Committed(mut written) => {
                if !self.keeps(Rule::TicketFirst) {
                    ticket = self.put_ticket(plan).await?;
                }
                if !self.keeps(Rule::RowBeforeTicket) {
                    self.drop_ticket(ticket.as_ref()).await;
                }
                let entries = self.follow(plan, changes, &written, reserved, lease, acknowledge).await?;
                if entries == Entries::Applied {
                    self.drop_ticket(ticket.as_ref()).await;
                } else if acknowledge == Acknowledge::Committed {
                    self.hand_over(plan, &written, ticket.as_ref()).await;
                }
                written.truncate(changes.len());
                Ok(Attempt::Committed(Committed { written, entries }))
            }
        }
    }

    async fn put_ticket(&self, plan: &Plan) -> Result<Option<Receipt>> {
        let Some(queue) = self.queue.as_ref().filter(|_| plan.has_journal()) else { return Ok(None) };
        let source = plan.source.as_ref().map(Entity::key);
        let passed = plan.passed.iter().map(|(entry, _)| entry);
        let ticket = Ticket {
            write: plan.id.uuid(),
            store: self.store_name.clone(),
            table: self.table.to_string(),
            partition: plan.partition.to_string(),
            rows: plan.owners.iter().map(|k| k.row().to_owned()).collect(),
            source: source.map(|k| (k.partition().to_owned(), k.row().to_owned())),
            reserved: plan.gained.iter().chain(passed).map(|e| Touched::of(e, true)).collect(),
            seen: 0,
            failures: 0,
            error: None,
        };
        // The queue's errors are those of nothing applied: no reservation stands yet.
        let sent = queue.send(&ticket.to_text()?, self.timing.lease()).await;
        sent.map(Some).map_err(|e| e.with_outcome(Outcome::NotApplied))
    }

    /// Reserves while the ticket is certainly there: nobody would find what is reserved later. `None` if the lease was
    /// over before all was.
    async fn reserve_in_lease(&self, plan: &Plan, lease: Lease) -> Result<Option<Reserved>> {
        if !self.keeps(Rule::ReserveInLease) {
            return self.reserve_all(plan, || true).await;
        }
        let reserved = self.reserve_all(plan, || lease.may_send());
        before(lease.cut_off(), reserved).await.unwrap_or(Ok(None))
    }

    /// Marks the source of a move and keeps its values for it, reserves what the new states gain, and reads the rows of what
    /// they lose: a version from before the commit lets the row be settled or removed without reading it again.
    async fn reserve_all(
        &self,
        plan: &Plan,
        may_send: impl Fn() -> bool + Send + Sync,
    ) -> Result<Option<Reserved>> {
        let Some(Reserved { mut known, source }) = self.freeze(plan, &may_send).await? else {
            return Ok(None);
        };
        for entry in &plan.gained {
            if !may_send() {
                return Ok(None);
            }
            match self.reserve(entry, plan.id).await? {
                Reservation::Taken(owner) => return Err(violation(entry, &owner)),
                Reservation::Mine(Some(etag)) => drop(known.insert(entry.location.clone(), etag)),
                Reservation::Mine(None) => {}
            }
        }
        for at in &plan.lost {
            if let Some(row) = self.settled_row(at).await?
                && !row.pending
                && plan.entities().contains(&row.owner)
            {
                known.insert(at.clone(), row.etag);
            }
        }
        Ok(Some(Reserved { known, source }))
    }

    /// Marks the source of a move and makes pairs of the rows of values that go from one entity to another: one request, and
    /// two for each.
    async fn freeze(
        &self,
        plan: &Plan,
        may_send: &(impl Fn() -> bool + Send + Sync),
    ) -> Result<Option<Reserved>> {
        let mut reserved = Reserved::default();
        if let Some(source) = &plan.source {
            if !may_send() {
                return Ok(None);
            }
            reserved.source = Some(self.mark(plan, source).await?);
        }
        for (entry, heir) in plan.passed.iter().filter(|_| self.keeps(Rule::PairValue)) {
            if !may_send() {
                return Ok(None);
            }
            match self.pair(entry, heir, plan.id).await? {
                Some(Reservation::Mine(Some(etag))) => {
                    reserved.known.insert(entry.location.clone(), etag);
                }
                Some(Reservation::Mine(None)) => {}
                Some(Reservation::Taken(owner)) => return Err(violation(entry, &owner)),
                None => return Err(without_row(entry)),
            }
        }
        Ok(Some(reserved))
    }

    /// Releases what a write that was never committed holds, and hands its error on. After an answer in
    /// doubt a reservation may still be on its way: the ticket stays, and a worker releases it.
    async fn withdraw(&self, plan: &Plan, ticket: Option<&Receipt>, error: Error) -> Error {
        let ticket = ticket.filter(|_| !error.is_ambiguous());
        self.release(plan, ticket).await;
        error.with_outcome(Outcome::NotApplied)
    }

    async fn release(&self, plan: &Plan, ticket: Option<&Receipt>) {
        let mut states = States::new(plan.entities());
        if let Some(source) = &plan.source
            && let Err(error) = self.unmark(source.key(), plan.id).await
        {
            tracing::debug!(%error, "a mark stays for a worker or a sweep");
            return;
        }
        let passed = plan.passed.iter().map(|(entry, _)| entry);
        for entry in passed.chain(&plan.gained) {
            if let Err(error) = self.settle(&entry.location, By::Release(plan.id), &mut states).await {
                tracing::debug!(%error, "a reservation stays for a worker or a sweep");
                return;
            }
        }
        self.drop_ticket(ticket).await;
    }

    /// Steps 5 to 7 by the writer itself. Whatever fails now, the write is committed. An entry whose key or unique value
    /// another entity has is the one error that the caller must know: no worker can write it either.
    async fn follow(
        &self,
        plan: &Plan,
        changes: &[Change],
        written: &[Written],
        reserved: Reserved,
        lease: Lease,
        acknowledge: Acknowledge,
    ) -> Result<Entries> {
        if !plan.has_journal() {
            return Ok(Entries::Applied);
        }
        let Some(row) = self.appliable(plan, written).filter(|_| acknowledge == Acknowledge::Applied) else {
            return Ok(Entries::Pending);
        };
        let mut states = new_states(plan, changes, written);
        if let Some(source) = reserved.source {
            states.set(source.key().clone(), Some(source));
        }
        match self.apply(&row, states, &reserved.known, lease).await {
            Err(error) if error.is_key_collision() || error.is_unique_violation() => {
                Err(error.with_outcome(Outcome::Applied))
            }
            Err(error) => {
                tracing::warn!(%error, write = %plan.id, "a committed write's entries could not be applied");
                Ok(Entries::Pending)
            }
            applied => applied,
        }
    }

    /// Lets a worker begin at once: this process will not apply the write. The row first: who sees the ticket before
    /// that waits for a lease.
    async fn hand_over(&self, plan: &Plan, written: &[Written], ticket: Option<&Receipt>) {
        let (Some(queue), Some(ticket)) = (&self.queue, ticket) else { return };
        let Some(row) = self.appliable(plan, written) else { return };
        let free = JournalRow { lease: Duration::ZERO, ..row };
        let shown = match self.replace(free).await {
            Ok(Some(_)) => queue.renew(ticket, Duration::ZERO).await.map(drop),
            other => other.map(drop),
        };
        if let Err(error) = shown {
            tracing::debug!(%error, write = %plan.id, "a committed write waits for its lease");
        }
    }

    /// The journal row in the version the group gave it; unknown where the answer was lost.
    fn appliable(&self, plan: &Plan, written: &[Written]) -> Option<JournalRow> {
        self.journal_row(plan, Some(written.last()?.etag.clone()?)).ok()
    }

    pub(super) fn journal_row(&self, plan: &Plan, etag: Option<ETag>) -> Result<JournalRow> {
        Ok(JournalRow {
            id: plan.id,
            key: plan.id.key(plan.partition.as_str())?,
            etag,
            rows: plan.owners.iter().map(|k| k.row().to_owned()).collect(),
            touched: plan.touched.clone(),
            source: plan.source.as_ref().map(|source| source.key().clone()),
            claim: None,
            lease: self.timing.lease(),
        })
    }

    /// A ticket that stays is found out to be done by a worker.
    async fn drop_ticket(&self, ticket: Option<&Receipt>) {
        if let (Some(queue), Some(ticket)) = (&self.queue, ticket)
            && let Err(error) = queue.delete(ticket).await
        {
            tracing::debug!(%error, "a ticket stays for a worker");
        }
    }

    /// No conflict: read again and written again, it would end as it did.
    pub(super) fn always_given_up(&self, plan: &Plan, cause: Cause) -> Error {
        let key = plan.owners.first().map_or_else(String::new, ToString::to_string);
        let why = match cause {
            Cause::Others => "another process gave it up: sweeps and workers come before it can commit, or who \
                              wants a value that it reserves does; write less at once, or let `Timing` give more time"
                .to_owned(),
            Cause::States(took) => format!(
                "the states of indexes were too old at the commit, {took:?} after they were read: raise \
                 `IndexOptions::cache`, which was made for quicker requests"
            ),
            Cause::Lease(took) => format!(
                "the lease of what it reserves was over before the commit, {took:?} after its start: raise the lease \
                 of `Timing`, or write less at once"
            ),
        };
        let table = &self.table;
        Error::invalid_request(format!("the write of {key} in '{table}' began {ATTEMPTS} times, and {why}"))
    }
}

/// The entities as the write made them, with their new versions.
fn new_states(plan: &Plan, changes: &[Change], written: &[Written]) -> States {
    let mut states = States::new(plan.owners.clone());
    for ((key, change), written) in plan.owners.iter().zip(changes).zip(written) {
        let entity = change.new.clone().map(|e| e.with_system(written.etag.clone(), None));
        states.set(key.clone(), entity);
    }
    states
}

/// The error of a unique value without a row, as only a foreign write can leave it.
fn without_row(entry: &Entry) -> Error {
    let Entry { index, location, owner, .. } = entry;
    Error::invalid_request(format!(
        "the unique index '{index}' has no entry {} of {owner}, so nobody can tell whether another entity has the value: repair the \
         index by a scrub first",
        location.key
    ))
}

/// The pause before the next attempt, jittered: two writers that give each other up must part.
pub(super) fn pause(attempt: u32) -> Duration {
    Duration::from_millis(5).mul_f64(f64::from(1 << attempt.min(8)) * fastrand::f64())
}
