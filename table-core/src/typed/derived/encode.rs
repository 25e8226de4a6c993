use std::fmt;

use super::PropertyGroup;
use crate::model::{Entity, Key, Properties, ValueError, ValueRef};
use crate::store::{Error, Result};
use crate::typed::{PropertySchema, PropertySink, Schema};

/// How a codec writes a `T`.
type Write<T> = fn(&T, PropertySink<'_>) -> Result<(), ValueError>;

/// Collects the properties of an entity or of a patch.
#[derive(Debug)]
pub struct Encoder {
    owner: &'static str,
    properties: Properties,
}

impl Encoder {
    /// Nothing yet, with room for `bytes`.
    pub fn new(owner: &'static str, bytes: usize) -> Self {
        Self { owner, properties: Properties::with_capacity(bytes) }
    }

    /// Appends the discriminator.
    pub fn discriminator(&mut self, name: &str, type_name: &str) {
        self.properties.push(name, ValueRef::String(type_name), false);
    }

    /// Appends the schema version, which the macro keeps within an `i32`.
    pub fn version(&mut self, version: u32) {
        let version = ValueRef::Int32(version.cast_signed());
        self.properties.push(Schema::VERSION_PROPERTY, version, false);
    }

    /// Appends the earliest version that reads the entity.
    pub fn min_reader(&mut self, version: u32) {
        self.properties.push(Schema::READER_PROPERTY, ValueRef::Int32(version.cast_signed()), false);
    }

    /// Appends a field by the function of its codec.
    ///
    /// # Errors
    /// The value cannot be stored.
    #[inline]
    pub fn field<T>(&mut self, name: &str, value: &T, encrypt: bool, write: Write<T>) -> Result<()> {
        let sink = PropertySink::new(&mut self.properties, name, encrypt);
        write(value, sink).map_err(|e| invalid(self.owner, name, &e, encrypt))
    }

    /// Appends the fields of a group.
    ///
    /// # Errors
    /// A value cannot be stored.
    pub fn group<G: PropertyGroup>(&mut self, group: &G) -> Result<()> {
        group.write(self)
    }

    /// Appends the properties that a type keeps without knowing them.
    ///
    /// # Errors
    /// One of them has the name of a declared property.
    pub fn rest(&mut self, rest: &Properties, declared: &[PropertySchema]) -> Result<()> {
        for p in rest {
            let name = p.name();
            if declared.iter().any(|d| d.name == name) || self.properties.get(name).is_some() {
                let reason = format!("{} declares it; set the field instead", self.owner);
                return Err(Error::invalid_value(name, reason));
            }
            self.properties.push(name, p.value(), p.is_encrypted());
        }
        Ok(())
    }

    /// Appends a field of a patch, if it is set.
    ///
    /// # Errors
    /// The value cannot be stored, or would clear the property, which a merge cannot.
    pub fn patch<T>(&mut self, name: &str, value: Option<&T>, encrypt: bool, write: Write<T>) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let before = self.properties.as_packed().len();
        self.field(name, value, encrypt, write)?;
        if self.properties.as_packed().len() == before { Err(self.cannot_clear(name)) } else { Ok(()) }
    }

    /// Appends a group of a patch, if it is set.
    ///
    /// # Errors
    /// A value cannot be stored, or one is absent, which a merge cannot make so.
    pub fn patch_group<G: PropertyGroup>(&mut self, group: Option<&G>) -> Result<()> {
        let Some(group) = group else { return Ok(()) };
        group.write(self)?;
        let absent = G::PROPERTIES.iter().find(|p| self.properties.get(p.name).is_none());
        absent.map_or(Ok(()), |p| Err(self.cannot_clear(p.name)))
    }

    /// The properties.
    pub fn finish(self) -> Properties {
        self.properties
    }

    /// The properties under their key.
    pub fn finish_entity(self, key: Key) -> Entity {
        Entity::from_parts(key, self.properties)
    }

    fn cannot_clear(&self, name: &str) -> Error {
        let reason =
            format!("a merge cannot clear a property of {}; read and replace the entity", self.owner);
        Error::invalid_value(name, reason)
    }
}

/// Formats a patch by what it sets, without the values.
///
/// # Errors
/// The formatter's.
pub fn debug_patch(f: &mut fmt::Formatter<'_>, name: &str, fields: &[(&str, bool)]) -> fmt::Result {
    f.write_str(name)?;
    f.debug_set().entries(fields.iter().filter(|(_, set)| *set).map(|(field, _)| field)).finish()
}

/// A marked value is never shown.
#[cold]
fn invalid(owner: &str, name: &str, error: &ValueError, secret: bool) -> Error {
    let found = if secret { "another value, which is secret" } else { error.found() };
    Error::invalid_value(name, format!("{owner} expects {}, found {found}", error.expected()))
}
