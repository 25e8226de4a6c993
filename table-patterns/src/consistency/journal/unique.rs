//! Rule U: unique rows. A unique row holds its owner, the write that put it, and whether it is
//! settled. It is inserted by a reservation and never otherwise. The row of a value that an entity keeps while it is moved is a
//! *pair*: it names the heir, too, the entity that the move writes.

use table_core::model::{ETag, Entity, IfMatch, Key, ValueRef};
use table_core::store::{Error, ErrorKind, Operation, Result};

use super::Journal;
use super::plan::violation;
use super::row::{Evidence, WriteId};
use super::rules::Rule;
use super::state::States;
use crate::index::{Entry, Location};
use crate::rows::took_effect::took_effect;

const TICKET: &str = "OwnerWrite";
pub(super) const PENDING: &str = "OwnerPending";
const HEIR_PARTITION: &str = "HeirPartition";
const HEIR_ROW: &str = "HeirRow";

/// A unique row as it was read.
#[derive(Clone, Debug)]
pub(super) struct UniqueRow {
    pub(super) owner: Key,
    /// Who owns the value when the write, a move, has been applied.
    pub(super) heir: Option<Key>,
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
        let (owner, heir) = (Entry::owner_of(entity)?, heir_of(entity)?);
        Ok(Self { owner, heir, ticket: WriteId::from_uuid(ticket), pending, etag })
    }

    /// The partition that has the journal row of its write.
    pub(super) fn partition(&self) -> &str {
        self.heir.as_ref().unwrap_or(&self.owner).partition()
    }

    /// Whether an entity of a write is its owner or its heir.
    fn concerns(&self, states: &States) -> bool {
        states.contains(&self.owner) || self.heir.as_ref().is_some_and(|heir| states.contains(heir))
    }

    /// Who has the value once it is known whether its write was committed.
    fn holder(&self, committed: bool) -> &Key {
        self.heir.as_ref().filter(|_| committed).unwrap_or(&self.owner)
    }

    /// Settles the row if its owner holds the entry, and removes it otherwise, under the row's ETag.
    fn agreeing_with(&self, at: &Location, held: Option<&Entry>) -> Operation {
        let condition = IfMatch::from(&self.etag);
        match held {
            Some(entry) => Operation::Replace(row(entry, self.ticket, false), condition),
            None => Operation::Delete(at.key.clone(), condition),
        }
    }
}

/// The row of a unique entry in a state.
pub(super) fn row(entry: &Entry, write: WriteId, pending: bool) -> Entity {
    entry.to_entity().with(TICKET, write.uuid()).with(PENDING, pending)
}

/// The row of a value that an entity keeps while it is moved.
pub(super) fn pair_row(entry: &Entry, heir: &Key, write: WriteId) -> Entity {
    row(entry, write, true).with(HEIR_PARTITION, heir.partition()).with(HEIR_ROW, heir.row())
}

fn heir_of(row: &Entity) -> Result<Option<Key>> {
    match (row.get(HEIR_PARTITION), row.get(HEIR_ROW)) {
        (Some(ValueRef::String(partition)), Some(ValueRef::String(row))) => {
            Key::new(partition, row).map(Some)
        }
        _ => Ok(None),
    }
}

/// The entities of which one has an entry: its owner, and the heir of a value that is being moved.
pub(crate) fn holders(row: &Entity) -> Result<Vec<Key>> {
    Ok(std::iter::once(Entry::owner_of(row)?).chain(heir_of(row)?).collect())
}

/// Who settles a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// A write that will never commit: it lets go what it has reserved.
    Release(WriteId),
    /// The applier of a write that was committed.
    Applier(WriteId),
}

impl By {
    const fn write(self) -> WriteId {
        match self {
            Self::Release(write) | Self::Applier(write) => write,
        }
    }
}

