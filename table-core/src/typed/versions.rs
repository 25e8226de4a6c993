//! What programs of different versions do to each other's rows.

use super::{Discriminator, Schema};
use crate::model::{Entity, ValueRef, WRITE_ID_PROPERTY};
use crate::store::{Error, Result};

impl Schema {
    /// Whether a row of the type may be stored in a later version than this one: the type says that it has versions, or that
    /// its table holds other types too, so that other programs use it. A type that says neither is the only one of its table,
    /// and its unconditional writes do not look at what is there.
    pub const fn may_be_newer(&self) -> bool {
        self.has_versions || !matches!(self.discriminator, Discriminator::None)
    }

    /// The version of the schema that an entity is stored in.
    ///
    /// # Errors
    /// Its version property is no number.
    pub fn stored_version(&self, entity: &Entity) -> Result<i64> {
        Ok(version_in(self, entity, Self::VERSION_PROPERTY)?.unwrap_or(1))
    }

    /// Whether this version writes an entity that is stored in a later one, which says that this one reads it.
    ///
    /// # Errors
    /// What tells its version is no number.
    pub fn reads_later(&self, entity: &Entity) -> Result<bool> {
        let own = i64::from(self.version);
        Ok(self.stored_version(entity)? > own
            && version_in(self, entity, Self::READER_PROPERTY)?.is_some_and(|reader| reader <= own))
    }

    /// Leaves out what tells the version: written over a stored entity, the rest leaves it in the version that it is stored in.
    pub fn without_version(mut entity: Entity) -> Entity {
        for name in [Self::VERSION_PROPERTY, Self::READER_PROPERTY] {
            entity.properties_mut().remove(name);
        }
        entity
    }

    /// Refuses an entity of the type that must not be replaced: one that is stored in a later version, whose properties
    /// would be lost, unless that version says that this one reads it. The version of another type says nothing here.
    ///
    /// # Errors
    /// It is one.
    pub fn check_replaceable(&self, entity: &Entity) -> Result<()> {
        if let Some(name) = self.discriminator.property()
            && entity.get(name) != Some(ValueRef::String(self.type_name))
        {
            return Ok(());
        }
        let stored = self.stored_version(entity)?;
        if stored <= i64::from(self.version) || self.reads_later(entity)? {
            return Ok(());
        }
        let Self { rust_name, version, .. } = self;
        Err(Error::invalid_request(format!(
            "{} is stored in version {stored} of the schema of {rust_name}, and this program knows version {version}: what a later \
             version stores would be lost; write it by a program that knows that version",
            entity.key()
        )))
    }

    /// Gives an entity that replaces another what the type does not know of that one: properties of other programs, or of
    /// a later definition of the same version. Those that an earlier version of the schema knows are not among them: its
    /// conversion has decided about them. An entity of a later version, which this one reads, stays one.
    ///
    /// # Errors
    /// The version property of the old one is no number.
    pub fn keep_unknown(&self, old: &Entity, new: &mut Entity) -> Result<()> {
        let version = self.stored_version(old)?;
        if version > i64::from(self.version) {
            for name in [Self::VERSION_PROPERTY, Self::READER_PROPERTY] {
                new.properties_mut().remove(name);
                if let Some(value) = old.get(name) {
                    new.properties_mut().push(name, value, false);
                }
            }
        }
        // What a type keeps by itself it may also drop.
        if self.keeps_rest && self.of_version(version).is_none_or(|read_by| read_by.keeps_rest) {
            return Ok(());
        }
        for property in old.properties() {
            let name = property.name();
            if !self.knows(name) && name != WRITE_ID_PROPERTY && new.get(name).is_none() {
                new.properties_mut().push(name, property.value(), property.is_encrypted());
            }
        }
        Ok(())
    }

    /// Refuses a type that is not stored as one row under its key.
    ///
    /// # Errors
    /// It is one.
    pub(super) fn check_one_row(&self) -> Result<()> {
        let (what, table) = match self {
            Self { spread: Some(_), .. } => ("its keys are spread over buckets", "a `SpreadTable`"),
            Self { wide: true, .. } => ("it may take several rows", "a `WideTable`"),
            _ => return Ok(()),
        };
        let name = self.rust_name;
        Err(Error::invalid_request(format!(
            "a {name} is not one row under its key, {what}: write it through {table} of the pattern library"
        )))
    }

    /// The schema that reads a version.
    fn of_version(&self, version: i64) -> Option<&Self> {
        let mut schema = Some(self);
        while let Some(one) = schema.filter(|one| i64::from(one.version) != version) {
            schema = one.previous;
        }
        schema
    }

    fn knows(&self, name: &str) -> bool {
        [Self::VERSION_PROPERTY, Self::READER_PROPERTY].contains(&name)
            || self.discriminator.property() == Some(name)
            || self.properties.iter().any(|property| property.name == name)
            || self.previous.is_some_and(|previous| previous.knows(name))
    }
}

/// A version that a property of an entity holds.
fn version_in(schema: &Schema, entity: &Entity, name: &str) -> Result<Option<i64>> {
    match entity.get(name) {
        None => Ok(None),
        Some(ValueRef::Int32(version)) => Ok(Some(version.into())),
        Some(ValueRef::Int64(version)) => Ok(Some(version)),
        Some(other) => {
            let found = other.edm_type().name();
            Err(Error::decode(schema.rust_name, entity.key(), name, "a version", found))
        }
    }
}
