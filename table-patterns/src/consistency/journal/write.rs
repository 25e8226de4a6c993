//! A write, from its ticket to its answer.

use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::manifest::index_name;
use table_core::model::{ETag, Entity, Key};
use table_core::queue::Receipt;
use table_core::store::{Error, Outcome, Result, Written};
use table_core::typed::TableEntity;
use tokio::time::sleep;

use super::Journal;
use super::apply::{AppliedRow, Applier, Entries, Known};
use super::change::Change;
use super::commit::{Cause, Committer, Sent};
use super::entity_table::{EntityTable, States};
use super::in_process::PartitionLock;
use super::lease::{Lease, Timing, before};
use super::moving::Moves;
use super::plan::{Plan, Planner, violation};
use super::row::{JournalRow, JournalRows};
use super::ticket::Tickets;
use super::unique::{By, Reservation, UniqueKeys};
use crate::entity_rows::answer;
use crate::entry::{Entry, Location};
use crate::rows::{before_write, random_pause};

/// Attempts of a write that other processes give up.
pub(super) const MAX_WRITE_ATTEMPTS: u32 = 10;

/// When a write returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// After the commit and after the remote entries are applied.
    #[default]
    Applied,
    /// After the commit. A worker of the queue applies the remote entries, as soon as it receives the ticket. Costs 3
    /// requests and the renewal of the ticket (2 requests of a queue in a table). Without a queue it costs 1 request,
    /// and the entries wait for a [sweep](Journal::sweep). If the process dies before it has handed the write over,
    /// workers wait two leases: for the ticket and for the journal row.
    Committed,
}

/// When the journal row and the ticket of a write are cleared, or a write that is [left to workers](Acknowledge::Committed) is
/// handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clearing {
    /// Before the answer: 1 round trip more, and with a queue 2 more. For programs that look at the rows of a table right after a write,
    /// or that end without a [`flush`](Journal::flush).
    BeforeAnswer,
    /// After the answer, in background tasks of the runtime, at most 64 at a time for a handle and its clones. While that many are
    /// under way, writes clear before they answer. [`flush`](Journal::flush) waits for the tasks.
    ///
    /// Flush before the program ends. The `close` of an embedded store waits for the tasks too, for 10 seconds at most. If a program
    /// crashes or ends without either, a worker or a sweep deletes the rows that are left. It applies the entries once more, which changes
    /// nothing. Until then the rows stay in the table; no read of entities returns them.
    #[default]
    AfterAnswer,
}

/// The outcome of one attempt.
pub(super) enum Attempt {
    Committed(Committed),
    StartOver(Cause),
}

/// A committed write.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Committed {
    /// The entities' new versions, in the order of the changes. Without ETags if the answer was lost and the journal
    /// row has proved the commit.
    pub written: Vec<Written>,
    /// Whether the remote entries are applied.
    pub entries: Entries,
}

/// What a writer has done after its commit.
enum Applied {
    /// There is nothing to apply, and no journal row.
    Nothing,
    /// All entries; the journal row can be cleared.
    All(JournalRow),
    /// All entries but those whose rows belong to others; the journal row can be cleared. The error of the first such entry.
    AllBut(JournalRow, Error),
    /// The journal row is responsible for the entries.
    Pending,
}

/// The rows that a write has prepared before its commit.
#[derive(Default)]
pub(super) struct Reserved {
    /// The versions of unique rows.
    known: Known,
    /// The source of a move, with its mark.
    source: Option<Entity>,
}

