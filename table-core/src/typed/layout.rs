//! What a manifest says of a type, by the schema of a program's type.

use super::{Schema, Spread};
use crate::manifest::{Layout, StoredType, told_by};
use crate::model::TableName;
use crate::store::{Error, Result};

impl Layout {
    /// How a type is stored.
    pub fn of(schema: &Schema) -> Self {
        match schema {
            Schema { wide: true, .. } => Self::Wide,
            Schema { spread: Some(Spread { buckets, salt }), .. } => {
                Self::Spread { buckets: *buckets, salt: (*salt).into() }
            }
            _ => Self::of_one_row(
                schema.properties.iter().filter(|p| p.large.is_some()).map(|p| p.name.into()),
            ),
        }
    }

    /// Whether a program may store entities of a type in this layout. One that does not know a large property leaves it alone; one
    /// that takes it for a plain property would take the name of a blob for the value.
    pub fn serves(&self, schema: &Schema) -> bool {
        let mine = Self::of(schema);
        match (self.large(), mine.large()) {
            (Some(large), Some(_)) => !schema
                .properties
                .iter()
                .any(|p| p.large.is_none() && large.iter().any(|name| name == p.name)),
            _ => *self == mine,
        }
    }
}

impl StoredType {
    /// A type, before it is stored.
    pub fn of(schema: &Schema) -> Self {
        let encrypted = schema.properties.iter().filter(|p| p.encrypted);
        Self {
            entity: Some(told_by(&schema.entity_type())),
            // The macro keeps both within an `i32`.
            version: schema.version.cast_signed(),
            reader: schema.min_reader.cast_signed(),
            layout: Layout::of(schema),
            encrypted: encrypted.map(|p| p.name.to_owned()).collect(),
            etag: None,
        }
    }

    /// Refuses a program that stores entities of the type in another layout.
    ///
    /// # Errors
    /// It does; the error names both.
    pub fn check_layout(&self, table: &TableName, schema: &Schema) -> Result<()> {
        if self.layout.serves(schema) {
            return Ok(());
        }
        let (name, stored, mine) = (schema.rust_name, &self.layout, Layout::of(schema));
        let remedy = match (stored, &mine) {
            (Layout::Spread { .. }, Layout::Spread { .. }) => {
                "change the buckets by a migration (`SpreadTable::with_previous`, then `migrate`)"
            }
            _ => "declare the type as it is stored, or store it in another table",
        };
        Err(Error::invalid_request(format!(
            "the manifest of the table '{table}' says that {name} is stored as {stored}, and this program stores it as {mine}: {remedy}"
        )))
    }

    /// Refuses a program that would write a property in plaintext which another one encrypts.
    ///
    /// # Errors
    /// It would; the error names the property.
    pub fn check_encrypted(&self, table: &TableName, schema: &Schema) -> Result<()> {
        let mut in_plaintext = schema.properties.iter().filter(|p| !p.encrypted).map(|p| p.name);
        let Some(property) = in_plaintext.find(|name| self.encrypted.contains(*name)) else { return Ok(()) };
        let name = schema.rust_name;
        Err(Error::invalid_request(format!(
            "the manifest of the table '{table}' says that '{property}' of {name} is encrypted, and this program would write it in \
             plaintext: mark the field `#[encrypt]`"
        )))
    }
}