/// What became of a reservation.
#[derive(Debug)]
pub(super) enum Reservation {
    /// The key is the write's to use; the version of its row.
    Mine(Option<ETag>),
    /// Another entity holds it.
    Taken(Key),
}

/// How often a row that others change at the same time is read again.
const ROUNDS: usize = 16;

impl Journal {
    /// Reserves a unique key for a write of `entry.owner`. One request where the key is free.
    pub(super) async fn reserve(&self, entry: &Entry, write: WriteId) -> Result<Reservation> {
        let (at, wanted) = (&entry.location, row(entry, write, true));
        for _ in 0..ROUNDS {
            match self.put(at, Operation::Insert(wanted.clone())).await {
                Ok(etag) => return Ok(Reservation::Mine(etag)),
                Err(e) if e.is_already_exists() && !e.is_ambiguous() => {}
                Err(e) => return Err(e),
            }
            let Some(found) = self.unique_row(at).await? else { continue };
            if let Some(reservation) = self.claim_row(&entry.owner, at, &wanted, write, found).await? {
                return Ok(reservation);
            }
        }
        Err(contended(at))
    }

    /// Makes the row of a value that `entry.owner` keeps a pair of it and of the entity that it is moved to; `None` if there
    /// is no row. Two requests.
    pub(super) async fn pair(
        &self,
        entry: &Entry,
        heir: &Key,
        write: WriteId,
    ) -> Result<Option<Reservation>> {
        let (at, wanted) = (&entry.location, pair_row(entry, heir, write));
        for _ in 0..ROUNDS {
            let Some(found) = self.settled_row(at).await? else { return Ok(None) };
            let claimed = self.claim_row(&entry.owner, at, &wanted, write, found).await?;
            if claimed.is_some() {
                return Ok(claimed);
            }
        }
        Err(contended(at))
    }

    /// Puts what is wanted in the place of a row, if that is the entity's own; `None` if the row is to be read again.
    async fn claim_row(
        &self,
        owner: &Key,
        at: &Location,
        wanted: &Entity,
        write: WriteId,
        found: UniqueRow,
    ) -> Result<Option<Reservation>> {
        if found.owner == *owner && (found.heir.is_none() || found.ticket == write) {
            return self.adopt(at, wanted, write, found).await;
        }
        let Some(committed) = self.is_committed(&found).await? else { return Ok(None) };
        let holder = found.holder(committed);
        if committed && holder == owner {
            return self.replace_row(at, wanted, &found).await;
        }
        let is_held = self.is_held(at, &found, holder, committed).await?;
        Ok((is_held && holder != owner).then(|| Reservation::Taken(holder.clone())))
    }

    /// Makes the entity's own row this write's; `None` if it has changed. The write that it was reserved
    /// for is given up first: it must not commit on a row that this write may delete.
    async fn adopt(
        &self,
        at: &Location,
        wanted: &Entity,
        write: WriteId,
        found: UniqueRow,
    ) -> Result<Option<Reservation>> {
        if found.pending && found.ticket != write && self.keeps(Rule::AbortBeforeAdopting) {
            self.abort(found.ticket, found.partition()).await?;
        }
        self.replace_row(at, wanted, &found).await
    }

    async fn replace_row(
        &self,
        at: &Location,
        wanted: &Entity,
        found: &UniqueRow,
    ) -> Result<Option<Reservation>> {
        match self.put(at, Operation::Replace(wanted.clone(), IfMatch::from(&found.etag))).await {
            Err(e) if changed(&e) => Ok(None),
            replaced => replaced.map(|etag| Some(Reservation::Mine(etag))),
        }
    }

