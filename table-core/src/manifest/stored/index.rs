//! The manifest row of an index.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::entity_type::read_type;
use super::{DISCRIMINATOR, FORMAT_PROPERTY, INDEX_ROWS, TYPE};
use super::{damaged, guid, integer, key_part, text, to_json};
use crate::error::{Error, Result};
use crate::manifest::{EntityType, FORMAT, IndexDefinition, IndexState, Placement, Shape};
use crate::model::{ETag, Entity, INDEX_TABLE, Key, MANIFEST_PARTITION, TableName, split_entry_id};
use crate::profile::ServiceProfile;

const NAME: &str = "Name";
const DEFINITION: &str = "Definition";
const FINGERPRINT: &str = "Fingerprint";
const SHAPE: &str = "Shape";
const STATE: &str = "State";
const PROGRESS: &str = "Progress";
pub(super) const RENEWAL: &str = "Renewal";

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
    /// The table of the entries, if it is not the table of the entities. Such a definition is in force only with the
    /// [consent](super::Consent) of that table.
    pub table: Option<TableName>,
    /// How the entries are stored; `None` if this program does not know the shape.
    pub shape: Option<Shape>,
    /// The state of the index.
    pub state: IndexState,
    /// The position from which an interrupted build continues.
    pub progress: Option<String>,
    /// The id of the act by which a definition that was there came into force. The [consent](super::Consent) has the same id: a
    /// program that read the row before that act, and the consent after it, must not take the earlier state for a present one.
    pub renewal: Option<Uuid>,
    /// The ETag of the row.
    pub etag: Option<ETag>,
    /// Why this program does not know whether the definition is in force: its credential may not read the manifest of the
    /// [other table](Self::table). Writes of entities of the index are refused then.
    pub unconfirmed: Option<String>,
    /// The SHA-256 of the definition's text, in hexadecimal digits.
    sha256: String,
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
            renewal: None,
            etag: None,
            unconfirmed: None,
            sha256: sha256(&definition.to_json()),
            row: None,
        }
    }

    /// Returns the SHA-256 of the definition's text in 64 hexadecimal digits. A [consent](super::Consent) names the definition by it:
    /// the [fingerprint](IndexDefinition::fingerprint) is no protection against a text that was made to have the same one.
    pub fn definition_sha256(&self) -> &str {
        &self.sha256
    }

    /// The RowKey by which rows of a manifest are sorted.
    pub(super) fn row_order(&self) -> Option<&str> {
        self.row.as_ref().map(Key::row)
    }

    /// Whether entries are in another partition or table than their entity. `true` if this program cannot read the definition.
    pub fn leaves_partition(&self) -> bool {
        self.definition
            .as_ref()
            .is_none_or(|definition| definition.placement != Placement::SamePartition)
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
            format!(
                "{INDEX_ROWS}{}~{}",
                key_part(&entity.name)?,
                key_part(&self.id())?
            ),
        )
    }

    /// Converts to the manifest row.
    ///
    /// # Errors
    /// Fails if the names are too long for a key, or if the definition has a later format than this program can write.
    pub fn to_entity(&self) -> Result<Entity> {
        let entity = self.entity.as_ref().ok_or_else(|| self.later_format())?;
        let definition = self
            .definition
            .as_ref()
            .ok_or_else(|| self.later_format())?;
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
        if let Some(renewal) = self.renewal {
            row.properties_mut().set(RENEWAL, renewal);
        }
        Ok(row)
    }

    fn later_format(&self) -> Error {
        Error::manifest_mismatch(format!(
            "the definition of the index '{}' has a later format than this program can write",
            self.id()
        ))
    }

    /// The progress of an index that is being dropped. It distinguishes an interrupted drop from an interrupted build: a position
    /// of a build never starts with `~`.
    pub const DROPPING: &str = "~leaving";

    /// Whether a drop of the index has started and not finished. A build that starts later cancels the drop, except of a feed.
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
        Ok(Entity::from(self.key()?)
            .with(STATE, state.name())
            .with(PROGRESS, progress.unwrap_or_default()))
    }

    /// Returns the patch that makes the definition a new one, for a consent that comes after the definition.
    ///
    /// # Errors
    /// Returns the errors of [`key`](Self::key).
    pub fn renewal_patch(&self, renewal: Uuid) -> Result<Entity> {
        Ok(self
            .state_patch(IndexState::DeleteOnly, None)?
            .with(RENEWAL, renewal))
    }

    /// Reads the row of an index of `table`.
    ///
    /// # Errors
    /// Fails if the row is damaged, or does not say what its definition says. A client that may add rows to a table may add such a row.
    pub(super) fn read(profile: &ServiceProfile, table: &TableName, row: &Entity) -> Result<Self> {
        let needed =
            |name: &'static str| text(row, name).ok_or_else(|| damaged(row, name, "Edm.String"));
        let format = integer(row, FORMAT_PROPERTY)?;
        let text_of_definition = needed(DEFINITION)?;
        let state = IndexState::parse(needed(STATE)?)?;
        let mut read = if format > FORMAT {
            // Name, fingerprint, shape and state are read in every format. So this program can still refuse to write
            // entities of an index whose definition it cannot read.
            Self {
                entity: read_type(row),
                name: needed(NAME)?.to_owned(),
                fingerprint: needed(FINGERPRINT)?.to_owned(),
                definition: None,
                format,
                table: text(row, INDEX_TABLE).map(TableName::new).transpose()?,
                shape: serde_json::from_str(needed(SHAPE)?).ok(),
                state,
                progress: None,
                renewal: None,
                etag: None,
                unconfirmed: None,
                sha256: sha256(text_of_definition),
                row: None,
            }
        } else {
            let definition = IndexDefinition::from_json(text_of_definition);
            let unread = |error: Error| {
                Error::decode(
                    "manifest",
                    row.key(),
                    DEFINITION,
                    "an index definition",
                    error.to_string(),
                )
            };
            let read = Self::new(&definition.map_err(unread)?, state);
            read.check_row(row)?;
            read
        };
        if read.table.as_ref().is_some_and(TableName::is_server_table) {
            return Err(damaged(row, INDEX_TABLE, "a table of clients"));
        }
        read.table
            .take_if(|other| profile.is_same_table(other, table));
        read.progress = text(row, PROGRESS)
            .filter(|progress| !progress.is_empty())
            .map(str::to_owned);
        read.renewal = guid(row, RENEWAL);
        read.etag = row.etag().cloned();
        read.row = Some(row.key().clone());
        Ok(read)
    }

    /// Refuses a row that disagrees with its definition. Everything but state and progress follows from the definition, and
    /// programs rely on these properties without reading the definition.
    fn check_row(&self, row: &Entity) -> Result<()> {
        let derived = self.to_entity()?;
        if derived.key() != row.key() {
            return Err(damaged(row, "RowKey", "the key of its definition"));
        }
        let names = [
            FORMAT_PROPERTY,
            NAME,
            TYPE,
            DISCRIMINATOR,
            DEFINITION,
            FINGERPRINT,
            SHAPE,
            INDEX_TABLE,
        ];
        match names
            .into_iter()
            .find(|name| derived.get(name) != row.get(name))
        {
            Some(name) => Err(damaged(
                row,
                name,
                "the value that follows from its definition",
            )),
            None => Ok(()),
        }
    }
}

/// The SHA-256 of a text in hexadecimal digits.
fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl IndexDefinition {
    /// Returns the id, which is unique among all indexes of the table and their generations: the name and the first 8 digits
    /// of the [fingerprint](Self::fingerprint), for example `email.1f0c77aa`. Index entries contain the id.
    pub fn id(&self) -> String {
        id(&self.name, &self.fingerprint())
    }
}

/// Returns the name of an index from its id, or from the text in its rows.
pub fn index_name(id: &str) -> &str {
    match split_entry_id(id).0.rsplit_once('.') {
        // The name may have dots too; the digits after the last one have a fixed number.
        Some((name, digits)) if digits.len() == 8 => name,
        _ => id,
    }
}

fn id(name: &str, fingerprint: &str) -> String {
    format!("{name}.{}", fingerprint.get(..8).unwrap_or(fingerprint))
}
