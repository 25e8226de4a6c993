//! The consent of a table to a definition of another table, and the pairing id of the other table.

use uuid::Uuid;

use super::index::RENEWAL;
use super::{FORMAT_PROPERTY, StoredIndex, guid, text};
use crate::error::Result;
use crate::manifest::FORMAT;
use crate::model::{Entity, Key, MANIFEST_PARTITION, TableName, key_order};
use crate::profile::ServiceProfile;
use crate::query::Filter;

/// The RowKey of the pairing row.
pub(crate) const PAIRING_ROW: &str = "pairing";
const ID: &str = "Id";
const CONSENT_ROWS: &str = "consent~";
const SOURCE: &str = "Source";
const PAIRING: &str = "Pairing";

/// The consent of a table to one index definition of another table, the *source*, whose entries or copies go into the first one.
///
/// A manifest is data: a client that may add rows to a table may add a definition that names any other table. So a definition whose
/// entries leave its table is in force only if the other table has this row. The row names the source, the pairing id of the
/// source (a random id that is gone with a dropped table), and the SHA-256 of the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// The table of the entities.
    pub source: TableName,
    /// The pairing id of the source.
    pub pairing: Uuid,
    /// The SHA-256 of the definition: [`StoredIndex::definition_sha256`].
    pub definition: String,
    /// The id that the index row has since the consent, if the definition was there before: [`StoredIndex::renewal`].
    pub renewal: Option<Uuid>,
}

impl Consent {
    /// Returns the key of the row.
    ///
    /// # Errors
    /// Never fails for the values of a stored definition.
    pub fn key(&self, profile: &ServiceProfile) -> Result<Key> {
        Self::key_of(&self.source, &self.definition, profile)
    }

    /// Returns the key of the consent to a definition of a table. `definition` is its SHA-256, as 64 hexadecimal digits.
    ///
    /// # Errors
    /// Never fails for the values of a stored definition.
    pub fn key_of(source: &TableName, definition: &str, profile: &ServiceProfile) -> Result<Key> {
        Key::new(
            MANIFEST_PARTITION,
            format!("{}{definition}", rows_of(profile, source)),
        )
    }

    /// Converts to the row of the other table's manifest.
    ///
    /// # Errors
    /// Returns the errors of [`key`](Self::key).
    pub fn to_entity(&self, profile: &ServiceProfile) -> Result<Entity> {
        let mut row = Entity::from(self.key(profile)?)
            .with(FORMAT_PROPERTY, FORMAT)
            .with(SOURCE, self.source.as_str())
            .with(PAIRING, self.pairing);
        if let Some(renewal) = self.renewal {
            row.properties_mut().set(RENEWAL, renewal);
        }
        Ok(row)
    }

    /// Reads a row of a manifest; `None` if it is another row, or damaged.
    pub fn read(row: &Entity) -> Option<Self> {
        let (_, definition) = row
            .key()
            .row()
            .strip_prefix(CONSENT_ROWS)?
            .split_once('~')?;
        let source = TableName::new(text(row, SOURCE)?).ok()?;
        let (pairing, renewal) = (guid(row, PAIRING)?, guid(row, RENEWAL));
        Some(Self {
            source,
            pairing,
            definition: definition.to_owned(),
            renewal,
        })
    }

    /// Whether the consent is to this definition of the source with this pairing id.
    pub(crate) fn is_to(
        &self,
        profile: &ServiceProfile,
        source: &TableName,
        pairing: Uuid,
        index: &StoredIndex,
    ) -> bool {
        profile.is_same_table(&self.source, source)
            && self.pairing == pairing
            && self.definition == index.definition_sha256()
            && self.renewal == index.renewal
    }
}

/// The filter for the rows with the consents to definitions of a source.
pub(crate) fn consents_to(profile: &ServiceProfile, source: &TableName) -> Filter {
    let start = rows_of(profile, source);
    // The prefix has an end, because it does not consist of the last character.
    let end = key_order::key_prefix_end(&start).unwrap_or_default();
    let partition = Filter::eq(Filter::PARTITION_KEY, MANIFEST_PARTITION);
    partition
        .and(Filter::ge(Filter::ROW_KEY, start))
        .and(Filter::lt(Filter::ROW_KEY, end))
}

/// The start of the RowKeys of the consents to definitions of a source.
fn rows_of(profile: &ServiceProfile, source: &TableName) -> String {
    format!("{CONSENT_ROWS}{}~", profile.table_identity(source))
}

/// The pairing row with this id.
pub(super) fn pairing_row(id: Uuid) -> Result<Entity> {
    Ok(Entity::new(MANIFEST_PARTITION, PAIRING_ROW)?.with(ID, id))
}

/// The id in a pairing row.
pub(super) fn pairing_of(row: &Entity) -> Option<Uuid> {
    guid(row, ID)
}
