//! The manifest of a table and its rows in the system partition: one row per generation of an index, one per entity type, and rows
//! of other kinds.

mod entity_type;
mod index;

pub use entity_type::StoredType;
pub use index::StoredIndex;
#[doc(hidden)]
pub use index::index_name;

use crate::error::{Error, Result};
use crate::model::{Entity, KeyBuilder, PartFormat, ValueRef};

const FORMAT_PROPERTY: &str = "Format";
const TYPE: &str = "EntityType";
const DISCRIMINATOR: &str = "Discriminator";
const INDEX_ROWS: &str = "index~";
const TYPE_ROWS: &str = "type~";

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

impl Manifest {
    pub(crate) fn from_rows(rows: Vec<Entity>) -> Result<Self> {
        let mut manifest = Self::default();
        for row in rows {
            match row.key().row() {
                name if name.starts_with(INDEX_ROWS) => manifest.indexes.push(StoredIndex::read(&row)?),
                name if name.starts_with(TYPE_ROWS) => manifest.types.push(StoredType::read(&row)?),
                // A program must not fail at rows of a kind that a later version of the library has added.
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

/// Returns the text as a part of a RowKey: escaped.
fn key_part(text: &str) -> Result<String> {
    Ok(KeyBuilder::new("RowKey", "manifest").part("name", &text.to_owned(), PartFormat::PLAIN)?.finish())
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

fn integer(row: &Entity, name: &'static str) -> Result<i32> {
    match row.get(name) {
        Some(ValueRef::Int32(number)) => Ok(number),
        _ => Err(damaged(row, name, "Edm.Int32")),
    }
}

fn damaged(row: &Entity, name: &str, expected: &str) -> Error {
    Error::decode("manifest", row.key(), name, expected, "another value")
}
