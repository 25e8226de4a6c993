use std::fmt;

use super::PropertyGroup;
use crate::model::{Entity, Key, Properties, ValueError, ValueRef};
use crate::store::{Error, Result};
use crate::typed::{PropertySchema, PropertySink, Schema, split};

/// [`Codec::write`](crate::typed::Codec::write) of a codec for `T`.
type Write<T> = fn(&T, PropertySink<'_>) -> Result<(), ValueError>;

/// Collects the properties of an entity or a patch.
#[derive(Debug)]
pub struct Encoder {
    owner: &'static str,
    /// The text in front of the names of the group that is being written.
    prefix: String,
    properties: Properties,
}

impl Encoder {
    /// Creates an encoder without properties, with a buffer of `bytes`.
    pub fn new(owner: &'static str, bytes: usize) -> Self {
        Self {
            owner,
            prefix: String::new(),
            properties: Properties::with_capacity(bytes),
        }
    }

    /// Appends the discriminator.
    pub fn discriminator(&mut self, name: &str, type_name: &str) {
        self.properties
            .push(name, ValueRef::String(type_name), false);
    }

    /// Appends the schema version. The derive macro ensures that it fits an `i32`.
    pub fn version(&mut self, version: u32) {
        let version = ValueRef::Int32(version.cast_signed());
        self.properties
            .push(Schema::VERSION_PROPERTY, version, false);
    }

    /// Appends the earliest schema version that reads the entity.
    pub fn min_reader(&mut self, version: u32) {
        self.properties.push(
            Schema::READER_PROPERTY,
            ValueRef::Int32(version.cast_signed()),
            false,
        );
    }

    /// Appends a field with the write function of its codec.
    ///
    /// # Errors
    /// Fails if the value cannot be stored.
    #[inline]
    pub fn field<T>(
        &mut self,
        name: &str,
        value: &T,
        encrypt: bool,
        write: Write<T>,
    ) -> Result<()> {
        if !self.prefix.is_empty() {
            return self.prefixed_field(name, value, encrypt, write);
        }
        let sink = PropertySink::new(&mut self.properties, name, encrypt);
        write(value, sink).map_err(|e| invalid(self.owner, name, &e, encrypt))
    }

    /// Appends a field in as many properties as its value needs.
    ///
    /// # Errors
    /// Fails if the value cannot be stored.
    pub fn split<T>(
        &mut self,
        name: &str,
        value: &T,
        encrypt: bool,
        write: Write<T>,
    ) -> Result<()> {
        // The codec writes to a separate buffer: only its result shows whether the value needs several properties.
        let mut whole = Properties::new();
        let sink = PropertySink::new(&mut whole, name, encrypt);
        write(value, sink).map_err(|e| invalid(self.owner, name, &e, encrypt))?;
        if let Some(property) = whole.iter().next() {
            split::push(&mut self.properties, name, property.value(), encrypt);
        }
        Ok(())
    }

    fn prefixed_field<T>(
        &mut self,
        name: &str,
        value: &T,
        encrypt: bool,
        write: Write<T>,
    ) -> Result<()> {
        let name = format!("{}{name}", self.prefix);
        let sink = PropertySink::new(&mut self.properties, &name, encrypt);
        write(value, sink).map_err(|e| invalid(self.owner, &name, &e, encrypt))
    }

    /// Appends the fields of a group, with a prefix in front of their names.
    ///
    /// # Errors
    /// Fails if a value cannot be stored.
    pub fn group<G: PropertyGroup>(&mut self, prefix: &str, group: &G) -> Result<()> {
        // Groups may be within groups: the prefixes are joined, and this one ends with its group, also after an
        // error.
        let outer = self.prefix.len();
        self.prefix.push_str(prefix);
        let written = group.write(self);
        self.prefix.truncate(outer);
        written
    }

    /// Appends the other properties of an entity, which the type has in a `rest` field.
    ///
    /// # Errors
    /// Fails if such a property has the name of a declared property.
    pub fn rest(&mut self, rest: &Properties, declared: &[PropertySchema]) -> Result<()> {
        for p in rest {
            let name = p.name();
            if declared.iter().any(|d| d.has_name(name)) || self.properties.get(name).is_some() {
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
    /// Fails if the value cannot be stored or would remove the property; a merge cannot remove properties.
    pub fn patch<T>(
        &mut self,
        name: &str,
        value: Option<&T>,
        encrypt: bool,
        write: Write<T>,
    ) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        // A codec that puts nothing means an absent property. A merge cannot remove a property, so the old value
        // would stay without an error.
        let before = self.properties.as_packed().len();
        self.field(name, value, encrypt, write)?;
        if self.properties.as_packed().len() == before {
            Err(self.cannot_clear(name))
        } else {
            Ok(())
        }
    }

    /// Appends a group of a patch, if it is set.
    ///
    /// # Errors
    /// Fails if a value cannot be stored or is absent; a merge cannot remove properties.
    pub fn patch_group<G: PropertyGroup>(&mut self, prefix: &str, group: Option<&G>) -> Result<()> {
        let Some(group) = group else { return Ok(()) };
        self.group(prefix, group)?;
        let mut names = G::PROPERTIES.iter().map(|p| format!("{prefix}{}", p.name));
        let absent = names.find(|name| self.properties.get(name).is_none());
        absent.map_or(Ok(()), |name| Err(self.cannot_clear(&name)))
    }

    /// Returns the properties.
    pub fn finish(self) -> Properties {
        self.properties
    }

    /// Returns an entity with this key and the properties.
    pub fn finish_entity(self, key: Key) -> Entity {
        Entity::from_parts(key, self.properties)
    }

    fn cannot_clear(&self, name: &str) -> Error {
        let reason = format!(
            "a merge cannot remove a property of {}; use `update`",
            self.owner
        );
        Error::invalid_value(name, reason)
    }
}

/// Formats a patch as the names of the fields that it sets. The values may be secret.
///
/// # Errors
/// Returns the errors of the formatter.
pub fn debug_patch(f: &mut fmt::Formatter<'_>, name: &str, fields: &[(&str, bool)]) -> fmt::Result {
    f.write_str(name)?;
    f.debug_set()
        .entries(
            fields
                .iter()
                .filter(|(_, set)| *set)
                .map(|(field, _)| field),
        )
        .finish()
}

/// Returns the error for a value that the codec refuses. It does not show marked values.
#[cold]
fn invalid(owner: &str, name: &str, error: &ValueError, secret: bool) -> Error {
    let found = if secret {
        "another value (secret)"
    } else {
        error.found()
    };
    Error::invalid_value(
        name,
        format!("{owner} expects {}, found {found}", error.expected()),
    )
}
