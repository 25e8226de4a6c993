//! The manifest row of an entity type.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::{DISCRIMINATOR, FORMAT_PROPERTY, TYPE, TYPE_ROWS};
use super::{damaged, integer, key_part, text, to_json};
use crate::error::{Error, Result};
use crate::manifest::{Discriminator, EntityType, Expiry, FORMAT, Layout, Text};
use crate::model::{ETag, Entity, IfMatch, Key, MANIFEST_PARTITION};
use crate::operation::Operation;

const VERSION: &str = "Version";
const READER: &str = "Reader";
const LAYOUT: &str = "Layout";
const ENCRYPTED: &str = "Encrypted";
const EXPIRY: &str = "Expiry";

/// An entity type for which a program has opened the table. Programs of several versions extend the row, and never
/// remove anything from it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredType {
    /// The type, without key templates; `None` if this program cannot read it.
    pub entity: Option<EntityType>,
    /// The latest schema version of any program.
    pub version: i32,
    /// The earliest schema version that can read rows of the latest version.
    pub reader: i32,
    /// The layout of the entities.
    pub layout: Layout,
    /// The properties that a program marks for encryption.
    pub encrypted: BTreeSet<String>,
    /// When entities expire, as the programs of the latest schema version declare it; `None` for a type that does not expire.
    pub expiry: Option<Expiry>,
    /// The ETag of the row.
    pub etag: Option<ETag>,
}

impl StoredType {
    /// Returns the name of the type.
    pub fn name(&self) -> &str {
        self.entity
            .as_ref()
            .map_or("an unknown type", |of| &of.name)
    }

    /// Combines two declarations of one type: the later version with its reader and expiry, the sum of layouts and encrypted
    /// names.
    #[must_use]
    pub fn merged_with(&self, other: &Self) -> Self {
        let (reader, expiry) = match self.version.cmp(&other.version) {
            Ordering::Less => (other.reader, &other.expiry),
            // If two programs of one version disagree, the later reader is safe for both.
            Ordering::Equal => (
                self.reader.max(other.reader),
                if self.expiry.is_some() {
                    &self.expiry
                } else {
                    &other.expiry
                },
            ),
            Ordering::Greater => (self.reader, &self.expiry),
        };
        Self {
            entity: self.entity.clone(),
            version: self.version.max(other.version),
            reader,
            layout: self.layout.with(&other.layout),
            encrypted: &self.encrypted | &other.encrypted,
            expiry: expiry.clone(),
            etag: self.etag.clone(),
        }
    }

    /// Converts to the manifest row.
    ///
    /// # Errors
    /// Fails if the name is too long for a key, or if the type has a later format than this program can write.
    pub fn to_entity(&self) -> Result<Entity> {
        let entity = self.entity.as_ref().ok_or_else(|| {
            Error::manifest_mismatch(
                "a type of the manifest has a later format than this program can write",
            )
        })?;
        let mut row = Entity::from(row_key(entity)?)
            .with(FORMAT_PROPERTY, FORMAT)
            .with(TYPE, &*entity.name)
            .with(DISCRIMINATOR, to_json(&entity.discriminator))
            .with(VERSION, self.version)
            .with(READER, self.reader)
            .with(LAYOUT, self.layout.to_json())
            .with(ENCRYPTED, to_json(&self.encrypted));
        if let Some(expiry) = &self.expiry {
            row.properties_mut().set(EXPIRY, to_json(expiry));
        }
        Ok(row)
    }

    /// Returns the write of the row, on the condition that the row has not changed since it was read.
    ///
    /// # Errors
    /// Returns the errors of [`to_entity`](Self::to_entity).
    pub fn operation(&self) -> Result<Operation> {
        let row = self.to_entity()?;
        Ok(match &self.etag {
            // Two programs may extend the row at once. One of them fails, reads the row again, and extends what the
            // other has written. A merge keeps what a later version of the library has written, and the format is that of the program
            // that has inserted the row.
            Some(etag) => {
                let (key, mut properties) = row.into_parts();
                properties.remove(FORMAT_PROPERTY);
                if self.expiry.is_none() {
                    // A merge removes no property.
                    properties.set(EXPIRY, "null");
                }
                Operation::Merge(Entity::from_parts(key, properties), IfMatch::from(etag))
            }
            None => Operation::Insert(row),
        })
    }

