//! Changes of entities, as callers of the journal describe them.

use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, Operation, Result};

/// A change of one entity, with its old state. The old state decides which entries are removed.
///
/// The caller vouches that the old state is what it has read; the ETag shows that no other writer has changed the
/// entity. If the caller itself has changed the old state, entries may be missing or dangling until the next
/// [scrub](crate::index::IndexedEntities::scrub). A [`Stored`](crate::index::Stored), which
/// [`IndexedTable`](crate::index::IndexedTable) and [`IndexedEntities`](crate::index::IndexedEntities) take, cannot
/// be changed.
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) old: Option<Entity>,
    pub(crate) new: Option<Entity>,
    /// Whether to write also the entries that do not change.
    pub(super) all_entries: bool,
}

impl Change {
    /// Inserts an entity.
    pub const fn insert(new: Entity) -> Self {
        Self {
            old: None,
            new: Some(new),
            all_entries: false,
        }
    }

    /// Replaces the entity that was read, under its ETag.
    pub const fn replace(old: Entity, new: Entity) -> Self {
        Self {
            old: Some(old),
            new: Some(new),
            all_entries: false,
        }
    }

    /// Deletes the entity that was read, under its ETag.
    pub const fn delete(old: Entity) -> Self {
        Self {
            old: Some(old),
            new: None,
            all_entries: false,
        }
    }

    /// Writes the entity that was read again, under its ETag, with all of its entries: repairs a missing entry.
    pub fn rewrite(entity: Entity) -> Self {
        Self {
            old: Some(entity.clone()),
            new: Some(entity),
            all_entries: true,
        }
    }

    /// Replaces the entity that was read, with all of its entries. For entities of an earlier schema version, whose
    /// stored entries may differ from those that the maintainer derives.
    pub(crate) const fn replace_with_all_entries(old: Entity, new: Entity) -> Self {
        Self {
            old: Some(old),
            new: Some(new),
            all_entries: true,
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

    /// The operation on the entity: conditional on the ETag of the old state, or an insert.
    pub(crate) fn operation(&self) -> Result<Operation> {
        match (&self.old, &self.new) {
            (None, Some(new)) => Ok(Operation::Insert(new.clone())),
            (Some(old), Some(new)) if old.key() == new.key() => {
                Ok(Operation::Replace(new.clone(), condition(old)?))
            }
            (Some(old), None) => Ok(Operation::Delete(old.key().clone(), condition(old)?)),
            (Some(old), Some(new)) => Err(Error::misuse(format!(
                "a change replaces {} by {}: the keys of both must be equal; delete the first and insert the second",
                old.key(),
                new.key()
            ))),
            (None, None) => Err(without_entity()),
        }
    }
}

fn without_entity() -> Error {
    Error::misuse(
        "a change has neither an old nor a new entity: make it by `Change::insert`, `replace` or `delete`",
    )
}

/// The condition that the entity is stored in its old state.
fn condition(old: &Entity) -> Result<IfMatch> {
    let etag = old.etag();
    let etag = etag.ok_or_else(|| {
        Error::misuse(format!(
            "the old state of {} has no ETag: read the entity from the store first",
            old.key()
        ))
    })?;
    Ok(IfMatch::from(etag))
}
