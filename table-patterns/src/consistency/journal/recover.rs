//! Recovery of writes: from a ticket or a journal row.

use std::time::Duration;

use table_core::model::TableName;
use table_core::store::{Error, Operation, Result};
use tokio::time::sleep;
use uuid::Uuid;

use super::Journal;
use super::apply::{Entries, Known};
use super::lease::Lease;
use super::row::{Evidence, JournalRow, WriteId, abort_row, owners, read};
use super::state::States;
use super::ticket::Ticket;
use super::unique::By;
#[cfg(doc)]
use super::write::Acknowledge;
use crate::consistency::work::WorkerSlots;
use crate::rows::took_effect::took_effect;

/// The result of the recovery of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is left to do.
    Done,
    /// Try again after this time.
    Later(Duration),
}

impl Journal {
    /// The row at the key of a write: a journal row, an abort row, or none.
    pub(super) async fn evidence(&self, id: WriteId, partition: &str) -> Result<Option<Evidence>> {
        let entity = self.store.get(&self.table, &id.key(partition)?, None).await?;
        entity.as_ref().map(|e| read(id, e)).transpose()
    }

    /// Gives a write up unless it is committed: inserts the abort row at the key of the journal row. Afterwards the
    /// write can never commit. `None` if a row was there and was deleted in between: a journal row, because abort rows
    /// stay.
    pub(super) async fn abort(&self, id: WriteId, partition: &str) -> Result<Option<Evidence>> {
        let row = abort_row(id.key(partition)?);
        match took_effect(self.store.write(&self.table, Operation::Insert(row)).await) {
            Ok(_) => Ok(Some(Evidence::Abort)),
            Err(e) if e.is_already_exists() && !e.is_ambiguous() => self.evidence(id, partition).await,
            Err(e) => Err(e),
        }
    }

    /// Finishes or gives up the write of a ticket. `dequeues` is the number of receives of its message. For a
    /// committed write this waits for the lease of its last applier, unless the writer has [handed it
    /// over](Acknowledge::Committed).
    ///
    /// # Errors
    /// The text is not a ticket of this journal, or the store's error.
    pub async fn recover(&self, ticket: &str, dequeues: u32) -> Result<Progress> {
        self.recover_in(ticket, dequeues, None).await
    }

    /// The same in a slot of a worker, which is free during the wait.
    pub(super) async fn recover_in(
        &self,
        ticket: &str,
        dequeues: u32,
        slots: Option<&WorkerSlots>,
    ) -> Result<Progress> {
        let ticket = Ticket::parse(ticket)?;
        self.check_ours(&ticket)?;
        match self.evidence(ticket.write_id(), &ticket.partition).await? {
            Some(Evidence::Journal(row)) => self.take_over_row(row, slots).await,
            _ => self.give_up_for(&ticket, ticket.seen.saturating_add(dequeues), slots).await,
        }
    }

    /// Whether a ticket belongs to this journal's store and table.
    pub(super) fn has_written(&self, ticket: &Ticket) -> bool {
        let table = TableName::new(ticket.table.as_str());
        ticket.store == self.store_name && table.is_ok_and(|table| table == self.table)
    }

    fn check_ours(&self, ticket: &Ticket) -> Result<()> {
        if self.has_written(ticket) {
            return Ok(());
        }
        let (store, table) = (&ticket.store, &ticket.table);
        Err(Error::invalid_request(format!(
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
    ) -> Result<Progress> {
        if let Some(Evidence::Journal(row)) = self.abort(ticket.write_id(), &ticket.partition).await? {
            return self.take_over_row(row, slots).await;
        }
        let _permission = self.maintainer.prepare(self.store()).await?;
        let mut owners = owners(&ticket.partition, &ticket.rows)?;
        if let Some(source) = ticket.source()? {
            self.unmark(&source, ticket.write_id()).await?;
            owners.push(source);
        }
        let mut states = States::new(owners);
        for affected in &ticket.reserved {
            self.settle(&affected.location()?, By::Release(ticket.write_id()), &mut states).await?;
        }
        Ok(if dequeues > 1 { Progress::Done } else { self.later() })
    }

    /// Waits for the lease of a journal row on this process's clock. If the row has not changed then, its lease has
    /// expired, and this process claims and applies it.
    async fn take_over_row(&self, row: JournalRow, slots: Option<&WorkerSlots>) -> Result<Progress> {
        let watch = self.watch(row.lease);
        match slots {
            Some(slots) => slots.release_while(watch).await,
            None => watch.await,
        }
        self.finish(row).await
    }

    /// Waits for the longer of the row's lease and this process's own. Does not wait for a row without a lease: its
    /// writer has handed it over.
    pub(super) async fn watch(&self, lease: Duration) {
        if lease.is_zero() {
            return;
        }
        sleep(self.timing.lease().max(lease)).await;
    }

    /// Claims and applies a journal row that was watched since it was read.
    pub(super) async fn finish(&self, row: JournalRow) -> Result<Progress> {
        let lease = Lease::start(self.timing);
        let Some(row) = self.claim(row).await? else { return Ok(self.later()) };
        let mut states = States::new(row.owners()?);
        states.read_all_again(self).await?;
        let Some(row) = self.apply(&row, states, &Known::new(), lease).await? else {
            return Ok(self.later());
        };
        match self.clear_within(&row, lease).await? {
            Entries::Applied => Ok(Progress::Done),
            Entries::Pending => Ok(self.later()),
        }
    }

    const fn later(&self) -> Progress {
        Progress::Later(self.timing.lease())
    }

    /// Claims the row under its ETag. `None` if another process has changed the row, or if the outcome is ambiguous.
    async fn claim(&self, row: JournalRow) -> Result<Option<JournalRow>> {
        self.replace(JournalRow { claim: Some(Uuid::new_v4()), lease: self.timing.lease(), ..row }).await
    }

    /// Replaces a journal row in the version that was read. `None` if it has changed, or if the outcome is ambiguous.
    pub(super) async fn replace(&self, mut row: JournalRow) -> Result<Option<JournalRow>> {
        let Some(etag) = row.etag.take() else { return Ok(None) };
        let replace = Operation::Replace(row.to_entity()?, etag.into());
        match took_effect(self.store.write(&self.table, replace).await) {
            Ok(written) => Ok(written.etag.map(|etag| JournalRow { etag: Some(etag), ..row })),
            Err(e) if e.is_precondition_failed() || e.is_entity_not_found() || e.is_ambiguous() => Ok(None),
            Err(e) => Err(e),
        }
    }
}
