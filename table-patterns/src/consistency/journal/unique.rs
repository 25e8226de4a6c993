//! Rule U: the rows of remote unique entries (`docs/protocol.md`, *Unique keys*). A unique row contains its owner, the write that has written it, and
//! whether it is pending or settled. Only a reservation inserts it. The row of a value that an entity keeps during a
//! move is a *pair*: it also names the heir, the entity that the move writes.
//!
//! Two facts carry the rule. The insert of a row at the key of the value decides between two writers, and every later change of the row is
//! under its ETag. An entity can gain the value only by such a change: what is read *after* the row cannot become wrong while the row stays.

use table_core::model::{ETag, Entity, IfMatch, Key, ValueRef};
use table_core::store::{Error, Operation, Result};

use super::entity_table::{EntityTable, States};
use super::plan::violation;
use super::row::{Evidence, JournalRows};
use crate::entity_rows::WriteId;
use crate::entry::row_properties::{
    HEIR_PARTITION, HEIR_ROW, OWNER_PENDING, OWNER_WRITE, heir_of, is_unique_row,
};
use crate::entry::shared::{contended, key_collision};
use crate::entry::{Entry, Location};
use crate::rows::{accept_applied, is_of_later_version, was_changed_by_another};

/// A unique row as it was read.
#[derive(Clone, Debug)]
pub(super) struct UniqueRow {
    pub(super) owner: Key,
    /// The owner of the value after the move is applied.
    pub(super) heir: Option<Key>,
    /// The write that has written the row.
    pub(super) write: WriteId,
    pub(super) pending: bool,
    pub(super) etag: ETag,
}

impl UniqueRow {
    pub(super) fn read(entity: &Entity) -> Result<Self> {
        let damaged = |name: &str| {
            Error::decode(
                "unique row",
                entity.key(),
                name,
                "a valid value",
                "a missing or invalid value",
            )
        };
        let Some(ValueRef::Guid(write)) = entity.get(OWNER_WRITE) else {
            return Err(damaged(OWNER_WRITE));
        };
        let Some(ValueRef::Boolean(pending)) = entity.get(OWNER_PENDING) else {
            return Err(damaged(OWNER_PENDING));
        };
        let etag = entity.etag().cloned().ok_or_else(|| damaged("ETag"))?;
        let (owner, heir) = (Entry::owner_of(entity)?, heir_of(entity)?);
        Ok(Self {
            owner,
            heir,
            write: WriteId::from_uuid(write),
            pending,
            etag,
        })
    }

    /// The partition with the journal row of the row's write.
    pub(super) fn partition(&self) -> &str {
        self.heir.as_ref().unwrap_or(&self.owner).partition()
    }

    /// Whether the owner or the heir is an entity of a write.
    fn concerns(&self, states: &States) -> bool {
        states.contains(&self.owner) || self.heir.as_ref().is_some_and(|heir| states.contains(heir))
    }

    /// The entity that has the value: the heir of a committed pair, otherwise the owner.
    fn holder(&self, state: WriteState) -> &Key {
        self.heir
            .as_ref()
            .filter(|_| state == WriteState::Committed)
            .unwrap_or(&self.owner)
    }

    /// The operation that settles the row if its owner has the entry, and deletes the row otherwise, under the row's
    /// ETag.
    fn agreeing_with(&self, at: &Location, held: Option<&Entry>) -> Operation {
        let condition = IfMatch::from(&self.etag);
        match held {
            Some(entry) => Operation::Replace(row(entry, self.write, false), condition),
            None => Operation::Delete(at.key.clone(), condition),
        }
    }
}

/// The row of a unique entry: pending or settled.
pub(super) fn row(entry: &Entry, write: WriteId, pending: bool) -> Entity {
    entry
        .to_entity()
        .with(OWNER_WRITE, write.uuid())
        .with(OWNER_PENDING, pending)
}

/// The row of a value that an entity keeps during a move.
pub(super) fn pair_row(entry: &Entry, heir: &Key, write: WriteId) -> Entity {
    row(entry, write, true)
        .with(HEIR_PARTITION, heir.partition())
        .with(HEIR_ROW, heir.row())
}

/// The process that settles a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// A write that can never commit releases its reservation.
    Release(WriteId),
    /// The applier of a committed write.
    Applier(WriteId),
}

