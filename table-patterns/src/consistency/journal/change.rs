//! Changes of entities, as callers of the journal describe them.

use table_core::manifest::Text;
use table_core::model::{Entity, Key};
use table_core::store::{Error, Operation, Result};

use crate::entity_rows::{operations, without_entity};
use crate::entry::shared::feed::ChangeKind;
use crate::entry::{Maintainer, Recorded};

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

    /// What the feeds record of the change.
    pub(crate) fn records_by(&self, feeds: &dyn Maintainer) -> Result<Vec<(ChangeKind, Text)>> {
        let recorded = |state: &Option<Entity>| {
            let recorded = state.as_ref().map(|of| feeds.recorded(of));
            Ok::<_, Error>(recorded.transpose()?.flatten())
        };
        Ok(self.records(recorded(&self.old)?, recorded(&self.new)?))
    }

    /// What the feeds record of the change. `old` and `new` are what the feeds say about the states; a state without a feed is as if it did not
    /// exist. A change of the type ends an entity of the one and begins one of the other.
    fn records(&self, old: Option<Recorded>, new: Option<Recorded>) -> Vec<(ChangeKind, Text)> {
        let gone = match self.reason {
            Reason::Upkeep => return Vec::new(),
            Reason::Expired => ChangeKind::Expired,
            Reason::Wanted => ChangeKind::Deleted,
        };
        match (old, new) {
            (Some(old), Some(new)) if old.entity_type == new.entity_type => {
                let kind = if new.is_deleted && !old.is_deleted {
                    ChangeKind::SoftDeleted
                } else {
                    ChangeKind::Updated
                };
                vec![(kind, new.entity_type)]
            }
            (old, new) => {
                let ended = old.map(|old| (gone, old.entity_type));
                let begun = new.map(|new| (ChangeKind::Inserted, new.entity_type));
                ended.into_iter().chain(begun).collect()
            }
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
