//! Moves of an entity to another partition of its table. The source is marked, the unique values that it keeps are
//! pairs with the moved entity, and the journal row is in the target's partition. `docs/model/move.py` is the
//! executable model; `docs/protocol.md`, *Moves*, has the rules.

use std::borrow::Cow;

use table_core::model::{Entity, Key};
use table_core::store::{Conflicts, Error, Result};

use super::apply::Entries;
use super::change::Change;
use super::commit::{Committer, Sent};
use super::entity_table::{EntityTable, States};
use super::lease::{Lease, Timing};
use super::plan::{Plan, Planner};
use super::row::AffectedKey;
use super::row::{Evidence, JournalRow, JournalRows};
use super::write::{Acknowledge, Attempt, MAX_WRITE_ATTEMPTS, Writer};
use crate::blobs::check_no_blob;
use crate::entity_rows::{Mark, WriteId, as_read, separate_mark};
use crate::entry::row_properties::without_mark;
use crate::rows::before_write;

/// The result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The entity is at the target. If entries are pending, a worker or a sweep finishes the move; until then the
    /// source may exist too.
    Done(Entries),
    /// There is no entity at the source.
    Nothing,
    /// The entity has no remote entries: two writes without a journal row move it.
    NotJournaled,
}

/// The result of one attempt at a move.
#[derive(Debug)]
pub(crate) enum MoveAttempt {
    /// The attempt was the last one.
    Ended(Moved),
    /// The move was given up before its commit, and should be tried again. The error is for the last attempt.
    GivenUp(Error),
}

/// Attempts with a source that other writers change.
pub(super) const ROUNDS: usize = 16;

/// Moves entities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mover<'a> {
    pub(super) entities: &'a EntityTable,
    pub(super) planner: Planner<'a>,
    pub(super) moves: Moves<'a>,
    pub(super) writer: Writer<'a>,
}

impl Mover<'_> {
    /// Moves an entity to another partition of the table, unless `check` refuses the entity at the target.
    ///
    /// # Errors
    /// The error of `check`, a unique value is taken, or a conflict after all attempts. An ambiguous error if it is
    /// unknown whether the move was committed.
    pub(crate) async fn move_entity(
        &self,
        from: &Key,
        to: &Key,
        check: &(impl Fn(&Entity) -> Result<()> + Send + Sync),
    ) -> Result<Moved> {
        let mut conflicts = Conflicts::new(MAX_WRITE_ATTEMPTS);
        loop {
            let error = match self.try_move(from, to, check).await {
                Ok(MoveAttempt::Ended(moved)) => return Ok(moved),
                Ok(MoveAttempt::GivenUp(error)) => error,
                Err(error) if error.is_conflict() => error,
                Err(error) => return Err(error),
            };
            // Also after an error that is not a conflict: the move was given up, and is tried again.
            conflicts.wait_if(true, error).await?;
        }
    }

    /// One attempt at a move: reads both entities, then writes.
    async fn try_move(
        &self,
        from: &Key,
        to: &Key,
        check: &(impl Fn(&Entity) -> Result<()> + Send + Sync),
    ) -> Result<MoveAttempt> {
        let Some((source, there)) = self.read_to_move(from, to, &check_no_blob, check).await?
        else {
            return Ok(MoveAttempt::Ended(Moved::Nothing));
        };
        let new = source.clone().with_system(None, None).with_key(to.clone());
        self.move_read(&source, there, new).await
    }

    /// The entities at the source and at the target, without marks. Gives up other moves of both. `None` if there is
    /// no source.
    ///
    /// # Errors
    /// The errors of the checks, or another move was committed in between and the source no longer exists.
    pub(crate) async fn read_to_move(
        &self,
        from: &Key,
        to: &Key,
        check_source: &(impl Fn(&Entity) -> Result<()> + Send + Sync),
        check_target: &(impl Fn(&Entity) -> Result<()> + Send + Sync),
    ) -> Result<Option<(Entity, Option<Entity>)>> {
        let Some(source) = self.entities.rows().stored(from).await? else {
            return Ok(None);
        };
        check_source(&source)?;
        let there = self.entities.rows().stored(to).await?;
        if let Some(there) = &there {
            check_target(&as_read(there.clone()))?;
        }
        let source = before_write(self.moves.without_move(source).await)?;
        let there = match there {
            Some(there) => Some(before_write(self.moves.without_move(there).await)?),
            None => None,
        };
        Ok(Some((source, there)))
    }

    /// One attempt at a move of the entities that [`read_to_move`](Self::read_to_move) has returned. `new` is the
    /// entity at the target, with the entries of the source.
    pub(crate) async fn move_read(
        &self,
        source: &Entity,
        there: Option<Entity>,
        new: Entity,
    ) -> Result<MoveAttempt> {
        let change = there.map_or_else(
            || Change::insert(new.clone()),
            |old| Change::replace(old, new.clone()),
        );
        let Some(plan) = self
            .planner
            .plan_move(source, &change, self.entities.prepare().await?)?
        else {
            return Ok(MoveAttempt::Ended(Moved::NotJournaled));
        };
        // One attempt only: after a failure both entities must be read again. No lock of the partition: it
        // only saves requests.
        Ok(
            match self
                .writer
                .attempt(&plan, None, &[change], Acknowledge::Applied)
                .await?
            {
                Attempt::Committed(committed) => MoveAttempt::Ended(Moved::Done(committed.entries)),
                Attempt::StartOver(cause) => {
                    MoveAttempt::GivenUp(self.writer.given_up(&plan, cause))
                }
            },
        )
    }
}

