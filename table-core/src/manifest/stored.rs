//! The rows of a manifest: what a table says of itself, in a system partition of its own.

use super::{Discriminator, EntityType, FORMAT, IndexDefinition, IndexState, Shape, StoredType, Text};
use crate::error::{Error, Result};
use crate::model::{
    ETag, Entity, INDEX_TABLE, Key, KeyBuilder, MANIFEST_PARTITION, PartFormat, TableName, ValueRef,
};

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

/// What the manifest of a table holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The indexes, in the order of their rows: by type, name and definition.
    pub indexes: Vec<StoredIndex>,
    /// The types that programs have opened the table for.
    pub types: Vec<StoredType>,
    /// Rows of other kinds.
    pub others: Vec<Entity>,
}

/// One generation of an index, as the manifest has it. What it is never changes; its state and progress do.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredIndex {
    /// Which entities it is of, without the templates of their keys; `None` where this program cannot tell, so that any could be.
    pub entity: Option<EntityType>,
    /// The name.
    pub name: String,
    /// What tells one definition from another; see [`IndexDefinition::fingerprint`].
    pub fingerprint: String,
    /// The definition; `None` if it is of a newer format than this program reads.
    pub definition: Option<IndexDefinition>,
    /// The format of the definition.
    pub format: i32,
    /// The table of its entries, if that is not the entities' own.
    pub table: Option<TableName>,
    /// How its entries are kept; `None` if this program does not know the shape.
    pub shape: Option<Shape>,
    /// Where it is in its life.
    pub state: IndexState,
    /// Where a build goes on.
    pub progress: Option<String>,
    /// The version of the row.
    pub etag: Option<ETag>,
}

impl Manifest {
    pub(crate) fn from_rows(rows: Vec<Entity>) -> Result<Self> {
        let mut manifest = Self::default();
        for row in rows {
            match row.key().row() {
                name if name.starts_with(INDEX_ROWS) => manifest.indexes.push(StoredIndex::read(&row)?),
                name if name.starts_with(TYPE_ROWS) => manifest.types.push(StoredType::read(&row)?),
                _ => manifest.others.push(row),
            }
        }
        Ok(manifest)
    }

    /// A row of another kind.
    pub fn other(&self, row: &str) -> Option<&Entity> {
        self.others.iter().find(|other| other.key().row() == row)
    }
}

