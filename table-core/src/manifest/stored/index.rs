//! The manifest row of an index.

use super::entity_type::read_type;
use super::{DISCRIMINATOR, FORMAT_PROPERTY, INDEX_ROWS, TYPE};
use super::{damaged, integer, key_part, text, to_json};
use crate::error::{Error, Result};
use crate::manifest::{EntityType, FORMAT, IndexDefinition, IndexState, Placement, Shape};
use crate::model::{ETag, Entity, INDEX_TABLE, Key, MANIFEST_PARTITION, TableName};

const NAME: &str = "Name";
const DEFINITION: &str = "Definition";
const FINGERPRINT: &str = "Fingerprint";
const SHAPE: &str = "Shape";
const STATE: &str = "State";
const PROGRESS: &str = "Progress";

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
    /// The key of the row that was read. A program that cannot read the type cannot make the key.
    row: Option<Key>,
}

impl StoredIndex {
    /// Creates the manifest row of a definition in a state.
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
            format: FORMAT,
            table,
            shape: Some(definition.shape.clone()),
            state,
            progress: None,
            etag: None,
            row: None,
        }
    }

    /// Returns the id: see [`IndexDefinition::id`].
    pub fn id(&self) -> String {
        id(&self.name, &self.fingerprint)
    }

    /// Returns the key of the manifest row.
    ///
    /// # Errors
    /// Fails if the names are too long for a key, or if this program cannot read the type and the row was not read.
    pub fn key(&self) -> Result<Key> {
        if let Some(row) = &self.row {
            return Ok(row.clone());
        }
        let entity = self.entity.as_ref().ok_or_else(|| self.later_format())?;
        // Both parts are escaped, so `~` separates them without doubt. The key has the fingerprint: programs that
        // declare the same index at once insert one row, and one of them is refused; another definition of the same
        // name has a row of its own.
        Key::new(
            MANIFEST_PARTITION,
            format!("{INDEX_ROWS}{}~{}", key_part(&entity.name)?, key_part(&self.id())?),
        )
    }

    /// Converts to the manifest row.
    ///
    /// # Errors
    /// Fails if the names are too long for a key, or if the definition has a later format than this program can write.
    pub fn to_entity(&self) -> Result<Entity> {
        let entity = self.entity.as_ref().ok_or_else(|| self.later_format())?;
        let definition = self.definition.as_ref().ok_or_else(|| self.later_format())?;
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

    fn later_format(&self) -> Error {
        Error::invalid_request(format!(
            "the definition of the index '{}' has a later format than this program can write",
            self.id()
        ))
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
    /// Returns the errors of [`key`](Self::key).
    pub fn state_patch(&self, state: IndexState, progress: Option<&str>) -> Result<Entity> {
        // A patch and not the whole row: programs of other versions change states at the same time, under the ETag of
        // the row, and may know properties that this program does not.
        Ok(Entity::from(self.key()?).with(STATE, state.name()).with(PROGRESS, progress.unwrap_or_default()))
    }

    pub(super) fn read(row: &Entity) -> Result<Self> {
        let needed = |name: &'static str| text(row, name).ok_or_else(|| damaged(row, name, "Edm.String"));
        let format = integer(row, FORMAT_PROPERTY)?;
        let is_known = format <= FORMAT;
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
            row: Some(row.key().clone()),
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
