//! The check of writes of plain rows against the indexes of a manifest.

use super::{Discriminator, EntityType, Manifest, StoredIndex};
use crate::error::{Error, Result};
use crate::model::{Entity, Key, TableName};
use crate::operation::Operation;

/// The entity that a write changes, as far as the write describes it.
#[derive(Clone, Copy, Debug)]
pub enum WriteTarget<'a> {
    /// An entity of this type with this key.
    Type(&'a EntityType, &'a Key),
    /// An entity of which all properties are known.
    Entity(&'a Entity),
    /// An entity into which these properties are merged.
    Patch(&'a Entity),
    /// Any entity with this key.
    Key(&'a Key),
}

impl Manifest {
    /// Returns an index that may have entries of the entity that a write changes.
    pub fn index_of(&self, target: WriteTarget<'_>) -> Option<&StoredIndex> {
        if target.key().is_system() && !matches!(target, WriteTarget::Key(_)) {
            return None;
        }
        self.indexes.iter().find(|index| index.entity.as_ref().is_none_or(|of| target.may_have_type(of)))
    }

    /// Refuses a write of a plain row if an index of the manifest may have entries of its entity. `operation` is the name of
    /// the write and `advice` the alternative, for the error.
    ///
    /// # Errors
    /// Fails if there is such an index.
    pub fn check_plain(
        &self,
        table: &TableName,
        target: WriteTarget<'_>,
        operation: &str,
        advice: &str,
    ) -> Result<()> {
        let Some(index) = self.index_of(target) else { return Ok(()) };
        let (id, key) = (index.id(), target.key());
        let of = match index.entity.as_ref().map(|of| &*of.name) {
            Some("") | None => "entities of any type".to_owned(),
            Some(name) => format!("entities of the type {name}"),
        };
        Err(Error::invalid_request(format!(
            "the table '{table}' has the index '{id}' of {of}, and {operation} of {key} would leave it stale: {advice}"
        )))
    }
}

impl<'a> WriteTarget<'a> {
    /// Returns the target of an operation.
    pub const fn of(operation: &'a Operation) -> Self {
        match operation {
            Operation::Insert(entity)
            | Operation::InsertOrReplace(entity)
            | Operation::Replace(entity, _) => Self::Entity(entity),
            Operation::Merge(patch, _) | Operation::InsertOrMerge(patch) => Self::Patch(patch),
            Operation::Delete(key, _) => Self::Key(key),
        }
    }

    /// Returns the key of the entity.
    pub const fn key(self) -> &'a Key {
        match self {
            Self::Type(_, key) | Self::Key(key) => key,
            Self::Entity(entity) | Self::Patch(entity) => entity.key(),
        }
    }

    /// Whether the entity may have the type. A discriminator in a key decides with certainty.
    fn may_have_type(self, of: &EntityType) -> bool {
        match (&of.discriminator, self) {
            (Discriminator::None, _) | (Discriminator::Property(_), Self::Key(_)) => true,
            (Discriminator::RowPrefix(prefix), _) => self.key().row().starts_with(&**prefix),
            (Discriminator::PartitionPrefix(prefix), _) => self.key().partition().starts_with(&**prefix),
            (Discriminator::Property(_), Self::Type(known, _)) => !known.is_disjoint_from(of),
            (Discriminator::Property(_), Self::Entity(entity)) => of.admits(entity),
            (Discriminator::Property(name), Self::Patch(patch)) => {
                patch.get(name).is_none() || of.admits(patch)
            }
        }
    }
}
