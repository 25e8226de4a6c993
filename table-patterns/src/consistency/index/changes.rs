//! Changes of entities, with the entries of their indexes: writes, read-modify-write, moves, and the removal of due entities that have a
//! key or a unique value of a write (claims).

use std::sync::Arc;

use futures_util::future::try_join;
use table_core::model::{ETag, Entity, Key, TableName};
use table_core::store::{
    Conflicts, Error, MovedCopy, Outcome, Result, TableStore, TableStoreExt as _,
};
use table_core::typed::Schema;

use super::rows::IndexedRows;
use super::states::set::IndexSet;
use crate::blobs::check_no_blob;
use crate::entity_rows::EntityRows;
use crate::entry::shared::Holder;
use crate::entry::{Maintainer as _, Placement};
use crate::journal::{Acknowledge, Change, Committed, Entries, Journal, Moved};
use crate::rows::own_key_error;

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
    /// See [`IndexedEntities::write`](super::IndexedEntities::write). Removes each due entity that has a key or a unique value of the write,
    /// with its entries and values, and writes again.
    ///
    /// The removal is a write under the ETag of the version that was found due. If the owner is renewed meanwhile, either the renewal finds its
    /// entity gone, or the removal fails, and the next attempt decides on the renewed owner. Two claimants may both remove the owner; the
    /// first reservation of the value decides between them.
    pub(super) async fn write(&self, changes: &[Change]) -> Result<Committed> {
        let Some(schema) = self.set.schema().filter(|schema| schema.expiry.is_some()) else {
            return self.write_once(changes).await;
        };
        let mut left = MAX_CLAIMS;
        loop {
            let error = match self.write_once(changes).await {
                Err(error) if left > 0 => error,
                done => return done,
            };
            let due = due_row(&**self.rows.store, self.rows.table, schema, &error, changes).await?;
            let Some(due) = due else { return Err(error) };
            left -= 1;
            match self.write_once(&[Change::expire(due)]).await {
                // The due entity may be gone; the write itself was not applied.
                Err(error) if !error.is_conflict() => {
                    return Err(error.with_outcome(Outcome::NotApplied));
                }
                // After a conflict, the owner was renewed or removed: the next attempt shows which.
                _ => {}
            }
        }
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
        Err(Error::misuse(reason))
    }

    /// See [`IndexedEntities::modify`](super::IndexedEntities::modify).
    pub(super) async fn modify(
        &self,
        key: &Key,
        mut change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Committed> {
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let old = self.rows.entities().get(key).await?;
            let new = change(old.as_ref())?;
            let Some(change) = Change::between(old, new) else {
                return Ok(Committed::nothing());
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
        match self
            .set
            .indexes()
            .iter()
            .all(|index| index.derives_stored_keys(&old))
        {
            true => Change::replace(old, new),
            false => Change::replace_with_all_entries(old, new),
        }
        .without_record()
    }

    /// The entity after a write, as stored: with the properties of copy indexes, which need a read. `None` if
    /// that is unknown.
    pub(crate) async fn as_stored(&self, new: Entity) -> Option<Entity> {
        if self.set.copied().is_empty() {
            return Some(new);
        }
        let now = self.rows.entities().get(new.key()).await.ok().flatten();
        now.filter(|now| now.etag() == new.etag())
    }

    /// Writes an entity unchanged, with all its entries, and tries again after conflicts instead of leaving the
    /// work to the other writer: a writer that changes another property does not write such an entry, because it
    /// assumes that the entry exists. Returns whether the entity exists.
    pub(super) async fn rewrite(&self, mut entity: Entity) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.attempts + 1);
        loop {
            // A writer leaves the source of a committed move to the process that moves it, which may have died.
            let Some(unmarked) = self.journal.end_move(entity).await? else {
                return Ok(false);
            };
            entity = unmarked;
            let change = Change::rewrite(entity.clone());
            let lost = match self.journal.write(&[change], Acknowledge::Applied).await {
                Ok(done) if done.entries == Entries::Applied => return Ok(true),
                Err(error) if !error.is_conflict() => return Err(error),
                // Pending entries count as a conflict: a build or a scrub says that the entries are there.
                _ => Error::precondition_failed(self.rows.table, entity.key()),
            };
            conflicts.wait(lost).await?;
            let Some(now) = self.rows.entities().get(entity.key()).await? else {
                return Ok(false);
            };
            entity = now;
        }
    }

    /// Whether an index has remote entries. A move to another partition marks the entity in that case.
    pub(crate) fn has_remote_entries(&self) -> bool {
        self.set
            .indexes()
            .iter()
            .any(|index| *index.placement() != Placement::SamePartition)
    }

    /// As [`IndexedEntities::move_to`](super::IndexedEntities::move_to); `check` may refuse the entity at the target.
    pub(crate) async fn move_to(
        &self,
        key: &Key,
        target: &EntityChanges<'_>,
        to: &Key,
        check: impl Fn(&Entity) -> Result<()> + Send + Sync,
    ) -> Result<()> {
        let is_same =
            Arc::ptr_eq(self.rows.store, target.rows.store) && self.rows.table == target.rows.table;
        // Another handle of the store: two writes, of which the second would delete what the first has written.
        let (store, target_store) = (&**self.rows.store, &**target.rows.store);
        if key == to && store.is_same_table(self.rows.table, target_store, target.rows.table) {
            return Err(own_key_error(key));
        }
        let is_within = is_same && key.partition() == to.partition();
        let is_journaled = is_same && !is_within && self.has_remote_entries();
        let (mut conflicts, mut copy) = (Conflicts::new(self.attempts), None);
        loop {
            if is_journaled {
                let error = match self.journal.mover().move_entity(key, to, &check).await {
                    Ok(Moved::Done(_)) => return Ok(()),
                    Ok(Moved::Nothing) => Some(self.missing(key)),
                    Ok(Moved::NotJournaled) => None,
                    Err(error) => Some(error),
                };
                if let Some(error) = error {
                    return Err(target.without_copy(to, copy, error).await);
                }
            }
            let tried = if is_within {
                self.try_move_within(key, to, &check).await
            } else {
                self.try_move_away(key, target, to, &check, &mut copy).await
            };
            let Err(error) = tried else { return Ok(()) };
            if let Err(error) = conflicts.wait_to_move_again(error).await {
                return Err(target.without_copy(to, copy, error).await);
            }
        }
    }

    /// Moves an entity within its partition, in one group.
    async fn try_move_within(
        &self,
        key: &Key,
        to: &Key,
        check: &(impl Fn(&Entity) -> Result<()> + Send + Sync),
    ) -> Result<()> {
        let (old, there) =
            try_join(self.rows.entities().get(key), self.rows.entities().get(to)).await?;
        let old = old.ok_or_else(|| self.missing(key))?;
        check_no_blob(&old)?;
        there.as_ref().map_or(Ok(()), check)?;
        let new = old.clone().with_system(None, None).with_key(to.clone());
        let write = match there {
            None => Change::insert(new),
            Some(there) => Change::replace(there, new),
        };
        match self.write(&[Change::delete(old), write]).await {
            // `wait_to_move_again` ends a move whose source is missing. The missing entity of this group may be the one at the target, so no
            // conflict may look like a missing source.
            Err(error) if error.is_conflict() => {
                Err(Error::precondition_failed(self.rows.table, key))
            }
            moved => moved.map(drop),
        }
    }

    /// Moves an entity to another partition or table by two writes.
    async fn try_move_away(
        &self,
        key: &Key,
        target: &EntityChanges<'_>,
        to: &Key,
        check: &(impl Fn(&Entity) -> Result<()> + Send + Sync),
        copy: &mut Option<MovedCopy>,
    ) -> Result<()> {
        let old = self
            .rows
            .entities()
            .get(key)
            .await?
            .ok_or_else(|| self.missing(key))?;
        check_no_blob(&old)?;
        let new = old.clone().with_system(None, None).with_key(to.clone());
        let mut replaced = None;
        let put = |there: Option<&Entity>| {
            there.map_or(Ok(()), check)?;
            replaced = there.and_then(|there| there.etag().cloned());
            Ok(Some(new.clone()))
        };
        // The target first: a crash between the two writes leaves the entity twice, in the other order it would be lost.
        let written = match target.modify(to, put).await {
            // A conflict at the target must not look like a missing source, with which the move would end.
            Err(error) if error.is_conflict() => {
                return Err(Error::precondition_failed(target.rows.table, to));
            }
            written => written?,
        };
        *copy = Some(MovedCopy::over(
            replaced.as_ref(),
            written.etag().cloned(),
            copy.as_ref(),
        ));
        // In the version that was read: a change of another writer since then starts the move again, and replaces the target.
        self.write(&[Change::delete(old)]).await.map(drop)
    }

    /// Removes the copy of a move that has failed, with its entries. Returns the error of the move.
    async fn without_copy(&self, to: &Key, copy: Option<MovedCopy>, error: Error) -> Error {
        let Some(copy) = copy else { return error };
        let remove = |version: ETag| {
            self.modify(to, move |there: Option<&Entity>| match there {
                None => Err(self.missing(to)),
                Some(there) if there.etag() == Some(&version) => Ok(None),
                Some(_) => Err(Error::precondition_failed(self.rows.table, to)),
            })
        };
        copy.remove_after(error, remove).await
    }

    fn missing(&self, key: &Key) -> Error {
        Error::entity_not_found(self.rows.table, key)
    }
}