/// A unique row that a write prepares before its commit.
enum UniqueKey<'a> {
    /// The value passes from the owner of the entry to another entity of the write.
    Pair(&'a Entry, &'a Key),
    /// An entity of the write gets the value.
    Gain(&'a Entry),
    /// An entity of the write loses the value, or changes the payload of its entry: the version of the row is read, and step 5 writes the row
    /// in that version.
    Read(&'a Location),
}

/// The preparation of one unique row.
enum Preparation {
    /// The lease has ended, and nothing was sent.
    NotSent,
    /// The row is prepared. Its version is unknown, or the write cannot rely on it.
    NoVersion,
    /// The row is prepared, and has this version.
    Version(Location, ETag),
}

impl Preparation {
    fn of(at: &Location, version: Option<ETag>) -> Self {
        version.map_or(Self::NoVersion, |version| {
            Self::Version(at.clone(), version)
        })
    }
}

/// The end of a write that could not reserve its unique keys.
struct Unreserved {
    error: Error,
    /// Whether a reservation may still be under way.
    in_doubt: bool,
}

impl Unreserved {
    /// Combines the errors of two reservations: keeps the first error with a known outcome, which says more to the caller than an
    /// ambiguous one.
    fn with(self, error: Error) -> Self {
        let in_doubt = self.in_doubt || error.is_ambiguous();
        let keeps_earlier = !self.error.is_ambiguous() || error.is_ambiguous();
        Self {
            error: if keeps_earlier { self.error } else { error },
            in_doubt,
        }
    }
}

impl From<Error> for Unreserved {
    fn from(error: Error) -> Self {
        Self {
            in_doubt: error.is_ambiguous(),
            error,
        }
    }
}

impl Committed {
    /// The new ETag of the first changed entity. `None` after a delete, or if the answer was lost.
    pub fn etag(&self) -> Option<&ETag> {
        self.written.first()?.etag.as_ref()
    }

    /// Sets the new version in the `#[etag]` field of the entity that was written: see
    /// [`Written::renew`](table_core::store::Written::renew).
    pub fn renew<T: TableEntity>(self, entity: &mut T) {
        if let Some(etag) = self
            .written
            .into_iter()
            .next()
            .and_then(|written| written.etag)
        {
            entity.set_etag(etag);
        }
    }

    /// The answer to the write of one entity.
    pub(crate) fn into_written(self) -> Written {
        let pending = self.entries == Entries::Pending;
        let mut written = self.written.into_iter().next().unwrap_or_default();
        written.pending = pending;
        written
    }

    /// The answer to a group, in the order of its changes.
    pub(crate) fn into_all_written(self) -> Vec<Written> {
        let (pending, mut all) = (self.entries == Entries::Pending, self.written);
        for written in &mut all {
            written.pending = pending;
        }
        all
    }

    /// The answer for an empty write.
    pub(crate) const fn nothing() -> Self {
        Self {
            written: Vec::new(),
            entries: Entries::Applied,
        }
    }
}

/// Writes changes: from the plan to the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    /// The journal itself, of which work after the answer keeps a clone.
    pub(super) journal: &'a Journal,
    pub(super) entities: &'a EntityTable,
    pub(super) rows: JournalRows<'a>,
    pub(super) planner: Planner<'a>,
    pub(super) unique: UniqueKeys<'a>,
    pub(super) committer: Committer<'a>,
    pub(super) moves: Moves<'a>,
    pub(super) applier: Applier<'a>,
    pub(super) tickets: &'a Tickets,
    pub(super) timing: Timing,
}

