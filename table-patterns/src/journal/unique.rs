//! Rule U: unique rows. A unique row holds its owner, the write that put it, and whether it is
//! settled. It is inserted by a reservation and never otherwise.

use table_core::model::{ETag, Entity, IfMatch, Key, ValueRef};
use table_core::store::{Error, ErrorKind, Operation, Result};

use super::Journal;
use super::row::WriteId;
use super::state::States;
use crate::index::{Entry, Location};

const TICKET: &str = "OwnerWrite";
pub(super) const PENDING: &str = "OwnerPending";

/// A unique row as it was read.
#[derive(Clone, Debug)]
pub(super) struct UniqueRow {
    pub(super) owner: Key,
    pub(super) ticket: WriteId,
    pub(super) pending: bool,
    pub(super) etag: ETag,
}

impl UniqueRow {
    pub(super) fn read(entity: &Entity) -> Result<Self> {
        let damaged = |name: &str| {
            Error::decode("unique row", entity.key(), name, "a unique row's value", "something else")
        };
        let Some(ValueRef::Guid(ticket)) = entity.get(TICKET) else { return Err(damaged(TICKET)) };
        let Some(ValueRef::Boolean(pending)) = entity.get(PENDING) else { return Err(damaged(PENDING)) };
        let etag = entity.etag().cloned().ok_or_else(|| damaged("ETag"))?;
        Ok(Self { owner: Entry::owner_of(entity)?, ticket: WriteId::from_uuid(ticket), pending, etag })
    }
}

/// The row of a unique entry in a state.
fn unique_row(entry: &Entry, write: WriteId, pending: bool) -> Entity {
    entry.to_entity().with(TICKET, write.uuid()).with(PENDING, pending)
}

/// What became of a reservation.
#[derive(Debug)]
pub(super) enum Reservation {
    /// The key is the write's to use; the version of its row.
    Mine(Option<ETag>),
    /// Another entity holds it.
    Taken(Key),
}

impl Journal {
    /// Reserves a unique key for a write of `owner`. One request where the key is free.
    pub(super) async fn reserve(&self, entry: &Entry, write: WriteId) -> Result<Reservation> {
        let (at, pending) = (&entry.location, unique_row(entry, write, true));
        loop {
            match self.put(at, Operation::Insert(pending.clone())).await {
                Ok(etag) => return Ok(Reservation::Mine(etag)),
                Err(e) if e.is_already_exists() && !e.is_ambiguous() => {}
                Err(e) => return Err(e),
            }
            let Some(row) = self.unique_row(at).await? else { continue };
            if row.owner == entry.owner {
                match self.put(at, Operation::Replace(pending.clone(), row.etag.into())).await {
                    Err(e) if changed(&e) => continue,
                    adopted => return adopted.map(Reservation::Mine),
                }
            }
            if !row.pending || self.is_committed_or_give_up(&row).await? || self.take_over(at, &row).await? {
                return Ok(Reservation::Taken(row.owner));
            }
        }
    }

    /// Whether the write behind a pending row has committed; otherwise its abort row is there now, so
    /// that it never will.
    async fn is_committed_or_give_up(&self, row: &UniqueRow) -> Result<bool> {
        Ok(self.abort(row.ticket, row.owner.partition()).await?.is_journal())
    }

    /// Settles or deletes a row whose write was given up; whether its owner turns out to hold it.
    async fn take_over(&self, at: &Location, row: &UniqueRow) -> Result<bool> {
        let held = self.holder_entry(at, &row.owner).await?;
        let operation = match &held {
            Some(entry) => Operation::Replace(unique_row(entry, row.ticket, false), row.etag.clone().into()),
            None => Operation::Delete(at.key.clone(), row.etag.clone().into()),
        };
        match self.put(at, operation).await {
            Ok(_) => Ok(held.is_some()),
            Err(e) if changed(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Settles or removes a unique key: the row is read, **then** the entity, then the row is
    /// written under its ETag. In the other order two entities could end with one value.
    pub(super) async fn settle(&self, at: &Location, write: WriteId, states: &mut States) -> Result<()> {
        loop {
            let Some(row) = self.unique_row(at).await? else { return Ok(()) };
            if !states.contains(&row.owner) {
                return Ok(());
            }
            states.read_again(self, &row.owner).await?;
            let operation = match states.entry_at(self, &row.owner, at)? {
                Some(entry) => {
                    let settled = unique_row(&entry, row.ticket, false);
                    Operation::Replace(settled, row.etag.clone().into())
                }
                // Left to its own write: deleting it would let a third entity in.
                None if row.pending && row.ticket != write => return Ok(()),
                None => Operation::Delete(at.key.clone(), row.etag.clone().into()),
            };
            match self.put(at, operation).await {
                Err(e) if changed(&e) => {}
                other => return other.map(drop),
            }
        }
    }

    /// Settles a key that this write has just reserved and committed: the row's version is known and
    /// the entity's state is newer than it. `false` if either has changed since.
    pub(super) async fn settle_own(&self, entry: &Entry, write: WriteId, row: ETag) -> Result<bool> {
        let settled = unique_row(entry, write, false);
        match self.put(&entry.location, Operation::Replace(settled, IfMatch::Exactly(row))).await {
            Err(e) if changed(&e) => Ok(false),
            other => other.map(|_| true),
        }
    }

    async fn unique_row(&self, at: &Location) -> Result<Option<UniqueRow>> {
        let entity = self.store().get(&at.table, &at.key, None).await?;
        entity.as_ref().map(UniqueRow::read).transpose()
    }

    /// The entry that `owner` has at a location now.
    async fn holder_entry(&self, at: &Location, owner: &Key) -> Result<Option<Entry>> {
        let mut states = States::new(vec![owner.clone()]);
        states.read_again(self, owner).await?;
        states.entry_at(self, owner, at)
    }

    async fn put(&self, at: &Location, operation: Operation) -> Result<Option<ETag>> {
        Ok(self.store().write(&at.table, operation).await?.etag)
    }
}

/// Whether the row is not what it was: read it again. An ambiguous answer is not that.
fn changed(error: &Error) -> bool {
    !error.is_ambiguous()
        && matches!(error.kind(), ErrorKind::PreconditionFailed { .. } | ErrorKind::EntityNotFound { .. })
}

/// Whether a row is a reservation whose write has not been settled.
pub(crate) fn is_pending(row: &Entity) -> bool {
    row.get(PENDING) == Some(ValueRef::Boolean(true))
}

/// Whether a property is of the unique row, not of its payload.
pub(crate) fn is_unique_row_property(name: &str) -> bool {
    name == PENDING || name == TICKET
}
