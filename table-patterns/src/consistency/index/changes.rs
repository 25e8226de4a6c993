//! Changes of entities, with the entries of their indexes: writes, read-modify-write, and moves.

use std::sync::Arc;

use futures_util::future::try_join;
use table_core::model::{Entity, Key};
use table_core::store::{Conflicts, Error, Result};

use super::rows::IndexedRows;
use super::states::set::IndexSet;
use crate::blobs::in_a_blob;
use crate::entry::{Maintainer as _, Placement};
use crate::journal::{Acknowledge, Change, Committed, Entries, Journal, Moved};

/// Changes entities with their entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntityChanges<'a> {
    pub(super) rows: IndexedRows<'a>,
    pub(super) set: &'a IndexSet,
    pub(super) journal: &'a Journal,
    pub(super) acknowledge: Acknowledge,
    /// Attempts of a read-modify-write that conflicts with other writers of the entity.
    pub(super) attempts: u32,
    /// `false` for a handle that was opened for upkeep only: it refuses writes of entities.
    pub(super) writes_entities: bool,
}

impl EntityChanges<'_> {
    /// See [`IndexedEntities::write`](super::IndexedEntities::write).
    pub(super) async fn write(&self, changes: &[Change]) -> Result<Committed> {
        self.write_and_claim(changes).await
    }

    /// Writes changes, and removes no entity that is in the way.
    pub(crate) async fn write_once(&self, changes: &[Change]) -> Result<Committed> {
        self.check_writable()?;
        self.journal.write(changes, self.acknowledge).await
    }

    /// Refuses writes of a handle that was opened for upkeep.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.writes_entities {
            return Ok(());
        }
        let reason = format!(
            "the table '{}' was opened for upkeep and refuses writes of entities: open it by `open` to write",
            self.rows.table
        );
        Err(Error::invalid_request(reason))
    }

    /// See [`IndexedEntities::modify`](super::IndexedEntities::modify).
    pub(super) async fn modify(
        &self,
        key: &Key,
        mut change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Committed> {
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let old = self.rows.entity(key).await?;
            let new = change(old.as_ref())?;
            let change = match (old, new) {
                (None, None) => return Ok(Committed::nothing()),
                (None, Some(new)) => Change::insert(new),
                (Some(old), None) => Change::delete(old),
                (Some(old), Some(new)) => Change::replace(old, new),
            };
            match self.write(&[change]).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
        }
    }

    /// The change of an entity to the current schema version. Older programs, and programs that know only the
    /// definitions, may have written entries of the older row: if any could differ, the change writes all
    /// entries.
    pub(crate) fn upgrade(&self, old: Entity, new: Entity) -> Change {
        match self.set.indexes().iter().all(|index| index.is_as_stored(&old)) {
            true => Change::replace(old, new),
            false => Change::replace_with_all_entries(old, new),
        }
    }

    /// The entity after a write, as stored: with the properties of copy indexes, which need a read. `None` if
    /// that is unknown.
    pub(super) async fn as_stored(&self, new: Entity) -> Option<Entity> {
        if self.set.copied().is_empty() {
            return Some(new);
        }
        let now = self.rows.entity(new.key()).await.ok().flatten();
        now.filter(|now| now.etag() == new.etag())
    }

    /// Writes an entity unchanged, with all its entries, and tries again while other writers change it. A
    /// writer of another property would not write an entry that it assumes to exist. Returns whether the entity
    /// exists.
    pub(super) async fn rewrite(&self, mut entity: Entity) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.attempts + 1);
        loop {
            let change = Change::rewrite(entity.clone());
            let lost = match self.journal.write(&[change], Acknowledge::Applied).await {
                Ok(done) if done.entries == Entries::Applied => return Ok(true),
                Err(error) if !error.is_conflict() => return Err(error),
                // Pending entries count as a conflict: a build or a scrub says that the entries are there.
                _ => Error::precondition_failed(self.rows.table, entity.key()),
            };
            conflicts.wait(lost).await?;
            let Some(now) = self.rows.entity(entity.key()).await? else { return Ok(false) };
            entity = now;
        }
    }

    /// Whether an index has remote entries. A move to another partition marks the entity in that case.
    pub(crate) fn has_remote_entries(&self) -> bool {
        self.set.indexes().iter().any(|index| *index.placement() != Placement::SamePartition)
    }

    /// As [`IndexedEntities::move_to`](super::IndexedEntities::move_to); `check` may refuse the entity at the target.
    pub(super) async fn move_to(
        &self,
        key: &Key,
        target: &EntityChanges<'_>,
        to: &Key,
        check: impl Fn(&Entity) -> Result<()> + Send + Sync,
    ) -> Result<bool> {
        let is_same = Arc::ptr_eq(self.rows.store, target.rows.store) && self.rows.table == target.rows.table;
        if is_same && key == to {
            return Err(Error::invalid_request(format!(
                "a move of {key} needs another target: both keys are equal"
            )));
        }
        let is_within = is_same && key.partition() == to.partition();
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            if is_same && !is_within && self.has_remote_entries() {
                match self.journal.mover().move_entity(key, to, &check).await? {
                    Moved::Done(_) => return Ok(true),
                    Moved::Nothing => return Ok(false),
                    Moved::NotJournaled => {}
                }
            }
            let (old, there) = match is_within {
                true => try_join(self.rows.entity(key), self.rows.entity(to)).await?,
                false => (self.rows.entity(key).await?, None),
            };
            let Some(old) = old else { return Ok(false) };
            check_no_blob(&old)?;
            let new = old.clone().with_system(None, None).with_key(to.clone());
            let moved = if is_within {
                there.as_ref().map_or(Ok(()), &check)?;
                let write = match there {
                    None => Change::insert(new),
                    Some(there) => Change::replace(there, new),
                };
                self.write(&[Change::delete(old), write]).await
            } else {
                let put = |there: Option<&Entity>| {
                    there.map_or(Ok(()), &check)?;
                    Ok(Some(new.clone()))
                };
                // The target first: a crash between the two writes leaves the entity twice, in the other order it would be lost.
                target.modify(to, put).await?;
                // In the version that was read: a change of another writer since then starts the move again, and replaces the target.
                self.write(&[Change::delete(old)]).await
            };
            match moved {
                Err(error) if error.is_conflict() => conflicts.wait(error).await?,
                moved => return moved.map(|_| true),
            }
        }
    }
}

/// Refuses a row whose entity has a part in a blob.
pub(crate) fn check_no_blob(row: &Entity) -> Result<()> {
    let Some(property) = in_a_blob(row) else { return Ok(()) };
    Err(Error::invalid_request(format!(
        "{} has the value of '{property}' in a blob, and a move of the row would lose it: move the entity with its `LargeTable`",
        row.key()
    )))
}