impl Writer<'_> {
    /// See [`Journal::write`].
    pub(super) async fn write(
        &self,
        changes: &[Change],
        acknowledge: Acknowledge,
    ) -> Result<Committed> {
        // A marked entity is the source of a move. The move ends first: committed after this write, it would
        // bring the entity as it was before the write to its target (docs/protocol.md, *Moves*).
        let changes = before_write(self.moves.without_moves(changes).await)?;
        let mut attempt = 0;
        loop {
            // Each attempt has a write id of its own. The abort row of an attempt that was given up stays, so
            // the insert of its journal row can never succeed again.
            let (plan, lock) = before_write(self.plan_with_lock(&changes).await)?;
            match self.attempt(&plan, lock, &changes, acknowledge).await? {
                Attempt::Committed(committed) => return Ok(committed),
                Attempt::StartOver(cause) if attempt + 1 == MAX_WRITE_ATTEMPTS => {
                    return Err(self.given_up(&plan, cause));
                }
                Attempt::StartOver(_) => sleep(random_pause(attempt, 8)).await,
            }
            attempt += 1;
        }
    }

    /// The plan. If it changes local shared rows, also the lock of the partition. The index states may expire while
    /// the lock is waited for: then the plan is made again.
    async fn plan_with_lock(&self, changes: &[Change]) -> Result<(Plan, Option<PartitionLock>)> {
        let plan = self.planner.plan(changes, self.entities.prepare().await?)?;
        if plan.shared.is_empty() {
            return Ok((plan, None));
        }
        // At most a quarter of a lease: without the lock the write still works, by conflicts at the ETag of the shared row.
        let lock = self
            .journal
            .partition_locks
            .lock(&plan.partition, self.timing.lease() / 4)
            .await;
        let permission = self.entities.prepare().await?;
        // Two copies of the states that were read at different times are valid until different times.
        let is_as_before = permission.valid_until == plan.permission.valid_until;
        let plan = if is_as_before {
            plan
        } else {
            self.planner.plan(changes, permission)?
        };
        Ok((plan, lock))
    }

    /// One attempt under one write id. The partition's lock is released after the commit.
    pub(super) async fn attempt(
        &self,
        plan: &Plan,
        lock: Option<PartitionLock>,
        changes: &[Change],
        acknowledge: Acknowledge,
    ) -> Result<Attempt> {
        before_write(self.check_rows_free(plan, changes).await)?;
        // The lease starts before the ticket is sent, and the queue hides the ticket for as long from a later
        // moment on: no worker receives the ticket within this lease.
        let lease = Lease::start(self.timing);
        // The ticket comes first: whatever the write leaves behind when it dies, a worker finds it.
        let ticket = before_write(
            self.tickets
                .send(&self.entities.name, plan, self.timing.lease())
                .await,
        )?;
        let reserved = match self.reserve_in_lease(plan, lease).await {
            Ok(Some(reserved)) => reserved,
            Ok(None) => {
                // A reservation may still be under way: the ticket stays.
                self.release(plan, None).await;
                return Ok(Attempt::StartOver(Cause::LeaseExpired(plan.made.elapsed())));
            }
            // A reservation in doubt may arrive after the release. The ticket stays then: a worker releases
            // what arrived.
            Err(Unreserved { error, in_doubt }) => {
                let ticket = ticket.as_ref().filter(|_| !in_doubt);
                return Err(self.withdraw(plan, ticket, error).await);
            }
        };
        // A crash up to here leaves reservations, and the mark of a move. The worker that gets the ticket
        // inserts the abort row and releases them; without a queue a sweep does, or the next writer that
        // wants a value.
        let sent = self.committer.commit(plan, lease).await;
        // The lock orders groups of this process; entries in other partitions need no order.
        drop(lock);
        match sent {
            // The write may be committed, so nothing is released. The ticket leads a worker to the journal row;
            // or, if there is none, to the reservations.
            Sent::Failed(error) if error.is_ambiguous() => Err(error),
            Sent::Failed(error) => Err(self.withdraw(plan, ticket.as_ref(), error).await),
            Sent::StartOver(cause) => {
                self.release(plan, ticket.as_ref()).await;
                Ok(Attempt::StartOver(cause))
            }
            Sent::Committed(written) => {
                // From here on the write is committed. A crash leaves the journal row and the ticket, and
                // after this lease a worker or a sweep applies the entries.
                let applied = self
                    .apply_committed(plan, changes, &written, reserved, lease, acknowledge)
                    .await?;
                let entries = match applied {
                    Applied::Nothing => Entries::Applied,
                    Applied::All(row) => self.clear_write(row, ticket, lease).await,
                    Applied::AllBut(row, error) => {
                        self.clear_write(row, ticket, lease).await;
                        return Err(error.with_outcome(Outcome::Applied));
                    }
                    Applied::Pending if acknowledge == Acknowledge::Committed => {
                        self.leave_to_workers(plan, &written, ticket).await;
                        Entries::Pending
                    }
                    Applied::Pending => Entries::Pending,
                };
                let written = (0..changes.len()).filter_map(|n| answer(&written, n));
                let written = written.cloned().collect();
                Ok(Attempt::Committed(Committed { written, entries }))
            }
        }
    }

    /// Checks that the rows of the new remote entries are free, in a store whose clients in other processes write through this one. Such a
    /// client may have put a row of its own there, and a read of the store of this process is no request to a service. On a service the
    /// check would cost a request for each entry, and prove nothing: the row can come after the check. There the insert of the entry
    /// finds the row, after the commit.
    async fn check_rows_free(&self, plan: &Plan, changes: &[Change]) -> Result<()> {
        let writers = self.entities.store.context().local_writers();
        if !writers.is_some_and(|writers| writers.is_served()) {
            return Ok(());
        }
        let states = new_states(plan, changes, &[]);
        self.applier
            .remote
            .check_free(&plan.plain, &plan.remote_shared, &states)
            .await
    }

    /// Reserves within the lease of the ticket: no process would find a later reservation. `None` if the lease ended
    /// before everything was reserved.
    async fn reserve_in_lease(
        &self,
        plan: &Plan,
        lease: Lease,
    ) -> std::result::Result<Option<Reserved>, Unreserved> {
        // `ReserveInLease`: after the lease a worker may have given the write up and deleted the ticket. A
        // reservation that arrived then would stay until a sweep or another writer meets it.
        before(lease.cut_off(), self.reserve_all(plan, lease))
            .await
            .unwrap_or(Ok(None))
    }

    /// Marks the source of a move. Then, all at the same time: pairs the rows of values that pass from one entity to
    /// another, reserves the new unique keys, and reads the rows of the lost and changed ones. With a version from
    /// before the commit, a row can be settled or removed later without another read.
    async fn reserve_all(
        &self,
        plan: &Plan,
        lease: Lease,
    ) -> std::result::Result<Option<Reserved>, Unreserved> {
        let mut reserved = Reserved::default();
        // The mark comes before the pairs: from the mark on, a writer of the source gives this move up
        // before it changes a value.
        if let Some(source) = &plan.source {
            if !lease.may_send() {
                return Ok(None);
            }
            reserved.source = Some(self.moves.mark(plan, source).await?);
        }
        let rows = plan
            .passed
            .iter()
            .map(|(entry, heir)| UniqueKey::Pair(entry, heir));
        let rows = rows
            .chain(plan.gained.iter().map(UniqueKey::Gain))
            .chain(plan.seen.iter().map(UniqueKey::Read));
        let work = rows.map(|row| Box::pin(self.reserve_one(plan, row, lease)) as BoxFuture<'_, _>);
        let (mut all_sent, mut failed) = (true, None::<Unreserved>);
        // Every answer before the end: nothing may be released while a reservation is under way.
        for prepared in self.entities.all_of(work.collect()).await {
            match prepared {
                Ok(Preparation::Version(at, version)) => drop(reserved.known.insert(at, version)),
                Ok(Preparation::NoVersion) => {}
                Ok(Preparation::NotSent) => all_sent = false,
                Err(error) => {
                    failed = Some(match failed {
                        None => Unreserved::from(error),
                        Some(earlier) => earlier.with(error),
                    });
                }
            }
        }
        match failed {
            Some(failed) => Err(failed),
            None => Ok(all_sent.then_some(reserved)),
        }
    }

    /// Prepares one unique row for the commit: 2 requests for a pair, 1 otherwise.
    async fn reserve_one(
        &self,
        plan: &Plan,
        key: UniqueKey<'_>,
        lease: Lease,
    ) -> Result<Preparation> {
        if !lease.may_send() {
            return Ok(Preparation::NotSent);
        }
        let (entry, reservation) = match key {
            UniqueKey::Pair(entry, heir) => match self.unique.pair(entry, heir, plan.id).await? {
                Some(Reservation::Mine(version)) => {
                    return Ok(Preparation::of(&entry.location, version));
                }
                // The owner had the value when the write read it, and has no row of it: the owner has changed since, or the index is damaged.
                not_owned => {
                    self.check_unchanged(plan, entry).await?;
                    (entry, not_owned.ok_or_else(|| without_row(entry))?)
                }
            },
            UniqueKey::Gain(entry) => (entry, self.unique.reserve(entry, plan.id).await?),
            UniqueKey::Read(at) => {
                let row = self.unique.settled_row(at).await?;
                // The version of a pending row would change with its write, and the row of another entity is
                // none of this write's: the applier reads such rows again.
                let own = row.filter(|row| !row.pending && plan.entities().contains(&row.owner));
                return Ok(Preparation::of(at, own.map(|row| row.etag)));
            }
        };
        match reservation {
            Reservation::Taken(owner) => Err(violation(entry, &owner)),
            Reservation::Mine(version) => Ok(Preparation::of(&entry.location, version)),
        }
    }

    /// Checks that the owner of an entry is as the write has read it. 1 request.
    ///
    /// # Errors
    /// A conflict: another writer has changed the owner, or has given the move up.
    async fn check_unchanged(&self, plan: &Plan, entry: &Entry) -> Result<()> {
        let now = self.entities.rows().stored(&entry.owner).await?;
        if now.is_some_and(|now| plan.is_as_read(&now)) {
            return Ok(());
        }
        Err(Error::precondition_failed(
            &self.entities.name,
            &entry.owner,
        ))
    }

    /// Releases the mark and the reservations of a write that was never committed, and returns its error. After an
    /// ambiguous outcome a reservation may still be under way: the ticket stays, and a worker releases the
    /// reservation.
    async fn withdraw(&self, plan: &Plan, ticket: Option<&Receipt>, error: Error) -> Error {
        let ticket = ticket.filter(|_| !error.is_ambiguous());
        self.release(plan, ticket).await;
        error.with_outcome(Outcome::NotApplied)
    }

    /// Removes the mark and the reservations of a write that never commits, then the ticket. Stops at the first failure, so that the
    /// ticket stays.
    async fn release(&self, plan: &Plan, ticket: Option<&Receipt>) {
        if let Some(source) = &plan.source
            && let Err(error) = self.moves.unmark(source.key(), plan.id).await
        {
            tracing::debug!(%error, "the mark of a move was not removed: a worker or a sweep removes it");
            return;
        }
        let entries = plan
            .passed
            .iter()
            .map(|(entry, _)| entry)
            .chain(&plan.gained);
        let released = entries.map(|entry| {
            Box::pin(async {
                let mut states = States::new(plan.entities());
                self.unique
                    .settle(&entry.location, By::Release(plan.id), &mut states)
                    .await
            }) as BoxFuture<'_, _>
        });
        let released: Result<()> = self
            .entities
            .all_of(released.collect())
            .await
            .into_iter()
            .collect();
        if let Err(error) = released {
            tracing::debug!(%error, "a reservation was not released: a worker or a sweep releases it");
            return;
        }
        self.tickets.delete(ticket).await;
    }

    /// Steps 5 and 6 by the writer. No error changes that the write is committed. Only one error is returned: another
    /// entity has the entry's unique value, which no worker could write either.
    async fn apply_committed(
        &self,
        plan: &Plan,
        changes: &[Change],
        written: &[Written],
        reserved: Reserved,
        lease: Lease,
        acknowledge: Acknowledge,
    ) -> Result<Applied> {
        if !plan.has_journal() {
            return Ok(Applied::Nothing);
        }
        let Some(row) = self
            .appliable(plan, written)
            .filter(|_| acknowledge == Acknowledge::Applied)
        else {
            return Ok(Applied::Pending);
        };
        let mut states = new_states(plan, changes, written);
        if let Some(source) = reserved.source {
            states.set(source.key().clone(), Some(source));
        }
        match self
            .applier
            .apply(&row, states, &reserved.known, lease)
            .await
        {
            Err(error) if error.is_unique_violation() => Err(error.with_outcome(Outcome::Applied)),
            Err(error) => {
                tracing::warn!(%error, write = %plan.id, "the entries of a committed write were not applied: a worker or a sweep applies them");
                Ok(Applied::Pending)
            }
            Ok(None) => Ok(Applied::Pending),
            Ok(Some(AppliedRow { row, collisions })) => Ok(match collisions.into_iter().next() {
                None => Applied::All(row),
                Some(error) => Applied::AllBut(row, error),
            }),
        }
    }

    /// Step 7 by the writer, before or after the answer. If the outcome before the answer is not certain, the entries
    /// count as pending; after it, nobody waits for the outcome.
    async fn clear_write(&self, row: JournalRow, ticket: Option<Receipt>, lease: Lease) -> Entries {
        if self.journal.clearing == Clearing::BeforeAnswer {
            return self
                .clear_row_and_ticket(&row, ticket.as_ref(), lease)
                .await;
        }
        let journal = self.journal.clone();
        let cleared = async move {
            // Nobody waits for the outcome.
            let _outcome = journal
                .writer()
                .clear_row_and_ticket(&row, ticket.as_ref(), lease)
                .await;
        };
        self.journal
            .background
            .run(
                self.entities.store.context().local_writers().cloned(),
                cleared,
            )
            .await;
        Entries::Applied
    }

    async fn clear_row_and_ticket(
        &self,
        row: &JournalRow,
        ticket: Option<&Receipt>,
        lease: Lease,
    ) -> Entries {
        let cleared = self.applier.clear(row, lease).await.unwrap_or_else(|error| {
            tracing::warn!(%error, write = %row.id, "the journal row of an applied write was not deleted: a worker or a sweep deletes it");
            Entries::Pending
        });
        if cleared == Entries::Applied {
            self.tickets.delete(ticket).await;
        }
        cleared
    }

    /// Hands a committed write over, before or after the answer.
    async fn leave_to_workers(&self, plan: &Plan, written: &[Written], ticket: Option<Receipt>) {
        let Some(row) = self.appliable(plan, written) else {
            return;
        };
        if self.journal.clearing == Clearing::BeforeAnswer {
            return self.hand_over(row, ticket.as_ref()).await;
        }
        let journal = self.journal.clone();
        let handed_over = async move { journal.writer().hand_over(row, ticket.as_ref()).await };
        self.journal
            .background
            .run(
                self.entities.store.context().local_writers().cloned(),
                handed_over,
            )
            .await;
    }

    /// Hands the write over to workers, without the wait for this process's lease. The journal row first: a worker
    /// that receives the ticket earlier waits for the lease.
    async fn hand_over(&self, row: JournalRow, ticket: Option<&Receipt>) {
        let (Some(queue), Some(ticket)) = (&self.tickets.queue, ticket) else {
            return;
        };
        let write = row.id;
        let free = JournalRow {
            lease: Duration::ZERO,
            ..row
        };
        let shown = match self.rows.replace(free).await {
            Ok(Some(_)) => queue.renew(ticket, Duration::ZERO).await.map(drop),
            other => other.map(drop),
        };
        if let Err(error) = shown {
            tracing::debug!(%error, %write, "a committed write was not handed over: workers wait for its lease");
        }
    }

    /// The journal row with its version; `None` if the answer of the group was lost.
    fn appliable(&self, plan: &Plan, written: &[Written]) -> Option<JournalRow> {
        self.committer
            .journal_row(plan, Some(written.last()?.etag.clone()?))
            .ok()
    }

    /// The error of a write that was given up in all of its attempts, or of one attempt at a move. Not a conflict: a caller that reads and
    /// writes again would fail again.
    pub(super) fn given_up(&self, plan: &Plan, cause: Cause) -> Error {
        let key = plan
            .owners
            .first()
            .map_or_else(String::new, ToString::to_string);
        let why = match cause {
            Cause::AbortRow => "another process gave it up before its commit: a sweep, a worker, or a write that wants a \
                              value that it reserves; write fewer entities at once, or give more time by `Timing`"
                .to_owned(),
            Cause::StatesExpired(took) => format!(
                "the index states had expired at the commit, {took:?} after the write was planned: raise \
                 `IndexOptions::cache`, which is too short for these requests"
            ),
            Cause::LeaseExpired(took) => format!(
                "the lease of its reservations had expired before the commit, {took:?} after the write was planned: raise \
                 the lease of `Timing`, or write fewer entities at once"
            ),
        };
        let table = &self.entities.name;
        Error::wrong_state(match &plan.source {
            None => format!(
                "the write of {key} in '{table}' was tried {MAX_WRITE_ATTEMPTS} times: {why}"
            ),
            Some(source) => {
                let source = source.key();
                format!(
                    "the move of {source} to {key} in '{table}' was given up before its commit: {why}"
                )
            }
        })
    }
}

/// The entities as the write has written them, with their new versions.
fn new_states(plan: &Plan, changes: &[Change], written: &[Written]) -> States {
    let mut states = States::new(plan.entities());
    for (n, (key, change)) in plan.owners.iter().zip(changes).enumerate() {
        let etag = answer(written, n).and_then(|written| written.etag.clone());
        let entity = change.new.clone().map(|e| e.with_system(etag, None));
        states.set(key.clone(), entity);
    }
    states
}

/// The error of a unique entry without a row, which only a foreign write to the rows of the index can cause.
fn without_row(entry: &Entry) -> Error {
    let Entry {
        index,
        location,
        owner,
        ..
    } = entry;
    let index = index_name(index);
    Error::wrong_state(format!(
        "the unique index '{index}' has no entry {} of {owner}, so another entity may have the value: repair the \
         index by a scrub first",
        location.key
    ))
}
