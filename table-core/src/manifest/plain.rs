//! Which writes of plain rows a manifest refuses.

use super::{Discriminator, EntityType, Manifest, StoredIndex};
use crate::error::{Error, Result};
use crate::model::{Entity, Key, TableName};
use crate::operation::Operation;

/// What a write touches, as far as it tells.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    /// An entity of a type, with this key.
    Type(&'a EntityType, &'a Key),
    /// An entity that is here as a whole.
    Entity(&'a Entity),
    /// An entity that these properties are merged into.
    Patch(&'a Entity),
    /// Whatever has this key.
    Key(&'a Key),
}

impl Manifest {
    /// An index that may have entries of what a write touches.
    pub fn index_of(&self, touched: Touched<'_>) -> Option<&StoredIndex> {
        if touched.key().is_system() && !matches!(touched, Touched::Key(_)) {
            return None;
        }
        self.indexes.iter().find(|index| index.entity.as_ref().is_none_or(|of| touched.may_be(of)))
    }

    /// Refuses to write plain rows that an index of the manifest is of. `what` is the write, `instead` what to do.
    ///
    /// # Errors
    /// There is such an index.
    pub fn check_plain(
        &self,
        table: &TableName,
        touched: Touched<'_>,
        what: &str,
        instead: &str,
    ) -> Result<()> {
        let Some(index) = self.index_of(touched) else { return Ok(()) };
        let (id, key) = (index.id(), touched.key());
        let of = match index.entity.as_ref().map(|of| &*of.name) {
            Some("") | None => "entities of any type".to_owned(),
            Some(name) => format!("entities of the type {name}"),
        };
        Err(Error::invalid_request(format!(
            "the table '{table}' has the index '{id}' of {of}, and {what} of {key} would leave it stale: {instead}"
        )))
    }
}

impl<'a> Touched<'a> {
    /// What an operation touches by itself: its entity, or what it is merged into, or whatever it removes.
    pub const fn by(operation: &'a Operation) -> Self {
        match operation {
            Operation::Insert(entity)
            | Operation::InsertOrReplace(entity)
            | Operation::Replace(entity, _) => Self::Entity(entity),
            Operation::Merge(patch, _) | Operation::InsertOrMerge(patch) => Self::Patch(patch),
            Operation::Delete(key, _) => Self::Key(key),
        }
    }

    /// The key.
    pub const fn key(self) -> &'a Key {
        match self {
            Self::Type(_, key) | Self::Key(key) => key,
            Self::Entity(entity) | Self::Patch(entity) => entity.key(),
        }
    }

    /// Whether the row may be of the type. What the key tells is certain, whatever else is known.
    fn may_be(self, of: &EntityType) -> bool {
        match (&of.discriminator, self) {
            (Discriminator::None, _) | (Discriminator::Property(_), Self::Key(_)) => true,
            (Discriminator::RowPrefix(prefix), _) => self.key().row().starts_with(&**prefix),
            (Discriminator::PartitionPrefix(prefix), _) => self.key().partition().starts_with(&**prefix),
            (Discriminator::Property(_), Self::Type(known, _)) => !known.is_apart_from(of),
            (Discriminator::Property(_), Self::Entity(entity)) => of.admits(entity),
            (Discriminator::Property(name), Self::Patch(patch)) => {
                patch.get(name).is_none() || of.admits(patch)
            }
        }
    }
}