impl StoredIndex {
    /// A definition in a state, before it is stored.
    pub fn new(definition: &IndexDefinition, state: IndexState) -> Self {
        let table = match &definition.placement {
            super::Placement::OtherTable(table) => Some(table.clone()),
            super::Placement::SamePartition | super::Placement::OtherPartition => None,
        };
        Self {
            entity: Some(told_by(&definition.entity)),
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

    /// The id: see [`IndexDefinition::id`].
    pub fn id(&self) -> String {
        id(&self.name, &self.fingerprint)
    }

    /// The key of its row.
    ///
    /// # Errors
    /// The names are too long for a key.
    pub fn key(&self) -> Result<Key> {
        let of = self.entity.as_ref().map_or("", |entity| &*entity.name);
        Key::new(MANIFEST_PARTITION, format!("{INDEX_ROWS}{}~{}", part(of)?, part(&self.id())?))
    }

    /// The row.
    ///
    /// # Errors
    /// The names are too long for a key; the definition is of a newer format, and so is what the row is to say of it.
    pub fn to_entity(&self) -> Result<Entity> {
        let newer = || Error::invalid_request(format!("the index '{}' is of a newer format", self.id()));
        let entity = self.entity.as_ref().ok_or_else(newer)?;
        let definition = self.definition.as_ref().ok_or_else(newer)?;
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

    /// The progress of an index whose removal was begun: by it a removal that was interrupted is told from a build.
    pub const LEAVING: &str = "~leaving";

    /// Whether a removal of the index was begun and has not ended. A build that is begun after it takes it back.
    pub fn is_leaving(&self) -> bool {
        self.progress.as_deref() == Some(Self::LEAVING)
    }

    /// What changes the state and the progress of the row and leaves the rest of it as it is, also what a newer program has
    /// written. An empty progress stands for none, since a merge removes no property.
    ///
    /// # Errors
    /// The names are too long for a key.
    pub fn state_patch(&self, state: IndexState, progress: Option<&str>) -> Result<Entity> {
        Ok(Entity::from(self.key()?).with(STATE, state.name()).with(PROGRESS, progress.unwrap_or_default()))
    }

    fn read(row: &Entity) -> Result<Self> {
        let needed = |name: &'static str| text(row, name).ok_or_else(|| damaged(row, name, "Edm.String"));
        let format = whole(row, FORMAT_PROPERTY)?;
        let is_known = format <= FORMAT as i32;
        let read = |text: &str| {
            IndexDefinition::from_json(text).map_err(|_| damaged(row, DEFINITION, "a definition"))
        };
        Ok(Self {
            entity: read_type(row),
            name: needed(NAME)?.to_owned(),
            fingerprint: needed(FINGERPRINT)?.to_owned(),
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
    /// What tells this index from all others of its table, other generations of it included: its name and the first 8 digits of
    /// its [fingerprint](Self::fingerprint), as in `email.1f0c77aa`. Entries hold it.
    pub fn id(&self) -> String {
        id(&self.name, &self.fingerprint())
    }
}

impl EntityType {
    /// Whether no row can be of both types.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        match (&self.discriminator, &other.discriminator) {
            (Discriminator::Property(a), Discriminator::Property(b)) => a == b && self.name != other.name,
            (Discriminator::RowPrefix(a), Discriminator::RowPrefix(b))
            | (Discriminator::PartitionPrefix(a), Discriminator::PartitionPrefix(b)) => {
                !a.starts_with(&**b) && !b.starts_with(&**a)
            }
            _ => false,
        }
    }

    /// Whether rows of both types are told in the same way.
    pub fn is_told_as(&self, other: &Self) -> bool {
        self.name == other.name && self.discriminator == other.discriminator
    }
}

/// The name of the index that an id is of.
pub fn index_name(id: &str) -> &str {
    match id.rsplit_once('.') {
        Some((name, digits)) if digits.len() == 8 => name,
        _ => id,
    }
}

fn id(name: &str, fingerprint: &str) -> String {
    format!("{name}.{}", fingerprint.get(..8).unwrap_or(fingerprint))
}

/// The type without the templates of its keys: what tells its rows.
pub(crate) fn told_by(entity: &EntityType) -> EntityType {
    EntityType { name: entity.name.clone(), discriminator: entity.discriminator.clone(), ..EntityType::ANY }
}

/// Every format has these two properties; a discriminator of a newer format may not be known here.
pub(super) fn read_type(row: &Entity) -> Option<EntityType> {
    let discriminator = serde_json::from_str(text(row, DISCRIMINATOR)?).ok()?;
    let name = Text::from(text(row, TYPE)?.to_owned());
    Some(EntityType { name, discriminator, ..EntityType::ANY })
}

pub(super) fn part(text: &str) -> Result<String> {
    Ok(KeyBuilder::new("RowKey", "manifest").part("name", &text.to_owned(), PartFormat::PLAIN)?.finish())
}

pub(super) fn to_json(value: &impl serde::Serialize) -> String {
    // Nothing in it can fail to be written: see `IndexDefinition::to_json`.
    serde_json::to_string(value).unwrap_or_default()
}

pub(super) fn text<'a>(row: &'a Entity, name: &str) -> Option<&'a str> {
    match row.get(name) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    }
}

pub(super) fn whole(row: &Entity, name: &'static str) -> Result<i32> {
    match row.get(name) {
        Some(ValueRef::Int32(number)) => Ok(number),
        _ => Err(damaged(row, name, "Edm.Int32")),
    }
}

pub(super) fn damaged(row: &Entity, name: &str, wanted: &str) -> Error {
    Error::decode("manifest", row.key(), name, wanted, "something else")
}
