//! Recovery of writes: from a ticket or a journal row (`docs/protocol.md`, *Recovery*).
//!
//! The key of the journal row decides about a write. A journal row there shows that the write is committed, and this process applies it after the
//! last applier's lease. Otherwise this process puts an abort row there: the group of the write can no longer commit, and what the write has
//! reserved and marked can be released.

use std::time::Duration;

use table_core::model::{Entity, TableName};
use table_core::store::{Error, Result};
use tokio::time::{sleep, timeout};

use super::apply::{AppliedRow, Applier, Entries, Known};
use super::entity_table::{EntityTable, States};
use super::lease::{Lease, Timing};
use super::moving::{Moves, ROUNDS};
use super::row::{Evidence, JournalRow, JournalRows, owners};
use super::ticket::{Ticket, Tickets};
use super::unique::{By, UniqueKeys};
use crate::consistency::work::WorkerSlots;
use crate::entity_rows::separate_mark;

/// The result of the recovery of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryProgress {
    /// Nothing is left to do.
    Done,
    /// Try again after this time.
    Later(Duration),
}

/// The end of the work on a journal row.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) progress: RecoveryProgress,
    /// The key collisions of entries that were left out of a finished write.
    pub(super) collisions: Vec<Error>,
}

impl From<RecoveryProgress> for Finished {
    fn from(progress: RecoveryProgress) -> Self {
        Self {
            progress,
            collisions: Vec::new(),
        }
    }
}

/// The writes that their writers have not finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnfinishedWrites<'a> {
    pub(super) entities: &'a EntityTable,
    pub(super) rows: JournalRows<'a>,
    pub(super) unique: UniqueKeys<'a>,
    pub(super) moves: Moves<'a>,
    pub(super) applier: Applier<'a>,
    pub(super) tickets: &'a Tickets,
    pub(super) timing: Timing,
}