/// The moves that other processes may meet: their marks, and the end of a move that is given up or committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moves<'a> {
    pub(super) entities: &'a EntityTable,
    pub(super) rows: JournalRows<'a>,
    pub(super) planner: Planner<'a>,
    pub(super) committer: Committer<'a>,
    pub(super) timing: Timing,
}

impl Moves<'_> {
    /// Marks the source of a move in the version that was read. Returns the marked entity.
    pub(super) async fn mark(&self, plan: &Plan, entity: &Entity) -> Result<Entity> {
        // `MarkSource`: from here on every writer of the source meets the mark, and gives the move up before
        // it changes a value that the move takes along. A crash leaves the mark; a worker, the next writer or
        // a sweep removes it.
        let marked = Mark {
            write: plan.id,
            partition: plan.partition.to_string(),
        }
        .on(entity);
        let written = self
            .entities
            .rows()
            .write_mark(marked.clone(), entity.version()?)
            .await?;
        Ok(marked.with_system(written.etag, None))
    }

    /// Removes the mark of a move that can never commit. Returns whether the entity had it. 2 requests.
    pub(super) async fn unmark(&self, key: &Key, write: WriteId) -> Result<bool> {
        for _ in 0..ROUNDS {
            let Some(entity) = self.entities.rows().stored(key).await? else {
                return Ok(false);
            };
            if Mark::of(&entity).is_none_or(|mark| mark.write != write) {
                return Ok(false);
            }
            let unmarked = without_mark(&entity).into_owned();
            match self
                .entities
                .rows()
                .write_mark(unmarked, entity.version()?)
                .await
            {
                Ok(_) => return Ok(true),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.contended(key))
    }

    /// The changes with old states without marks. Gives up the moves of these entities: no move may commit the state
    /// of an entity before a write.
    pub(super) async fn without_moves<'a>(
        &self,
        changes: &'a [Change],
    ) -> Result<Cow<'a, [Change]>> {
        let has_mark = |change: &Change| {
            change
                .old
                .as_ref()
                .is_some_and(|old| separate_mark(old).is_some())
        };
        if !changes.iter().any(has_mark) {
            return Ok(Cow::Borrowed(changes));
        }
        let mut changes = changes.to_vec();
        for change in &mut changes {
            let Some((old, mark)) = change.old.as_ref().and_then(separate_mark) else {
                continue;
            };
            // A caller that read the stored entity would write the mark again.
            change.new = change.new.take().map(|new| match Mark::of(&new) {
                Some(kept) if kept == mark => without_mark(&new).into_owned(),
                _ => new,
            });
            self.give_up_move(&mark, &old).await?;
            change.old = Some(old);
        }
        Ok(Cow::Owned(changes))
    }

    /// An entity without the mark of a move. Gives the move up.
    async fn without_move(&self, entity: Entity) -> Result<Entity> {
        let Some((entity, mark)) = separate_mark(&entity) else {
            return Ok(entity);
        };
        self.give_up_move(&mark, &entity).await?;
        Ok(entity)
    }

    /// Gives up the move of an entity that is to be written: inserts the move's abort row.
    ///
    /// # Errors
    /// The move is committed, so the old state is out of date. This deletes the source, as the move would.
    async fn give_up_move(&self, mark: &Mark, entity: &Entity) -> Result<()> {
        match self.rows.abort(mark.write, &mark.partition).await? {
            Some(Evidence::Abort) => return Ok(()),
            Some(Evidence::Journal(row)) => {
                let lease = Lease::start(self.timing);
                let (removal, uncovered) = self.plan_removal(&row, entity).await?;
                // With uncovered entries the deletion is left to the applier, which first adds them to the
                // journal row. A crash after a deletion here would leave them without evidence.
                if uncovered.is_empty()
                    && let Sent::Failed(error) = self.committer.commit(&removal, lease).await
                {
                    tracing::debug!(%error, key = %entity.key(), "the source of a committed move was not deleted: the applier deletes it");
                }
            }
            // There was a journal row, and it was deleted in between: the move is applied, and the source is
            // gone.
            None => {}
        }
        Err(self.contended(entity.key()))
    }

    /// The group that deletes the source of a committed move with its local entries. Also returns its remote entries
    /// that the journal row does not list: those of an index that was declared after the commit.
    async fn plan_removal(
        &self,
        row: &JournalRow,
        entity: &Entity,
    ) -> Result<(Plan, Vec<AffectedKey>)> {
        let permission = self.entities.prepare().await?;
        let mut removal = self
            .planner
            .plan(&[Change::delete(entity.clone())], permission)?;
        let mut uncovered = std::mem::take(&mut removal.affected);
        uncovered.retain(|affected| !row.affected.iter().any(|known| known.is_at(affected)));
        // The rows of remote unique values belong to the applier: this group writes the partition of the source
        // only.
        removal.seen.clear();
        Ok((removal, uncovered))
    }

    /// Deletes the source of a committed move if it still exists. Returns the journal row, which then lists all
    /// entries of the source. `None` if the lease ends, an outcome is ambiguous, or other writers keep changing the source.
    pub(super) async fn remove_source<'a>(
        &self,
        row: &'a JournalRow,
        states: &mut States,
        lease: Lease,
    ) -> Result<Option<Cow<'a, JournalRow>>> {
        let mut row = Cow::Borrowed(row);
        let Some(source) = row.source.clone() else {
            return Ok(Some(row));
        };
        for _ in 0..ROUNDS {
            let of_this =
                |entity: &&Entity| Mark::of(entity).is_some_and(|mark| mark.write == row.id);
            let Some((entity, _)) = states.get(&source).filter(of_this).and_then(separate_mark)
            else {
                return Ok(Some(row));
            };
            let (removal, uncovered) = self.plan_removal(&row, &entity).await?;
            if !lease.may_send() {
                return Ok(None);
            }
            if !uncovered.is_empty() {
                let mut longer = row.into_owned();
                longer.affected.extend(uncovered);
                // The journal row lists these keys before the source is deleted: afterwards nothing else leads
                // to them.
                let Some(longer) = self.rows.replace(longer).await? else {
                    return Ok(None);
                };
                row = Cow::Owned(longer);
            }
            match self.committer.commit(&removal, lease).await {
                Sent::Committed(_) => states.set(source.clone(), None),
                // The index states have expired: the next round plans the removal by fresh ones.
                Sent::StartOver(_) => {}
                Sent::Failed(error) if error.is_conflict() => {
                    states.read_again(self.entities, &source).await?;
                }
                Sent::Failed(error) if error.is_ambiguous() || error.is_transient() => {
                    return Ok(None);
                }
                Sent::Failed(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The error after another writer has changed the entity.
    pub(super) fn contended(&self, key: &Key) -> Error {
        Error::precondition_failed(&self.entities.name, key)
    }
}
