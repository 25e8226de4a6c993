//! The manifest of a table and its rows in the system partition: one row per index, one per entity type.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::{
    Discriminator, EntityType, Expiry, FORMAT, IndexDefinition, IndexState, Layout, Placement, Shape, Text,
};
use crate::error::{Error, Result};
use crate::model::{
    ETag, Entity, INDEX_TABLE, IfMatch, Key, KeyBuilder, MANIFEST_PARTITION, PartFormat, TableName, ValueRef,
};
use crate::operation::Operation;

pub(super) const FORMAT_PROPERTY: &str = "Format";
const NAME: &str = "Name";
pub(super) const TYPE: &str = "EntityType";
pub(super) const DISCRIMINATOR: &str = "Discriminator";
const DEFINITION: &str = "Definition";
const FINGERPRINT: &str = "Fingerprint";
const SHAPE: &str = "Shape";
const STATE: &str = "State";
const PROGRESS: &str = "Progress";
const INDEX_ROWS: &str = "index~";
pub(super) const TYPE_ROWS: &str = "type~";

/// The manifest of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The indexes, in the order of their rows: by type, name and definition.
    pub indexes: Vec<StoredIndex>,
    /// The entity types for which programs have opened the table.
    pub types: Vec<StoredType>,
    /// Rows of other kinds.
    pub others: Vec<Entity>,
}

/// One generation of an index in the manifest. Only its state and progress change.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredIndex {
    /// The type of the entities, without key templates. `None` if this program cannot read it: every entity may then
    /// have entries.
    pub entity: Option<EntityType>,
    /// The name of the index.
    pub name: String,
    /// Identifies the definition; see [`IndexDefinition::fingerprint`].
    pub fingerprint: String,
    /// The definition; `None` if it has a later format than this program can read.
    pub definition: Option<IndexDefinition>,
    /// The format of the definition.
    pub format: i32,
    /// The table of the entries, if it is not the table of the entities.
    pub table: Option<TableName>,
    /// How the entries are stored; `None` if this program does not know the shape.
    pub shape: Option<Shape>,
    /// The state of the index.
    pub state: IndexState,
    /// The position from which an interrupted build continues.
    pub progress: Option<String>,
    /// The ETag of the row.
    pub etag: Option<ETag>,
}

impl Manifest {
    pub(crate) fn from_rows(rows: Vec<Entity>) -> Result<Self> {
        let mut manifest = Self::default();
        for row in rows {
            match row.key().row() {
                // A program must not fail at rows of a kind that a later version of the library has added.
                name if name.starts_with(INDEX_ROWS) => manifest.indexes.push(StoredIndex::read(&row)?),
                name if name.starts_with(TYPE_ROWS) => manifest.types.push(StoredType::read(&row)?),
                _ => manifest.others.push(row),
            }
        }
        Ok(manifest)
    }

    /// Returns a row of another kind by its RowKey.
    pub fn other(&self, row: &str) -> Option<&Entity> {
        self.others.iter().find(|other| other.key().row() == row)
    }
}

impl StoredIndex {
    /// Creates the manifest entry of a definition in a state.
    pub fn new(definition: &IndexDefinition, state: IndexState) -> Self {
        let table = match &definition.placement {
            Placement::OtherTable(table) => Some(table.clone()),
            Placement::SamePartition | Placement::OtherPartition => None,
        };
        Self {
            entity: Some(definition.entity.without_keys()),
            name: definition.name.clone().into_owned(),
            fingerprint: definition.fingerprint(),
            definition: Some(definition.clone()),
            format: FORMAT as i32,
            table,
            shape: Some(definition.shape.clone()),
            state,
            progress: None,
            etag: None,
        }
    }

    /// Returns the id: see [`IndexDefinition::id`].
    pub fn id(&self) -> String {
        id(&self.name, &self.fingerprint)
    }