    /// Whether the holder of a row holds the key. Otherwise the row is gone, or is to be read again. The write of a
    /// pending row was given up before, unless it has committed; whether it has or not, the entity tells: its holder may have
    /// given the key up again, and may hold it although this write never commits. What it does not hold it can only come
    /// to hold by a reservation, which changes the row.
    async fn is_held(&self, at: &Location, found: &UniqueRow, holder: &Key, committed: bool) -> Result<bool> {
        let mut states = States::new(vec![holder.clone()]);
        states.read_again(self, holder).await?;
        let held = states.entry_at(self, holder, at)?;
        if held.is_some() && (committed || !found.pending) {
            return Ok(true);
        }
        match self.put(at, found.agreeing_with(at, held.as_ref())).await {
            Ok(_) => Ok(held.is_some()),
            Err(e) if changed(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether the write of a pending row has committed; if not, it never will. `None` if its evidence has gone
    /// meanwhile, and the row is to be read again.
    async fn is_committed(&self, row: &UniqueRow) -> Result<Option<bool>> {
        if !row.pending {
            return Ok(Some(false));
        }
        let (id, partition) = (row.ticket, row.partition());
        let evidence = if self.keeps(Rule::AbortBeforeTakeOver) {
            self.abort(id, partition).await?
        } else {
            self.evidence(id, partition).await?.or(Some(Evidence::Abort))
        };
        Ok(evidence.map(|evidence| matches!(evidence, Evidence::Journal(_))))
    }

    /// Settles or removes a unique key: the row is read, **then** the entity, then the row is
    /// written under its ETag. In the other order two entities could end with one value.
    ///
    /// # Errors
    /// An applier finds that another entity has the key that an entity of its write holds.
    pub(super) async fn settle(&self, at: &Location, by: By, states: &mut States) -> Result<()> {
        for _ in 0..ROUNDS {
            if !self.keeps(Rule::RowThenEntity) {
                states.read_all_again(self).await?;
            }
            let found = self.store().get(&at.table, &at.key, None).await?;
            if found.as_ref().is_some_and(|row| !is_unique_row(row)) {
                // Another definition of the index has put a row of another kind.
                return Ok(());
            }
            let found = found.as_ref().map(UniqueRow::read).transpose()?;
            let Some(row) = found.as_ref().filter(|row| row.concerns(states)) else {
                if self.is_without(at, found.as_ref(), by, states).await? {
                    return Ok(());
                }
                continue;
            };
            let held = self.holder_of(at, row, by, states).await?;
            match self.may_settle(row, held.as_ref(), by).await? {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => continue,
            }
            match self.put(at, row.agreeing_with(at, held.as_ref())).await {
                Err(e) if changed(&e) => {}
                other => return other.map(drop),
            }
        }
        Err(contended(at))
    }

    /// The entry of the entity that is to own a row which was just read. Only the applier of a committed move gives the value to
    /// the heir: that of a move which was given up may be the source of an earlier move, which has the value until it is deleted.
    async fn holder_of(
        &self,
        at: &Location,
        row: &UniqueRow,
        by: By,
        states: &mut States,
    ) -> Result<Option<Entry>> {
        let applies = matches!(by, By::Applier(write) if write == row.ticket);
        let heir = row.heir.iter().filter(|_| applies);
        let mut others = States::default();
        for key in heir.chain([&row.owner]) {
            let is_own = states.contains(key);
            let known = if is_own { &mut *states } else { &mut others };
            if self.keeps(Rule::RowThenEntity) || !is_own {
                known.read_again(self, key).await?;
            }
            if let Some(entry) = known.entry_at(self, key, at)? {
                return Ok(Some(entry));
            }
        }
        // Another entity of the write has it, as far as is known: that one is read after the row, too.
        let By::Applier(_) = by else { return Ok(None) };
        let Some(entry) = states.held_at(self, at)?.filter(|entry| entry.owner != row.owner) else {
            return Ok(None);
        };
        states.read_again(self, &entry.owner).await?;
        states.entry_at(self, &entry.owner, at)
    }

    /// Whether a row may be settled or removed. That of another write is left to it by who only lets go what it had
    /// reserved. The applier of a committed write gives the other one up first: it may have
    /// reserved the key for an entity that was there and is not any more, or the other way round, and absence has no
    /// version by which it could tell. If the other one is committed, its journal row answers for the key. `None`
    /// where the row is to be read again.
    async fn may_settle(&self, row: &UniqueRow, held: Option<&Entry>, by: By) -> Result<Option<bool>> {
        if !row.pending || row.ticket == by.write() || !self.keeps(Rule::PendingToItsWrite) {
            return Ok(Some(true));
        }
        if !self.keeps(Rule::AbortBeforeSettling) {
            return Ok(Some(held.is_some()));
        }
        match by {
            By::Release(_) => Ok(Some(false)),
            By::Applier(_) => Ok(self.is_committed(row).await?.map(|committed| !committed)),
        }
    }

    /// Whether it is right that no entity of a write has the row; otherwise it is to be read again. A key that one of them
    /// holds, and that has no row, is reserved. While an index is built, entities are without their rows, and
    /// two may have had one value before.
    async fn is_without(
        &self,
        at: &Location,
        found: Option<&UniqueRow>,
        by: By,
        states: &mut States,
    ) -> Result<bool> {
        let By::Applier(write) = by else { return Ok(true) };
        let complete = |entry: &Entry| entry.unique && self.maintainer.is_complete(&entry.index);
        let Some(entry) = states.held_at(self, at)?.filter(complete) else { return Ok(true) };
        // The row was read after what is known of the entity: now the entity again, and then the row.
        states.read_again(self, &entry.owner).await?;
        let Some(entry) = states.entry_at(self, &entry.owner, at)? else { return Ok(true) };
        let Some(found) = found else {
            return match self.reserve(&entry, write).await? {
                Reservation::Mine(_) => Ok(false),
                Reservation::Taken(owner) => Err(violation(&entry, &owner)),
            };
        };
        match self.settled_row(at).await? {
            Some(now) if now.etag == found.etag => Err(violation(&entry, &now.owner)),
            _ => Ok(false),
        }
    }

    /// Settles or removes a key whose row was read or reserved before the commit, when the entity's state
    /// is newer than the row. `false` if the row has changed since.
    pub(super) async fn settle_known(
        &self,
        at: &Location,
        held: Option<&Entry>,
        write: WriteId,
        version: ETag,
    ) -> Result<bool> {
        let operation = match held {
            Some(entry) => Operation::Replace(row(entry, write, false), version.into()),
            None => Operation::Delete(at.key.clone(), version.into()),
        };
        match self.put(at, operation).await {
            Err(e) if changed(&e) => Ok(false),
            other => other.map(|_| true),
        }
    }

    async fn unique_row(&self, at: &Location) -> Result<Option<UniqueRow>> {
        let entity = self.store().get(&at.table, &at.key, None).await?;
        entity.as_ref().map(UniqueRow::read).transpose()
    }

    /// The unique row; none where another definition of the index has put a row of another kind.
    pub(super) async fn settled_row(&self, at: &Location) -> Result<Option<UniqueRow>> {
        let row = self.store().get(&at.table, &at.key, None).await?;
        row.as_ref().filter(|row| is_unique_row(row)).map(UniqueRow::read).transpose()
    }

    async fn put(&self, at: &Location, operation: Operation) -> Result<Option<ETag>> {
        Ok(took_effect(self.store().write(&at.table, operation).await)?.etag)
    }
}

/// Others kept changing the row.
fn contended(at: &Location) -> Error {
    ErrorKind::PreconditionFailed { table: at.table.to_string(), key: at.key.to_string() }.into()
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

/// Whether a row is a unique one, whatever it holds.
pub(crate) fn is_unique_row(row: &Entity) -> bool {
    row.properties().iter().any(|p| is_unique_row_property(p.name()))
}

/// Whether a property is of the unique row, not of its payload.
pub(crate) fn is_unique_row_property(name: &str) -> bool {
    [PENDING, TICKET, HEIR_PARTITION, HEIR_ROW].contains(&name)
}
