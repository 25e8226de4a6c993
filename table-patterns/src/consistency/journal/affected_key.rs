//! Remote keys that a write affects, as journal rows and tickets list them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use table_core::model::{Key, TableName};
use table_core::store::{Error, Result};

use crate::entry::shared::Merge;
use crate::entry::{Entry, Location, Shape};

/// A remote key that a write may affect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AffectedKey {
    // Names of one letter, and no property for `false` or `None`: a ticket lists these keys in one queue
    // message (`MESSAGE_BYTES`), and a journal row in the properties of one entity.
    #[serde(rename = "t")]
    table: String,
    #[serde(rename = "p")]
    partition: String,
    #[serde(rename = "r")]
    row: String,
    #[serde(rename = "u", default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unique: bool,
    /// Whether only the new state has the key: then there is no row, or a row of another entity.
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) added: bool,
    /// The index and the shape of a row that holds the entries of several entities.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(super) shared: Option<(String, Shape)>,
}

impl AffectedKey {
    pub(super) fn of(entry: &Entry, added: bool) -> Self {
        let Location { table, key } = &entry.location;
        let (partition, row) = (key.partition().to_owned(), key.row().to_owned());
        Self { table: table.to_string(), partition, row, unique: entry.unique, added, shared: None }
    }

    pub(super) fn shared(merge: &Merge) -> Self {
        let Location { table, key } = &merge.at;
        let (partition, row) = (key.partition().to_owned(), key.row().to_owned());
        let shared = Some((merge.index.clone(), merge.shape.clone()));
        Self { table: table.to_string(), partition, row, unique: false, added: false, shared }
    }

    /// Whether both are the same row: the whole row, or the part of the same index.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        let index = |affected: &Self| affected.shared.as_ref().map(|(index, _)| index.clone());
        (&self.table, &self.partition, &self.row) == (&other.table, &other.partition, &other.row)
            && index(self) == index(other)
    }

    pub(super) fn location(&self) -> Result<Location> {
        let table = TableName::new(self.table.as_str())?;
        Ok(Location { table, key: Key::new(&self.partition, &self.row)? })
    }
}

pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|e| Error::invalid_request(format!("a journal row cannot be encoded: {e}")))
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
