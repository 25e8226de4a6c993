use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use table_core::Result;
use table_core::model::{PropertyDictionary, TableName};
use table_core::store::ErrorKind;

/// The tables by case-insensitive name, and the property dictionary of their rows. Immutable and shared; a
/// change creates a new catalog.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    tables: BTreeMap<String, Entry>,
    pub(crate) dictionary: Arc<PropertyDictionary>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    name: TableName,
}

impl Catalog {
    /// Returns the id of a table.
    pub(crate) fn id(&self, table: &TableName) -> Result<u64> {
        let missing = || {
            ErrorKind::TableNotFound {
                table: table.to_string(),
            }
            .into()
        };
        self.find(table).map(|entry| entry.id).ok_or_else(missing)
    }

    pub(crate) fn contains(&self, table: &TableName) -> bool {
        self.find(table).is_some()
    }

    pub(crate) fn insert(&mut self, id: u64, name: TableName) {
        self.tables.insert(name.to_lowercase(), Entry { id, name });
    }

    pub(crate) fn remove(&mut self, table: &TableName) {
        self.tables.remove(&table.to_lowercase());
    }

    pub(crate) fn len(&self) -> usize {
        self.tables.len()
    }

    /// Iterates over identities (lower-case names) and names from an identity on, in order.
    pub(crate) fn names_from<'a>(
        &'a self,
        start: &str,
    ) -> impl Iterator<Item = (&'a str, &'a TableName)> {
        let from = (Bound::Included(start), Bound::Unbounded);
        self.tables
            .range::<str, _>(from)
            .map(|(identity, entry)| (identity.as_str(), &entry.name))
    }

    /// Iterates over ids and names, as given to [`insert`](Self::insert).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &TableName)> {
        self.tables.values().map(|entry| (entry.id, &entry.name))
    }

    /// Converts to lower case on the stack, because every read calls this.
    fn find(&self, table: &TableName) -> Option<&Entry> {
        // A table name has at most 63 characters, all of them ASCII.
        let mut buffer = [0; 63];
        let name = table.as_str();
        let lower = buffer.get_mut(..name.len())?;
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        self.tables.get(std::str::from_utf8(lower).ok()?)
    }
}