/// The largest number of due entities that one write removes: more than a write has keys and unique values.
pub(crate) const MAX_CLAIMS: usize = 256;

/// The keys of the entities that may have made a write fail: each may have a key or a unique value of the write. Empty if the write may have
/// taken effect.
fn obstacles(error: &Error, changes: &[Change]) -> Vec<Key> {
    if error.outcome() != Outcome::NotApplied {
        return Vec::new();
    }
    if error.is_unique_violation() || error.is_key_collision() {
        return Holder::of(error).cloned().into_iter().collect();
    }
    if error.is_already_exists() {
        let inserted = changes.iter().filter(|change| change.old().is_none());
        return inserted
            .filter_map(|change| change.key().ok().cloned())
            .collect();
    }
    Vec::new()
}

/// The due row that made a write of a type fail, as it was read; `None` if no due row is in the way. 1 request for each entity that may have
/// made the write fail.
pub(crate) async fn due_row(
    store: &dyn TableStore,
    table: &TableName,
    schema: &Schema,
    error: &Error,
    changes: &[Change],
) -> Result<Option<Entity>> {
    if schema.expiry.is_none() {
        return Ok(None);
    }
    for key in obstacles(error, changes) {
        let row = EntityRows::new(store, table).get(&key).await?;
        if let Some(row) = row.filter(|row| schema.is_due(row, store.context().now())) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}