impl By {
    const fn write(self) -> WriteId {
        match self {
            Self::Release(write) | Self::Applier(write) => write,
        }
    }
}

/// The state of the write that has written a unique row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    /// The row is settled: no write is open.
    Settled,
    /// The row is pending, and its write is committed.
    Committed,
    /// The row is pending, and its write can never commit.
    GivenUp,
}

/// The result of a reservation.
#[derive(Debug)]
pub(super) enum Reservation {
    /// The write has the key; the value is the version of its row.
    Mine(Option<ETag>),
    /// Another entity has the key.
    Taken(Key),
}

/// Attempts with a row that other writers change.
const ROUNDS: usize = 16;

/// The unique keys of remote entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct UniqueKeys<'a> {
    pub(super) entities: &'a EntityTable,
    /// They decide whether the write of a pending row is committed.
    pub(super) rows: JournalRows<'a>,
}

impl UniqueKeys<'_> {
    /// Reserves a unique key for a write of `entry.owner`. 1 request if the key is free.
    pub(super) async fn reserve(&self, entry: &Entry, write: WriteId) -> Result<Reservation> {
        let (at, wanted) = (&entry.location, row(entry, write, true));
        for _ in 0..ROUNDS {
            match self.put(at, Operation::Insert(wanted.clone())).await {
                Ok(etag) => return Ok(Reservation::Mine(etag)),
                Err(e) if e.is_already_exists() && !e.is_ambiguous() => {}
                Err(e) => return Err(e),
            }
            // The row that the insert has met may be gone by now: insert again.
            let Some(found) = self.unique_row(entry).await? else {
                continue;
            };
            if let Some(reservation) = self
                .reserve_found(&entry.owner, at, &wanted, write, found)
                .await?
            {
                return Ok(reservation);
            }
        }
        Err(contended(at))
    }

    /// Makes the row of a value that `entry.owner` keeps during a move a pair with the moved entity. `None` if there
    /// is no row. 2 requests.
    pub(super) async fn pair(
        &self,
        entry: &Entry,
        heir: &Key,
        write: WriteId,
    ) -> Result<Option<Reservation>> {
        let (at, wanted) = (&entry.location, pair_row(entry, heir, write));
        for _ in 0..ROUNDS {
            let Some(found) = self.settled_row(at).await? else {
                return Ok(None);
            };
            let reserved = self
                .reserve_found(&entry.owner, at, &wanted, write, found)
                .await?;
            if reserved.is_some() {
                return Ok(reserved);
            }
        }
        Err(contended(at))
    }

    /// Reserves a key whose row was found: replaces the row by the wanted one if the row belongs to the entity. `None` if the row must be
    /// read again.
    async fn reserve_found(
        &self,
        owner: &Key,
        at: &Location,
        wanted: &Entity,
        write: WriteId,
        found: UniqueRow,
    ) -> Result<Option<Reservation>> {
        // A row of the same entity is adopted, also from a write of it that died. A pair of another move is
        // not: the move may be committed, and the value then belongs to the heir.
        if found.owner == *owner && (found.heir.is_none() || found.write == write) {
            return self.adopt(at, wanted, write, found).await;
        }
        let Some(state) = self.write_state(&found).await? else {
            return Ok(None);
        };
        let holder = found.holder(state);
        if state == WriteState::Committed && holder == owner {
            return self.replace_row(at, wanted, &found).await;
        }
        let is_held = self.settle_for_holder(at, &found, holder, state).await?;
        // In every other case the row was settled or removed just now: read it again.
        Ok((is_held && holder != owner).then(|| Reservation::Taken(holder.clone())))
    }

    /// Replaces the entity's own row by one of this write. `None` if the row has changed. The write that has reserved
    /// the row is given up *first*: otherwise both could commit, and a third entity could get the value in between.
    async fn adopt(
        &self,
        at: &Location,
        wanted: &Entity,
        write: WriteId,
        found: UniqueRow,
    ) -> Result<Option<Reservation>> {
        if found.pending && found.write != write {
            self.rows.abort(found.write, found.partition()).await?;
        }
        self.replace_row(at, wanted, &found).await
    }

    async fn replace_row(
        &self,
        at: &Location,
        wanted: &Entity,
        found: &UniqueRow,
    ) -> Result<Option<Reservation>> {
        match self
            .put(
                at,
                Operation::Replace(wanted.clone(), IfMatch::from(&found.etag)),
            )
            .await
        {
            Err(e) if was_changed_by_another(&e) => Ok(None),
            replaced => replaced.map(|etag| Some(Reservation::Mine(etag))),
        }
    }

    /// Settles the row for its holder, or deletes the row if the holder no longer has the key. Returns whether the holder has the key;
    /// `false` also if the row must be read again. While the holder of a committed write has the key, the row stays as it is: the applier
    /// of that write settles the row.
    ///
    /// The write of a pending row is given up or committed at this point. In both cases the entity decides: it can get a key only by a
    /// reservation, which changes the row.
    async fn settle_for_holder(
        &self,
        at: &Location,
        found: &UniqueRow,
        holder: &Key,
        state: WriteState,
    ) -> Result<bool> {
        let mut states = States::new(vec![holder.clone()]);
        states.read_again(self.entities, holder).await?;
        let held = match states.entry_at(self.entities, holder, at) {
            // Only a program of the later version knows whether the holder has the key: for this program it has, and the row stays.
            Err(error) if is_of_later_version(&error) => return Ok(true),
            held => held?,
        };
        if held.is_some() && state != WriteState::GivenUp {
            return Ok(true);
        }
        match self.put(at, found.agreeing_with(at, held.as_ref())).await {
            Ok(_) => Ok(held.is_some()),
            Err(e) if was_changed_by_another(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The state of a row's write. Gives the write of a pending row up if it is not committed. `None` if the evidence of the write was
    /// removed in between: the row must be read again.
    async fn write_state(&self, row: &UniqueRow) -> Result<Option<WriteState>> {
        if !row.pending {
            return Ok(Some(WriteState::Settled));
        }
        // `AbortBeforeTakeOver`: a look at the journal row alone would not do. The write could commit right
        // after it, and two entities would have the value.
        let evidence = self.rows.abort(row.write, row.partition()).await?;
        Ok(evidence.map(|evidence| match evidence {
            Evidence::Journal(_) => WriteState::Committed,
            Evidence::Abort => WriteState::GivenUp,
        }))
    }

    /// Settles or removes a unique key: reads the row, **then** the entity, then writes the row under its ETag. In
    /// the other order two entities could end with one value.
    ///
    /// # Errors
    /// An applier finds that another entity has the key that an entity of its write has.
    pub(super) async fn settle(&self, at: &Location, by: By, states: &mut States) -> Result<()> {
        for _ in 0..ROUNDS {
            let found = self.entities.store.get(&at.table, &at.key, None).await?;
            if found.as_ref().is_some_and(|row| !self.is_own_row(at, row)) {
                // Another definition of the index has written a row of another kind, or the row belongs to another table's index.
                return Ok(());
            }
            let found = found.as_ref().map(UniqueRow::read).transpose()?;
            // No row, or a row between other entities: nothing to settle, unless an entity of this write
            // should have the row.
            let Some(row) = found.as_ref().filter(|row| row.concerns(states)) else {
                if self.check_no_entry(at, found.as_ref(), by, states).await? {
                    return Ok(());
                }
                continue;
            };
            let held = self.holder_of(at, row, by, states).await?;
            match self.may_settle(row, by).await? {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => continue,
            }
            // Under the ETag that was read before the entity: an entity that has got the value since has
            // changed the row.
            match self.put(at, row.agreeing_with(at, held.as_ref())).await {
                Err(e) if was_changed_by_another(&e) => {}
                other => return other.map(drop),
            }
        }
        Err(contended(at))
    }

    /// The entry of the entity that is to own the row. Only the applier of the committed move gives the value to the
    /// heir: the owner of a move that was given up may be the source of an earlier move and keeps the value until it
    /// is deleted.
    async fn holder_of(
        &self,
        at: &Location,
        row: &UniqueRow,
        by: By,
        states: &mut States,
    ) -> Result<Option<Entry>> {
        // The heir comes before the owner: after the move is committed, both may still exist.
        let applies = matches!(by, By::Applier(write) if write == row.write);
        let heir = row.heir.iter().filter(|_| applies);
        let mut others = States::default();
        for key in heir.chain([&row.owner]) {
            let is_own = states.contains(key);
            let known = if is_own { &mut *states } else { &mut others };
            // `RowThenEntity`: read after the row.
            known.read_again(self.entities, key).await?;
            if let Some(entry) = known.entry_at(self.entities, key, at)? {
                return Ok(Some(entry));
            }
        }
        // Another entity of the write seems to have the key: read that entity after the row, too.
        let By::Applier(_) = by else { return Ok(None) };
        let Some(entry) = states
            .held_at(self.entities, at)?
            .filter(|entry| entry.owner != row.owner)
        else {
            return Ok(None);
        };
        states.read_again(self.entities, &entry.owner).await?;
        states.entry_at(self.entities, &entry.owner, at)
    }

    /// Whether the caller may settle or remove a row. A release leaves the pending row of another write alone. An
    /// applier gives that other write up first. That write may have reserved the key for an entity that was absent
    /// then, and absence has no version by which the applier could notice a change. If that write is committed, its
    /// journal row is responsible for the key. `None` if the row must be read again.
    async fn may_settle(&self, row: &UniqueRow, by: By) -> Result<Option<bool>> {
        if !row.pending || row.write == by.write() {
            return Ok(Some(true));
        }
        match by {
            By::Release(_) => Ok(Some(false)),
            By::Applier(_) => Ok(self
                .write_state(row)
                .await?
                .map(|state| state != WriteState::Committed)),
        }
    }

    /// Checks that no entity of the write needs this key, and reserves the key if an entity has the key and there is no row. Returns
    /// `false` if the row must be read again. While an index is built, entities lack rows and two may have had one value; those are left
    /// to the build.
    ///
    /// # Errors
    /// Another entity has the key that an entity of the write has.
    async fn check_no_entry(
        &self,
        at: &Location,
        found: Option<&UniqueRow>,
        by: By,
        states: &mut States,
    ) -> Result<bool> {
        let By::Applier(write) = by else {
            return Ok(true);
        };
        let complete =
            |entry: &Entry| entry.unique && self.entities.maintainer.is_complete(&entry.index);
        let Some(entry) = states.held_at(self.entities, at)?.filter(complete) else {
            return Ok(true);
        };
        // The row was read after the entity: read the entity again, then the row.
        states.read_again(self.entities, &entry.owner).await?;
        let Some(entry) = states.entry_at(self.entities, &entry.owner, at)? else {
            return Ok(true);
        };
        let Some(found) = found else {
            return match self.reserve(&entry, write).await? {
                // Reserved: the next round settles it, as any pending row.
                Reservation::Mine(_) => Ok(false),
                Reservation::Taken(owner) => Err(violation(&entry, &owner)),
            };
        };
        match self.settled_row(at).await? {
            // Row, entity, row again: the row was the same before and after the read of the entity, so there
            // was a moment at which both entities had the value.
            Some(now) if now.etag == found.etag => Err(violation(&entry, &now.owner)),
            _ => Ok(false),
        }
    }

    /// Settles or removes a key whose row was read or reserved before the commit: the entity is newer than the row.
    /// `false` if the row has changed since.
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
            Err(e) if was_changed_by_another(&e) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// The unique row at the key of an entry.
    ///
    /// # Errors
    /// The row at the key is no unique row of an index of this table.
    async fn unique_row(&self, entry: &Entry) -> Result<Option<UniqueRow>> {
        let at = &entry.location;
        let Some(row) = self.entities.store.get(&at.table, &at.key, None).await? else {
            return Ok(None);
        };
        if self.is_own_row(at, &row) {
            return UniqueRow::read(&row).map(Some);
        }
        let owner = self.entities.owner_of_entry(&at.table, &row);
        Err(key_collision(
            &entry.index,
            &at.key,
            owner.as_ref().unwrap_or(&at.key),
        ))
    }

    /// The unique row of an index of this table; `None` if the row is of another kind, or belongs to an index of another table.
    pub(super) async fn settled_row(&self, at: &Location) -> Result<Option<UniqueRow>> {
        let row = self.entities.store.get(&at.table, &at.key, None).await?;
        row.as_ref()
            .filter(|row| self.is_own_row(at, row))
            .map(UniqueRow::read)
            .transpose()
    }

    /// Whether a row is a unique row of an index of this table.
    pub(super) fn is_own_row(&self, at: &Location, row: &Entity) -> bool {
        is_unique_row(row) && self.entities.is_of_own_index(&at.table, row)
    }

    async fn put(&self, at: &Location, operation: Operation) -> Result<Option<ETag>> {
        Ok(accept_applied(self.entities.store.write(&at.table, operation).await)?.etag)
    }
}
