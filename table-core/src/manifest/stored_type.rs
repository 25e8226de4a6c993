//! The manifest entry of an entity type.

use std::collections::BTreeSet;

use super::stored::{
    DISCRIMINATOR, FORMAT_PROPERTY, TYPE, TYPE_ROWS, damaged, integer, part, read_type, text, to_json,
};
use super::{EntityType, Expiry, FORMAT, Layout};
use crate::error::Result;
use crate::model::{ETag, Entity, IfMatch, Key, MANIFEST_PARTITION};
use crate::operation::Operation;

const VERSION: &str = "Version";
const READER: &str = "Reader";
const LAYOUT: &str = "Layout";
const ENCRYPTED: &str = "Encrypted";
const EXPIRY: &str = "Expiry";

/// An entity type for which a program has opened the table. Programs of several versions extend the entry, and never
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
        self.entity.as_ref().map_or("an unknown type", |of| &of.name)
    }

    /// Returns the entry after another program has opened the table for the type too.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let reader = match self.version.cmp(&other.version) {
            std::cmp::Ordering::Less => other.reader,
            // Two programs of one version disagree: the later reader is the one that is safe for both.
            std::cmp::Ordering::Equal => self.reader.max(other.reader),
            std::cmp::Ordering::Greater => self.reader,
        };
        Self {
            entity: self.entity.clone(),
            version: self.version.max(other.version),
            reader,
            layout: self.layout.with(&other.layout),
            encrypted: &self.encrypted | &other.encrypted,
            expiry: match self.version.cmp(&other.version) {
                std::cmp::Ordering::Less => other.expiry.clone(),
                std::cmp::Ordering::Equal => self.expiry.clone().or_else(|| other.expiry.clone()),
                std::cmp::Ordering::Greater => self.expiry.clone(),
            },
            etag: self.etag.clone(),
        }
    }

    /// Converts to the manifest row.
    ///
    /// # Errors
    /// Fails if the name is too long for a key.
    pub fn to_entity(&self) -> Result<Entity> {
        let any = EntityType::ANY;
        let entity = self.entity.as_ref().unwrap_or(&any);
        let row = Key::new(MANIFEST_PARTITION, format!("{TYPE_ROWS}{}", part(&entity.name)?))?;
        let mut row = Entity::from(row)
            .with(FORMAT_PROPERTY, FORMAT as i32)
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
    /// Fails if the name is too long for a key.
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

    pub(super) fn read(row: &Entity) -> Result<Self> {
        let needed = |name: &'static str| text(row, name).ok_or_else(|| damaged(row, name, "Edm.String"));
        let version = integer(row, VERSION)?;
        let encrypted = serde_json::from_str(needed(ENCRYPTED)?);
        let expiry = text(row, EXPIRY).map(serde_json::from_str::<Option<Expiry>>).transpose();
        Ok(Self {
            entity: read_type(row),
            version,
            reader: integer(row, READER)?,
            layout: Layout::from_json(needed(LAYOUT)?),
            encrypted: encrypted.map_err(|_| damaged(row, ENCRYPTED, "a list of names"))?,
            expiry: expiry.map_err(|_| damaged(row, EXPIRY, "the expiry of a type"))?.flatten(),
            etag: row.etag().cloned(),
        })
    }
}
