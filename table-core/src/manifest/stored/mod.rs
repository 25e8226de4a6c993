//! The manifest of a table and its rows in the system partition: one row per generation of an index, one per entity type, and rows
//! of other kinds.

mod consent;
mod entity_type;
mod index;

pub use consent::Consent;
pub(crate) use consent::consents_to;
pub use entity_type::StoredType;
pub use index::StoredIndex;
#[doc(hidden)]
pub use index::index_name;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::manifest::EntityType;
use crate::model::{ETag, Entity, Key, KeyBuilder, PartFormat, TableName, ValueRef};
use crate::profile::ServiceProfile;

const FORMAT_PROPERTY: &str = "Format";
const TYPE: &str = "EntityType";
const DISCRIMINATOR: &str = "Discriminator";
const INDEX_ROWS: &str = "index~";
const TYPE_ROWS: &str = "type~";

/// The manifest of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// The indexes whose definitions are in force, in the order of their rows: by type, name and definition. A definition whose
    /// entries are in another table is in force with the [consent](Consent) of that table.
    pub indexes: Vec<StoredIndex>,
    /// The definitions whose entries would be in another table that has not consented. They count as absent.
    pub not_in_force: Vec<StoredIndex>,
    /// The rows of indexes and types that are damaged, or disagree with what they define. They count as absent.
    pub refused: Vec<RefusedRow>,
    /// The entity types for which programs have opened the table.
    pub types: Vec<StoredType>,
    /// Rows of other kinds.
    pub others: Vec<Entity>,
}

/// A row of a manifest that says nothing, because it is damaged or contradicts itself. It stops nothing else: the library has not
/// written it, and a client that may add rows to the table can add such a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRow {
    /// The key of the row.
    pub key: Key,
    /// The reason.
    pub reason: String,
}

impl RefusedRow {
    /// Names a row and the reason.
    pub fn new(key: &Key, reason: &Error) -> Self {
        Self {
            key: key.clone(),
            reason: reason.to_string(),
        }
    }
}

impl Manifest {
    /// Reads the rows of the manifest of `table`. Definitions that leave the table are [not in force](Self::not_in_force) until
    /// the consents are read: see [`load`](Self::load).
    pub fn from_rows(
        profile: &ServiceProfile,
        table: &TableName,
        rows: impl IntoIterator<Item = Entity>,
    ) -> Self {
        let mut manifest = Self::default();
        for row in rows {
            let name = row.key().row();
            let read = if name.starts_with(INDEX_ROWS) {
                StoredIndex::read(profile, table, &row).map(|index| {
                    let is_inside = index.table.is_none();
                    if is_inside {
                        &mut manifest.indexes
                    } else {
                        &mut manifest.not_in_force
                    }
                    .push(index);
                })
            } else if name.starts_with(TYPE_ROWS) {
                StoredType::read(&row).map(|stored| manifest.types.push(stored))
            } else {
                // A program must not fail at rows of a kind that a later version of the library has added.
                manifest.others.push(row);
                continue;
            };
            if let Err(reason) = read {
                manifest.refused.push(RefusedRow::new(row.key(), &reason));
            }
        }
        manifest
    }

    /// Moves the definitions for which `is_in_force` returns `true` to the [indexes](Self::indexes).
    pub(crate) fn admit(&mut self, mut is_in_force: impl FnMut(&mut StoredIndex) -> bool) {
        let admitted: Vec<_> = self
            .not_in_force
            .extract_if(.., |index| is_in_force(index))
            .collect();
        if admitted.is_empty() {
            return;
        }
        self.indexes.extend(admitted);
        self.indexes
            .sort_by(|a, b| a.row_order().cmp(&b.row_order()));
    }

    /// Returns a row of another kind by its RowKey.
    pub fn other(&self, row: &str) -> Option<&Entity> {
        self.others.iter().find(|other| other.key().row() == row)
    }

    /// Returns all definitions, also those that are not in force.
    pub fn all_definitions(&self) -> impl Iterator<Item = &StoredIndex> {
        self.indexes.iter().chain(&self.not_in_force)
    }

    /// Returns the pairing id of the table, if it has one.
    pub fn pairing(&self) -> Option<Uuid> {
        self.other(consent::PAIRING_ROW)
            .and_then(consent::pairing_of)
    }

    /// Returns the ETag of the pairing row, if there is one.
    #[doc(hidden)]
    pub fn pairing_etag(&self) -> Option<ETag> {
        self.other(consent::PAIRING_ROW)
            .and_then(|row| row.etag().cloned())
    }

    /// Creates the row of a pairing id.
    ///
    /// # Errors
    /// Never fails: the key is short.
    pub fn pairing_row(id: Uuid) -> Result<Entity> {
        consent::pairing_row(id)
    }

    /// Refuses to open the table for a type whose row is damaged: the layout of its entities is not known, and the row cannot be
    /// added again.
    ///
    /// # Errors
    /// Fails if the type's row is among the [refused](Self::refused) ones.
    pub fn check_type_row(&self, table: &TableName, entity: &EntityType) -> Result<()> {
        let key = entity_type::row_key(entity)?;
        let Some(row) = self.refused.iter().find(|row| row.key == key) else {
            return Ok(());
        };
        Err(Error::wrong_state(format!(
            "the manifest of the table '{table}' has a damaged row of the type {}: {}; delete the row {key} after a look at it: a program with \
             the type then writes it again",
            entity.name, row.reason
        )))
    }
}

/// Returns the text as a part of a RowKey: escaped.
fn key_part(text: &str) -> Result<String> {
    Ok(KeyBuilder::new("RowKey", "manifest")
        .part("name", &text.to_owned(), PartFormat::PLAIN)?
        .finish())
}

fn to_json(value: &impl serde::Serialize) -> String {
    // Serialization cannot fail: see `IndexDefinition::to_json`.
    serde_json::to_string(value).unwrap_or_default()
}

fn text<'a>(row: &'a Entity, name: &str) -> Option<&'a str> {
    match row.get(name) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    }
}

fn guid(row: &Entity, name: &str) -> Option<Uuid> {
    match row.get(name) {
        Some(ValueRef::Guid(id)) => Some(id),
        _ => None,
    }
}

fn integer(row: &Entity, name: &'static str) -> Result<i32> {
    match row.get(name) {
        Some(ValueRef::Int32(number)) => Ok(number),
        _ => Err(damaged(row, name, "Edm.Int32")),
    }
}

fn damaged(row: &Entity, name: &str, expected: &str) -> Error {
    Error::decode("manifest", row.key(), name, expected, "another value")
}