    /// Reads the row of a type.
    ///
    /// # Errors
    /// Fails if the row is damaged, or has the key of another type.
    pub(super) fn read(row: &Entity) -> Result<Self> {
        let needed =
            |name: &'static str| text(row, name).ok_or_else(|| damaged(row, name, "Edm.String"));
        let version = integer(row, VERSION)?;
        let encrypted = serde_json::from_str(needed(ENCRYPTED)?);
        let expiry = text(row, EXPIRY)
            .map(serde_json::from_str::<Option<Expiry>>)
            .transpose();
        let read = Self {
            entity: read_type(row),
            version,
            reader: integer(row, READER)?,
            layout: Layout::from_json(needed(LAYOUT)?),
            encrypted: encrypted.map_err(|_| damaged(row, ENCRYPTED, "a list of names"))?,
            expiry: expiry
                .map_err(|_| damaged(row, EXPIRY, "the expiry of a type"))?
                .flatten(),
            etag: row.etag().cloned(),
        };
        match &read.entity {
            None if integer(row, FORMAT_PROPERTY)? <= FORMAT => {
                Err(damaged(row, DISCRIMINATOR, "a discriminator"))
            }
            Some(entity) if row_key(entity)? != *row.key() => {
                Err(damaged(row, "RowKey", "the key of its type"))
            }
            _ => Ok(read),
        }
    }
}

/// The key of the row of a type.
pub(super) fn row_key(entity: &EntityType) -> Result<Key> {
    Key::new(
        MANIFEST_PARTITION,
        format!("{TYPE_ROWS}{}", key_part(&entity.name)?),
    )
}

impl EntityType {
    /// Returns the type without key templates: type name and discriminator.
    pub(crate) fn without_keys(&self) -> Self {
        Self {
            name: self.name.clone(),
            discriminator: self.discriminator.clone(),
            ..Self::ANY
        }
    }

    /// Whether the discriminators exclude each other, so that no row has both types.
    pub fn is_disjoint_from(&self, other: &Self) -> bool {
        match (&self.discriminator, &other.discriminator) {
            (Discriminator::Property(a), Discriminator::Property(b)) => {
                a == b && self.name != other.name
            }
            (Discriminator::RowPrefix(a), Discriminator::RowPrefix(b))
            | (Discriminator::PartitionPrefix(a), Discriminator::PartitionPrefix(b)) => {
                !a.starts_with(&**b) && !b.starts_with(&**a)
            }
            _ => false,
        }
    }

    /// Whether the keys of one type begin with the start by which the other is identified, so that a query of that one also finds the rows of
    /// this one. The derive macros refuse such starts; programs without them can declare them.
    pub(crate) fn is_nested_with(&self, other: &Self) -> bool {
        match (&self.discriminator, &other.discriminator) {
            (Discriminator::RowPrefix(a), Discriminator::RowPrefix(b))
            | (Discriminator::PartitionPrefix(a), Discriminator::PartitionPrefix(b)) => {
                a != b && (a.starts_with(&**b) || b.starts_with(&**a))
            }
            _ => false,
        }
    }

    /// Whether type name and discriminator are equal, so that both types have the same rows.
    pub fn has_same_rows(&self, other: &Self) -> bool {
        self.name == other.name && self.discriminator == other.discriminator
    }
}

/// Reads the entity type of a row. Every format has its two properties, but this program may not know a discriminator of a
/// later format.
pub(super) fn read_type(row: &Entity) -> Option<EntityType> {
    let discriminator = serde_json::from_str(text(row, DISCRIMINATOR)?).ok()?;
    let name = Text::from(text(row, TYPE)?.to_owned());
    Some(EntityType {
        name,
        discriminator,
        ..EntityType::ANY
    })
}
