//! The manifest entry of a type, created from and compared with the schema of a program's type.

use super::{Schema, Spread};
use crate::manifest::{Layout, StoredType};
use crate::model::TableName;
use crate::store::{Error, Result};

impl Layout {
    /// Returns the layout of a type.
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

    /// Whether a program with this schema may store entities in this layout.
    ///
    /// For large entities the lists of large properties may differ: a program does not change properties that it does not
    /// know. But a property that is large here must not be plain in the schema, because the program would take the
    /// reference to a blob for the value.
    pub fn serves(&self, schema: &Schema) -> bool {
        let own = Self::of(schema);
        match (self.large(), own.large()) {
            (Some(large), Some(_)) => !schema
                .properties
                .iter()
                .any(|p| p.large.is_none() && large.iter().any(|name| name == p.name)),
            _ => *self == own,
        }
    }
}

impl StoredType {
    /// Creates the manifest entry of a type.
    pub fn of(schema: &Schema) -> Self {
        let encrypted = schema.properties.iter().filter(|p| p.encrypted);
        Self {
            entity: Some(schema.entity_type()),
            // The derive macro ensures that both fit an `i32`.
            version: schema.version.cast_signed(),
            reader: schema.min_reader.cast_signed(),
            layout: Layout::of(schema),
            encrypted: encrypted.map(|p| p.name.to_owned()).collect(),
            etag: None,
        }
    }

    /// Checks that the program stores entities of the type in the layout of the manifest.
    ///
    /// # Errors
    /// Fails if the layouts differ; the error names both.
    pub fn check_layout(&self, table: &TableName, schema: &Schema) -> Result<()> {
        if self.layout.serves(schema) {
            return Ok(());
        }
        let (name, stored, own) = (schema.rust_name, &self.layout, Layout::of(schema));
        let remedy = match (stored, &own) {
            (Layout::Spread { .. }, Layout::Spread { .. }) => {
                "change the buckets by a migration (`SpreadTable::with_previous`, then `migrate`)"
            }
            _ => "declare the layout of the manifest, or store the type in another table",
        };
        Err(Error::invalid_request(format!(
            "the manifest of the table '{table}' says that {name} is stored as {stored}, and this program stores it as {own}: {remedy}"
        )))
    }

    /// Checks that the program encrypts the properties that are encrypted according to the manifest.
    ///
    /// # Errors
    /// Fails if the program would write such a property in plaintext; the error names the property.
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