    /// Returns the key of the manifest row.
    ///
    /// # Errors
    /// Fails if the names are too long for a key.
    pub fn key(&self) -> Result<Key> {
        let type_name = self.entity.as_ref().map_or("", |entity| &*entity.name);
        // Both parts are escaped, so `~` separates them without doubt. The key has the fingerprint: programs that
        // declare the same index at once insert one row, and one of them is refused; another definition of the same
        // name has a row of its own.
        Key::new(
            MANIFEST_PARTITION,
            format!("{INDEX_ROWS}{}~{}", key_part(type_name)?, key_part(&self.id())?),
        )
    }

    /// Converts to the manifest row.
    ///
    /// # Errors
    /// Fails if the names are too long for a key, or if the definition has a later format than this program can write.
    pub fn to_entity(&self) -> Result<Entity> {
        let later_format = || {
            Error::invalid_request(format!(
                "the definition of the index '{}' has a later format than this program can write",
                self.id()
            ))
        };
        let entity = self.entity.as_ref().ok_or_else(later_format)?;
        let definition = self.definition.as_ref().ok_or_else(later_format)?;
        let mut row = Entity::from(self.key()?)
            .with(FORMAT_PROPERTY, self.format)
            .with(NAME, self.name.as_str())
            .with(TYPE, &*entity.name)
            .with(DISCRIMINATOR, to_json(&entity.discriminator))
            .with(DEFINITION, definition.to_json())
            .with(FINGERPRINT, self.fingerprint.as_str())
            .with(SHAPE, to_json(&definition.shape))
            .with(STATE, self.state.name());
        if let Some(table) = &self.table {
            row.properties_mut().set(INDEX_TABLE, table.as_str());
        }
        if let Some(progress) = &self.progress {
            row.properties_mut().set(PROGRESS, progress.as_str());
        }
        Ok(row)
    }

    /// The progress of an index that is being dropped. It distinguishes an interrupted drop from an interrupted build: a position
    /// of a build never starts with `~`.
    pub const DROPPING: &str = "~leaving";

    /// Whether a drop of the index has started and not finished. A build that starts later cancels the drop.
    pub fn is_dropping(&self) -> bool {
        self.progress.as_deref() == Some(Self::DROPPING)
    }

    /// Returns the patch that changes state and progress of the row. Other properties do not change, even if a program of
    /// a later version has written them. An empty progress means no progress, because a merge cannot remove a
    /// property.
    ///
    /// # Errors
    /// Fails if the names are too long for a key.
    pub fn state_patch(&self, state: IndexState, progress: Option<&str>) -> Result<Entity> {
        // A patch and not the whole row: programs of other versions change states at the same time, under the ETag of
        // the row, and may know properties that this program does not.
        Ok(Entity::from(self.key()?).with(STATE, state.name()).with(PROGRESS, progress.unwrap_or_default()))
    }

    fn read(row: &Entity) -> Result<Self> {
        let needed = |name: &'static str| text(row, name).ok_or_else(|| damaged(row, name, "Edm.String"));
        let format = integer(row, FORMAT_PROPERTY)?;
        let is_known = format <= FORMAT as i32;
        let read = |text: &str| {
            IndexDefinition::from_json(text).map_err(|_| damaged(row, DEFINITION, "an index definition"))
        };
        Ok(Self {
            entity: read_type(row),
            name: needed(NAME)?.to_owned(),
            fingerprint: needed(FINGERPRINT)?.to_owned(),
            // Name, fingerprint, shape and state are read in every format. So this program can still refuse to write
            // entities of an index whose definition it cannot read.
            definition: if is_known { Some(read(needed(DEFINITION)?)?) } else { None },
            format,
            table: text(row, INDEX_TABLE).map(TableName::new).transpose()?,
            shape: serde_json::from_str(needed(SHAPE)?).ok(),
            state: IndexState::parse(needed(STATE)?)?,
            progress: text(row, PROGRESS).filter(|progress| !progress.is_empty()).map(str::to_owned),
            etag: row.etag().cloned(),
        })
    }
}

