use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, Operation, Result};

/// A change of one entity, with what it was: the old state decides which entries go.
///
/// That the old state is what was read is the caller's word: its ETag tells that nobody else has changed the
/// entity. If the caller has, the entries of the stored state that the given one has not stay, and those that both
/// the given and the new one have are not written, until the next
/// [scrub](crate::index::IndexedEntities::scrub). A [`Stored`](crate::index::Stored) cannot be changed:
/// [`IndexedTable`](crate::index::IndexedTable) and [`IndexedEntities`](crate::index::IndexedEntities) take that.
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) old: Option<Entity>,
    pub(crate) new: Option<Entity>,
    /// Whether entries are written although they do not change.
    pub(super) all_entries: bool,
}

impl Change {
    /// A new entity.
    pub const fn insert(new: Entity) -> Self {
        Self { old: None, new: Some(new), all_entries: false }
    }

    /// An entity instead of the one that was read, under its ETag.
    pub const fn replace(old: Entity, new: Entity) -> Self {
        Self { old: Some(old), new: Some(new), all_entries: false }
    }

    /// The removal of the entity that was read, under its ETag.
    pub const fn delete(old: Entity) -> Self {
        Self { old: Some(old), new: None, all_entries: false }
    }

    /// The entity as it was read, under its ETag, with all of its entries: what repairs one that is
    /// missing.
    pub fn rewrite(entity: Entity) -> Self {
        Self { old: Some(entity.clone()), new: Some(entity), all_entries: true }
    }

    /// An entity instead of the one that was read, with all of its entries: where those of the old one may not be as the
    /// maintainer says, who reads it as a later version.
    pub(crate) const fn replace_with_all_entries(old: Entity, new: Entity) -> Self {
        Self { old: Some(old), new: Some(new), all_entries: true }
    }

    /// What it was, as it was read.
    pub(crate) const fn old(&self) -> Option<&Entity> {
        self.old.as_ref()
    }

    /// The key of the entity.
    pub(super) fn key(&self) -> Result<&Key> {
        let entity = self.new.as_ref().or(self.old.as_ref());
        entity.map(Entity::key).ok_or_else(|| Error::invalid_request("a change of nothing to nothing"))
    }

    pub(crate) fn operation(&self) -> Result<Operation> {
        match (&self.old, &self.new) {
            (None, Some(new)) => Ok(Operation::Insert(new.clone())),
            (Some(old), Some(new)) if old.key() == new.key() => {
                Ok(Operation::Replace(new.clone(), condition(old)?))
            }
            (Some(old), None) => Ok(Operation::Delete(old.key().clone(), condition(old)?)),
            (Some(old), Some(new)) => Err(Error::invalid_request(format!(
                "{} cannot become {}: a key does not change",
                old.key(),
                new.key()
            ))),
            (None, None) => Err(Error::invalid_request("a change of nothing to nothing")),
        }
    }
}

fn condition(old: &Entity) -> Result<IfMatch> {
    let etag = old.etag();
    let etag =
        etag.ok_or_else(|| Error::invalid_request(format!("{} was not read: it has no ETag", old.key())))?;
    Ok(IfMatch::from(etag))
}
