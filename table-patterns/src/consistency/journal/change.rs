//! Changes of entities, as callers of the journal describe them.

use table_core::model::{Entity, Key};
use table_core::store::{Operation, Result};

use crate::entity_rows::{operations, without_entity};
use crate::entry::Recorded;
use crate::entry::shared::feed::ChangeKind;

/// A change of one entity, with its old state. The old state decides which entries are removed.
///
/// The caller vouches that the old state is what it has read; the ETag shows that no other writer has changed the
/// entity. If the caller itself has changed the old state, entries may be missing or dangling until the next
/// [scrub](crate::index::IndexedEntities::scrub). A [`Stored`](crate::index::Stored), which
/// [`Table`](crate::Table) and [`IndexedEntities`](crate::index::IndexedEntities) take, cannot
/// be changed.
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) old: Option<Entity>,
    pub(crate) new: Option<Entity>,
    /// Whether to write also the entries that do not change.
    pub(super) all_entries: bool,
    reason: Reason,
}

/// Why an entity is changed. A feed records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// A caller wants it.
    Wanted,
    /// The time of the entity has come.
    Expired,
    /// The entity stays what it is to its readers: a feed records nothing.
    Upkeep,
}

impl Change {
    /// Inserts an entity.
    pub const fn insert(new: Entity) -> Self {
        Self {
            old: None,
            new: Some(new),
            all_entries: false,
            reason: Reason::Wanted,
        }
    }

    /// Replaces the entity that was read, under its ETag.
    pub const fn replace(old: Entity, new: Entity) -> Self {
        Self {
            old: Some(old),
            new: Some(new),
            all_entries: false,
            reason: Reason::Wanted,
        }
    }

    /// Deletes the entity that was read, under its ETag.
    pub const fn delete(old: Entity) -> Self {
        Self {
            old: Some(old),
            new: None,
            all_entries: false,
            reason: Reason::Wanted,
        }
    }

    /// Deletes the entity that was read and whose time has come, under its ETag.
    pub(crate) const fn expire(old: Entity) -> Self {
        Self {
            old: Some(old),
            new: None,
            all_entries: false,
            reason: Reason::Expired,
        }
    }

    /// The same change, of which a feed records nothing: the entity stays what it is to its readers.
    pub(crate) const fn without_record(mut self) -> Self {
        self.reason = Reason::Upkeep;
        self
    }

    /// The change from an old to a new state; `None` if there is neither.
    pub(crate) fn between(old: Option<Entity>, new: Option<Entity>) -> Option<Self> {
        (old.is_some() || new.is_some()).then_some(Self {
            old,
            new,
            all_entries: false,
            reason: Reason::Wanted,
        })
    }

    /// Writes the entity that was read again, under its ETag, with all of its entries: repairs a missing entry.
    pub fn rewrite(entity: Entity) -> Self {
        Self {
            old: Some(entity.clone()),
            new: Some(entity),
            all_entries: true,
            reason: Reason::Upkeep,
        }
    }

    /// Replaces the entity that was read, with all of its entries. For entities of an earlier schema version, whose
    /// stored entries may differ from those that the maintainer derives.
    pub(crate) const fn replace_with_all_entries(old: Entity, new: Entity) -> Self {
        Self {
            old: Some(old),
            new: Some(new),
            all_entries: true,
            reason: Reason::Wanted,
        }
    }

    /// The operation on the row of an entity that is one row.
    pub(crate) fn operation(&self) -> Result<Operation> {
        let [operation] = operations(self.old.as_ref(), self.new.as_ref())?;
        Ok(operation)
    }

    /// What the change is in a feed; `None`: nothing. `old` and `new` are what the feed says about the states.
    pub(super) fn kind(
        &self,
        old: Option<&Recorded>,
        new: Option<&Recorded>,
    ) -> Option<ChangeKind> {
        let is_deleted = |state: Option<&Recorded>| state.is_some_and(|state| state.is_deleted);
        match (self.reason, &self.old, &self.new) {
            (Reason::Upkeep, ..) | (_, None, None) => None,
            (Reason::Expired, ..) => Some(ChangeKind::Expired),
            (Reason::Wanted, None, Some(_)) => Some(ChangeKind::Inserted),
            (Reason::Wanted, Some(_), None) => Some(ChangeKind::Deleted),
            (Reason::Wanted, Some(_), Some(_)) => Some(if is_deleted(new) && !is_deleted(old) {
                ChangeKind::SoftDeleted
            } else {
                ChangeKind::Updated
            }),
        }
    }

    /// The old state, as it was read.
    pub(crate) const fn old(&self) -> Option<&Entity> {
        self.old.as_ref()
    }

    /// The key of the entity.
    pub(crate) fn key(&self) -> Result<&Key> {
        self.new
            .as_ref()
            .or(self.old.as_ref())
            .map(Entity::key)
            .ok_or_else(without_entity)
    }
}
