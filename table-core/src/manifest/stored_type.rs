//! What a manifest says of a type of entities.

use std::collections::BTreeSet;

use super::stored::{
    DISCRIMINATOR, FORMAT_PROPERTY, TYPE, TYPE_ROWS, damaged, part, read_type, text, to_json, told_by, whole,
};
use super::{EntityType, FORMAT, Layout};
use crate::model::{ETag, Entity, IfMatch, Key, MANIFEST_PARTITION, TableName};
use crate::store::{Error, Operation, Result};
use crate::typed::Schema;

const VERSION: &str = "Version";
const READER: &str = "Reader";
const LAYOUT: &str = "Layout";
const ENCRYPTED: &str = "Encrypted";

/// A type of entities that some program has opened the table for. What it says only grows: a program of an earlier version finds what a later one
/// has written.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredType {
    /// Which entities are of the type, without the templates of their keys; `None` where this program cannot tell.
    pub entity: Option<EntityType>,
    /// The latest version of the schema that a program has had.
    pub version: i32,
    /// The earliest version whose programs read what that one stores.
    pub reader: i32,
    /// How its entities are stored.
    pub layout: Layout,
    /// The properties that a program marks as encrypted.
    pub encrypted: BTreeSet<String>,
    /// The version of the row.
    pub etag: Option<ETag>,
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

    /// What is stored once another program has opened the table for the type as well.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let reader = match self.version.cmp(&other.version) {
            std::cmp::Ordering::Less => other.reader,
            std::cmp::Ordering::Equal => self.reader.max(other.reader),
            std::cmp::Ordering::Greater => self.reader,
        };
        Self {
            entity: self.entity.clone(),
            version: self.version.max(other.version),
            reader,
            layout: self.layout.with(&other.layout),
            encrypted: &self.encrypted | &other.encrypted,
            etag: self.etag.clone(),
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

    /// The row.
    ///
    /// # Errors
    /// The name is too long for a key.
    pub fn to_entity(&self) -> Result<Entity> {
        let any = EntityType::ANY;
        let entity = self.entity.as_ref().unwrap_or(&any);
        let row = Key::new(MANIFEST_PARTITION, format!("{TYPE_ROWS}{}", part(&entity.name)?))?;
        Ok(Entity::from(row)
            .with(FORMAT_PROPERTY, FORMAT as i32)
            .with(TYPE, &*entity.name)
            .with(DISCRIMINATOR, to_json(&entity.discriminator))
            .with(VERSION, self.version)
            .with(READER, self.reader)
            .with(LAYOUT, self.layout.to_json())
            .with(ENCRYPTED, to_json(&self.encrypted)))
    }

    /// What writes the row, if nobody has changed it since it was read.
    ///
    /// # Errors
    /// The name is too long for a key.
    pub fn operation(&self) -> Result<Operation> {
        let row = self.to_entity()?;
        Ok(match &self.etag {
            Some(etag) => Operation::Replace(row, IfMatch::from(etag)),
            None => Operation::Insert(row),
        })
    }

    pub(super) fn read(row: &Entity) -> Result<Self> {
        let needed = |name: &'static str| text(row, name).ok_or_else(|| damaged(row, name, "Edm.String"));
        let version = whole(row, VERSION)?;
        let encrypted = serde_json::from_str(needed(ENCRYPTED)?);
        Ok(Self {
            entity: read_type(row),
            version,
            reader: whole(row, READER)?,
            layout: Layout::from_json(needed(LAYOUT)?),
            encrypted: encrypted.map_err(|_| damaged(row, ENCRYPTED, "a list of names"))?,
            etag: row.etag().cloned(),
        })
    }
}