impl UnfinishedWrites<'_> {
    /// Finishes or gives up the write of a ticket, in a slot of a worker, which is free during the wait for a lease.
    pub(super) async fn recover(
        &self,
        ticket: &str,
        dequeues: u32,
        slots: Option<&WorkerSlots>,
    ) -> Result<RecoveryProgress> {
        let ticket = Ticket::parse(ticket)?;
        self.check_owns_ticket(&ticket)?;
        // A table that was opened to read refuses here, before an abort row or a claim is written.
        drop(self.entities.maintainer.prepare().await?);
        match self
            .rows
            .evidence(ticket.write_id(), &ticket.partition)
            .await?
        {
            Some(Evidence::Journal(row)) => self.take_over_row(row, slots).await,
            // Also if there is an abort row: the worker that inserted it may have died before the releases.
            _ => {
                self.give_up_for(&ticket, ticket.seen.saturating_add(dequeues), slots)
                    .await
            }
        }
    }

    /// Whether a ticket belongs to this journal's store and table.
    pub(super) fn owns_ticket(&self, ticket: &Ticket) -> bool {
        let table = TableName::new(ticket.table.as_str());
        ticket.store == self.tickets.store_name
            && table.is_ok_and(|table| table == self.entities.name)
    }

    fn check_owns_ticket(&self, ticket: &Ticket) -> Result<()> {
        if self.owns_ticket(ticket) {
            return Ok(());
        }
        let (store, table) = (&ticket.store, &ticket.table);
        Err(Error::invalid_argument(format!(
            "the ticket is for the table '{table}' of the store '{store}': give it to the journal of that table"
        )))
    }

    /// There is no journal row. After the abort row is inserted, the writer can never commit: this releases its mark
    /// and its reservations. The ticket is deleted at its second receive: it is older than a lease then, and a
    /// reservation that was under way has arrived.
    async fn give_up_for(
        &self,
        ticket: &Ticket,
        dequeues: u32,
        slots: Option<&WorkerSlots>,
    ) -> Result<RecoveryProgress> {
        // The write was committed after the read of its evidence.
        if let Some(Evidence::Journal(row)) = self
            .rows
            .abort(ticket.write_id(), &ticket.partition)
            .await?
        {
            return self.take_over_row(row, slots).await;
        }
        let mut owners = owners(&ticket.partition, &ticket.rows)?;
        if let Some(source) = ticket.source()? {
            self.moves.unmark(&source, ticket.write_id()).await?;
            owners.push(source);
        }
        let mut states = States::new(owners);
        for affected in &ticket.reserved {
            // Kept until the release has ended: a release derives the entries of the owner. One permission for each key, because the states
            // may expire before the last one.
            let _permission = self.entities.maintainer.prepare().await?;
            let at = affected.location()?;
            if !self.entities.maintainer.permits(&at, None) {
                tracing::warn!(table = %at.table, key = %at.key, "a ticket names a row that no index in force has");
                continue;
            }
            self.unique
                .settle(&at, By::Release(ticket.write_id()), &mut states)
                .await?;
        }
        Ok(if dequeues > 1 {
            RecoveryProgress::Done
        } else {
            self.later()
        })
    }

    /// Waits for the lease of a journal row on this process's clock. If the row has not changed then, its lease has
    /// expired, and this process claims and applies it.
    async fn take_over_row(
        &self,
        row: JournalRow,
        slots: Option<&WorkerSlots>,
    ) -> Result<RecoveryProgress> {
        let watch = self.watch(row.lease);
        match slots {
            Some(slots) => slots.release_while(watch).await,
            None => watch.await,
        }
        let finished = self.finish(row).await?;
        for error in &finished.collisions {
            tracing::warn!(%error, "the recovery of a write has left an entry out: a scrub adds the entry when its row is free");
        }
        Ok(finished.progress)
    }

    /// Waits for the longer of the row's lease and this process's own. Does not wait for a row without a lease: its
    /// writer has handed it over.
    pub(super) async fn watch(&self, lease: Duration) {
        if lease.is_zero() {
            return;
        }
        if self
            .until_lone_writers_end(self.timing.lease().max(lease))
            .await
        {
            return;
        }
        // `OneApplier`, `LeaseOfTheRow`: an applier that is only slow must have stopped when this process
        // begins.
        sleep(self.timing.lease().max(lease)).await;
    }

    /// In a store that only this process writes, waits until its earlier writes and recoveries have ended, at most for `longest`; `true` then.
    /// The other writers of rows that were read before are dead: their process had the store before this one. `false` at once, without a
    /// wait, if other processes may write.
    pub(super) async fn until_lone_writers_end(&self, longest: Duration) -> bool {
        let Some(writers) = self.entities.maintainer.lone_writers() else {
            return false;
        };
        let ended = async {
            // A write has a permit until its last request is done.
            writers.mark().known().await;
            writers.until_idle(&self.subject()).await;
        };
        // A writer whose task does not run keeps its permit: then the lease decides.
        let _ = timeout(longest, ended).await;
        true
    }

    /// The name of the recoveries of the table in the register of this process.
    fn subject(&self) -> String {
        format!(
            "~~recovery {}",
            self.entities
                .store
                .profile()
                .table_identity(&self.entities.name)
        )
    }

    /// Claims and applies a journal row that was watched since it was read.
    pub(super) async fn finish(&self, row: JournalRow) -> Result<Finished> {
        // From before the claim until the end: a recovery that reads the row after the claim waits for this one.
        let _work = self
            .entities
            .maintainer
            .lone_writers()
            .map(|writers| writers.work_on(self.subject()));
        // From before the claim is sent: another process counts the lease from when it sees the claim, so for
        // that process it ends later than for this one.
        let lease = Lease::start(self.timing);
        let Some(row) = self.rows.claim(row, self.timing.lease()).await? else {
            return Ok(self.later().into());
        };
        let mut states = States::new(row.owners()?);
        states.read_all_again(self.entities).await?;
        let Some(AppliedRow { row, collisions }) = self
            .applier
            .apply(&row, states, &Known::new(), lease)
            .await?
        else {
            return Ok(self.later().into());
        };
        match self.applier.clear(&row, lease).await? {
            Entries::Applied => Ok(Finished {
                progress: RecoveryProgress::Done,
                collisions,
            }),
            Entries::Pending => Ok(self.later().into()),
        }
    }

    /// Ends the move of an entity that was read with a mark. Gives the move up if it is not committed; otherwise waits for the lease of its
    /// last applier and finishes it. Returns the entity without a mark, or `None` if it is gone.
    ///
    /// No request without a mark; 4 for a move that is given up.
    pub(super) async fn end_move(&self, mut entity: Entity) -> Result<Option<Entity>> {
        for _ in 0..ROUNDS {
            let Some((_, mark)) = separate_mark(&entity) else {
                return Ok(Some(entity));
            };
            match self.rows.abort(mark.write, &mark.partition).await? {
                Some(Evidence::Abort) => drop(self.moves.unmark(entity.key(), mark.write).await?),
                Some(Evidence::Journal(row)) => drop(self.take_over_row(row, None).await?),
                // The move was applied, and its journal row was deleted in between: the source is gone.
                None => {}
            }
            match self.entities.rows().stored(entity.key()).await? {
                Some(now) => entity = now,
                None => return Ok(None),
            }
        }
        Err(self.moves.contended(entity.key()))
    }

    const fn later(&self) -> RecoveryProgress {
        RecoveryProgress::Later(self.timing.lease())
    }
}
