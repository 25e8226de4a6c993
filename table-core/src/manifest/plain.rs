//! The check of writes of plain rows against the indexes and the layouts of a manifest.

use super::{Discriminator, EntityType, Layout, Manifest, Shape, StoredIndex, StoredType};
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
    #[doc(hidden)]
    pub fn index_of(&self, target: WriteTarget<'_>) -> Option<&StoredIndex> {
        if target.key().is_system() && !matches!(target, WriteTarget::Key(_)) {
            return None;
        }
        self.indexes.iter().find(|index| {
            index
                .entity
                .as_ref()
                .is_none_or(|entity_type| target.may_have_type(entity_type))
        })
    }

    /// Refuses a write of a plain row if an index of the manifest may have entries of its entity, or if the entity has a
    /// type that is not stored as one row under its key. `operation` is the name of the write and `advice` the alternative
    /// for indexed entities, for the error.
    ///
    /// # Errors
    /// Fails if there is such an index or type.
    #[doc(hidden)]
    pub fn check_plain(
        &self,
        table: &TableName,
        target: WriteTarget<'_>,
        operation: &str,
        advice: &str,
    ) -> Result<()> {
        self.check_no_index(table, target, operation, advice)?;
        self.check_one_row(table, target, operation)
    }

    /// Refuses a write past the indexes: as [`check_plain`](Self::check_plain), for entities of any layout.
    ///
    /// # Errors
    /// Fails if an index may have entries of the entity.
    #[doc(hidden)]
    pub fn check_no_index(
        &self,
        table: &TableName,
        target: WriteTarget<'_>,
        operation: &str,
        advice: &str,
    ) -> Result<()> {
        let Some(index) = self.index_of(target) else {
            return Ok(());
        };
        let (id, key) = (index.id(), target.key());
        let entities = match index.entity.as_ref().map(|entity| &*entity.name) {
            Some("") | None => "entities of any type".to_owned(),
            Some(name) => format!("entities of the type {name}"),
        };
        // A feed is never repaired: no scrub knows the changes that it lacks.
        let reason = if index.shape == Some(Shape::Feed) {
            format!(
                "the table '{table}' has a feed of {entities}, '{id}', and {operation} of {key} would not be in it: {advice}"
            )
        } else {
            format!(
                "the table '{table}' has the index '{id}' of {entities}, and {operation} of {key} would leave it stale: {advice}"
            )
        };
        Err(Error::manifest_mismatch(reason))
    }

    /// Refuses a write of a wide entity if its properties or key show that it has a type of another layout.
    ///
    /// # Errors
    /// Fails if there is such a type.
    #[doc(hidden)]
    pub fn check_wide(&self, table: &TableName, entity: &Entity) -> Result<()> {
        let is_other = |stored: &&StoredType| {
            stored.layout != Layout::Wide
                && stored
                    .entity
                    .as_ref()
                    .is_some_and(|entity_type| entity_type.admits(entity))
        };
        let Some(stored) = self.types.iter().find(is_other) else {
            return Ok(());
        };
        let (name, layout, key) = (stored.name(), &stored.layout, entity.key());
        Err(Error::manifest_mismatch(format!(
            "the manifest of the table '{table}' says that {name} is stored as {layout}, and a write of the wide entity {key} would \
             store it as several rows: keep wide entities in a table of their own"
        )))
    }

    /// Refuses a write of one row if properties or key show that the entity has a type of several rows or buckets.
    ///
    /// A write of a known type is not refused here: `check_type` compares the layouts of the type. A key alone shows the
    /// type only by a prefix: a deletion of a row by its key is not refused otherwise.
    fn check_one_row(
        &self,
        table: &TableName,
        target: WriteTarget<'_>,
        operation: &str,
    ) -> Result<()> {
        let shows = |entity_type: &EntityType| match (&entity_type.discriminator, target) {
            (_, WriteTarget::Type(..))
            | (Discriminator::None | Discriminator::Property(_), WriteTarget::Key(_)) => false,
            (Discriminator::Property(_), WriteTarget::Patch(patch)) => entity_type.admits(patch),
            _ => target.may_have_type(entity_type),
        };
        if self.types.is_empty() || target.key().is_system() {
            return Ok(());
        }
        let mut types = self
            .types
            .iter()
            .filter(|stored| stored.layout.large().is_none());
        let Some(stored) = types.find(|stored| stored.entity.as_ref().is_some_and(shows)) else {
            return Ok(());
        };
        let (name, layout, key) = (stored.name(), &stored.layout, target.key());
        let instead = match layout {
            Layout::Wide => "write it through a `WideTable`",
            Layout::Spread { .. } => "write it through a `SpreadTable`",
            _ => "write it with a program that knows the layout",
        };
        Err(Error::manifest_mismatch(format!(
            "the manifest of the table '{table}' says that {name} is stored as {layout}, and {operation} of {key} writes one row: {instead}"
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
    fn may_have_type(self, entity_type: &EntityType) -> bool {
        match (&entity_type.discriminator, self) {
            (Discriminator::None, _) | (Discriminator::Property(_), Self::Key(_)) => true,
            (Discriminator::RowPrefix(prefix), _) => self.key().row().starts_with(&**prefix),
            (Discriminator::PartitionPrefix(prefix), _) => {
                self.key().partition().starts_with(&**prefix)
            }
            (Discriminator::Property(_), Self::Type(known, _)) => {
                !known.is_disjoint_from(entity_type)
            }
            (Discriminator::Property(_), Self::Entity(entity)) => entity_type.admits(entity),
            // A patch without the property leaves the type of the stored entity as it is, and that is not known here.
            (Discriminator::Property(name), Self::Patch(patch)) => {
                patch.get(name).is_none() || entity_type.admits(patch)
            }
        }
    }
}
