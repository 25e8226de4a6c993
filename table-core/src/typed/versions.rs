//! What programs of different versions do to each other's rows.

use super::{Discriminator, Schema};
use crate::model::WRITE_ID_PROPERTY;
use crate::model::{Entity, ValueRef};
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
        match entity.get(Self::VERSION_PROPERTY) {
            None => Ok(1),
            Some(ValueRef::Int32(version)) => Ok(version.into()),
            Some(ValueRef::Int64(version)) => Ok(version),
            Some(other) => {
                let (name, found) = (Self::VERSION_PROPERTY, other.edm_type().name());
                Err(Error::decode(self.rust_name, entity.key(), name, "a version", found))
            }
        }
    }

    /// Refuses an entity of the type that must not be replaced: one that is stored in a later version, whose properties
    /// would be lost. The version of another type says nothing here.
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
        if stored <= i64::from(self.version) {
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
    /// conversion has decided about them.
    ///
    /// # Errors
    /// The version property of the old one is no number.
    pub fn keep_unknown(&self, old: &Entity, new: &mut Entity) -> Result<()> {
        let version = self.stored_version(old)?;
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
        name == Self::VERSION_PROPERTY
            || self.discriminator.property() == Some(name)
            || self.properties.iter().any(|property| property.name == name)
            || self.previous.is_some_and(|previous| previous.knows(name))
    }
}