impl IndexDefinition {
    /// Returns the id, which is unique among all indexes of the table and their generations: the name and the first 8 digits
    /// of the [fingerprint](Self::fingerprint), for example `email.1f0c77aa`. Index entries contain the id.
    pub fn id(&self) -> String {
        id(&self.name, &self.fingerprint())
    }
}

impl EntityType {
    /// Returns the type without key templates: type name and discriminator.
    pub(crate) fn without_keys(&self) -> Self {
        Self { name: self.name.clone(), discriminator: self.discriminator.clone(), ..Self::ANY }
    }

    /// Whether the discriminators exclude each other, so that no row has both types.
    pub fn is_disjoint_from(&self, other: &Self) -> bool {
        match (&self.discriminator, &other.discriminator) {
            (Discriminator::Property(a), Discriminator::Property(b)) => a == b && self.name != other.name,
            (Discriminator::RowPrefix(a), Discriminator::RowPrefix(b))
            | (Discriminator::PartitionPrefix(a), Discriminator::PartitionPrefix(b)) => {
                !a.starts_with(&**b) && !b.starts_with(&**a)
            }
            _ => false,
        }
    }

    /// Whether type name and discriminator are equal, so that both types have the same rows.
    pub fn has_same_rows(&self, other: &Self) -> bool {
        self.name == other.name && self.discriminator == other.discriminator
    }
}

/// Returns the name of an index from its id.
pub fn index_name(id: &str) -> &str {
    match id.rsplit_once('.') {
        // The name may have dots too; the digits after the last one have a fixed number.
        Some((name, digits)) if digits.len() == 8 => name,
        _ => id,
    }
}

fn id(name: &str, fingerprint: &str) -> String {
    format!("{name}.{}", fingerprint.get(..8).unwrap_or(fingerprint))
}

/// Reads the entity type of a row. Every format has its two properties, but this program may not know a discriminator of a
/// later format.
pub(super) fn read_type(row: &Entity) -> Option<EntityType> {
    let discriminator = serde_json::from_str(text(row, DISCRIMINATOR)?).ok()?;
    let name = Text::from(text(row, TYPE)?.to_owned());
    Some(EntityType { name, discriminator, ..EntityType::ANY })
}

/// Returns the text as a part of a RowKey: escaped.
pub(super) fn key_part(text: &str) -> Result<String> {
    Ok(KeyBuilder::new("RowKey", "manifest").part("name", &text.to_owned(), PartFormat::PLAIN)?.finish())
}

pub(super) fn to_json(value: &impl serde::Serialize) -> String {
    // Serialization cannot fail: see `IndexDefinition::to_json`.
    serde_json::to_string(value).unwrap_or_default()
}

pub(super) fn text<'a>(row: &'a Entity, name: &str) -> Option<&'a str> {
    match row.get(name) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    }
}

pub(super) fn integer(row: &Entity, name: &'static str) -> Result<i32> {
    match row.get(name) {
        Some(ValueRef::Int32(number)) => Ok(number),
        _ => Err(damaged(row, name, "Edm.Int32")),
    }
}

pub(super) fn damaged(row: &Entity, name: &str, expected: &str) -> Error {
    Error::decode("manifest", row.key(), name, expected, "another value")
}

// The manifest entry of an entity type.

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
        let (reader, expiry) = match self.version.cmp(&other.version) {
            Ordering::Less => (other.reader, &other.expiry),
            // If two programs of one version disagree, the later reader is safe for both.
            Ordering::Equal => (
                self.reader.max(other.reader),
                if self.expiry.is_some() { &self.expiry } else { &other.expiry },
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
    /// Fails if the name is too long for a key.
    pub fn to_entity(&self) -> Result<Entity> {
        let any = EntityType::ANY;
        let entity = self.entity.as_ref().unwrap_or(&any);
        let row = Key::new(MANIFEST_PARTITION, format!("{TYPE_ROWS}{}", key_part(&entity.name)?))?;
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
