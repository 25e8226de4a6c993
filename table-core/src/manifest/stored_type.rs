//! What a manifest says of a type of entities.

use std::collections::BTreeSet;

use super::stored::{
    DISCRIMINATOR, FORMAT_PROPERTY, TYPE, TYPE_ROWS, damaged, part, read_type, text, to_json, whole,
};
use super::{EntityType, FORMAT, Layout};
use crate::error::Result;
use crate::model::{ETag, Entity, IfMatch, Key, MANIFEST_PARTITION};
use crate::operation::Operation;

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
