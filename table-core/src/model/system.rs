use super::{Entity, Key, TableName, ValueRef};

/// Prefix of the keys of system rows: rows that patterns use internally and that no typed query returns by default.
///
/// Key parts escape `~` as `~7E`, so no typed text starts a key with this prefix. The prefix sorts after
/// ASCII letters and digits, so a log tail or a range of rows contains no system rows.
pub const SYSTEM_PREFIX: &str = "~~";

/// The PartitionKey of the table's manifest.
pub const MANIFEST_PARTITION: &str = "~~manifest";

/// The RowKey of the counter of a change feed, in each partition.
pub const FEED_COUNTER: &str = "~~changes";

/// The property with the [id](crate::manifest::StoredIndex::id) of an index. It identifies index entries.
pub const INDEX_NAME: &str = "IndexName";

/// The property of a manifest row that names the table of the index entries, if that is another table.
pub const INDEX_TABLE: &str = "IndexTable";

/// The reserved property that identifies the write that an entity comes from: a new Guid per write.
///
/// A [`Retrying`](crate::adapter::Retrying) store with write ids sets it on every entity that it writes, replacing a
/// value of the caller, and removes it from every entity that it returns.
pub const WRITE_ID_PROPERTY: &str = "_WriteId";

/// The properties in which `table-encryption` stores the data for decryption: of format v2 and of the legacy
/// format.
pub const ENCRYPTION_HEADERS: [&str; 3] = [
    "_EncryptionHeader",
    "_ClientEncryptionMetadata1",
    "_ClientEncryptionMetadata2",
];

impl Key {
    /// Whether this is the key of a system row; see [`SYSTEM_PREFIX`].
    pub fn is_system(&self) -> bool {
        self.row().starts_with(SYSTEM_PREFIX) || self.partition().starts_with(SYSTEM_PREFIX)
    }
}

impl Entity {
    /// Whether the entity is encrypted and was not decrypted, because the store has no keys. Its properties
    /// are then not readable. A decrypting store removes the [headers](ENCRYPTION_HEADERS).
    pub fn is_ciphertext(&self) -> bool {
        ENCRYPTION_HEADERS
            .iter()
            .any(|header| self.get(header).is_some())
    }

    /// Whether the row is an index entry: its property [`INDEX_NAME`] is the id of an index, such as
    /// `newest.1f0c77aa`, or that id and the table of the entities, such as `newest.1f0c77aa@orders`. Typed queries return
    /// entries only [on request](crate::typed::TableQuery::with_index_entries).
    pub fn is_index_entry(&self) -> bool {
        self.properties()
            .index_name()
            .is_some_and(|text| is_index_id(split_entry_id(text).0))
    }

    /// Returns the other table that holds index entries of this row's table, if this row names one.
    pub fn index_table(&self) -> Option<TableName> {
        match self.get(INDEX_TABLE) {
            Some(ValueRef::String(name)) if self.key().partition() == MANIFEST_PARTITION => {
                TableName::new(name).ok()
            }
            _ => None,
        }
    }
}

/// Whether a text is the id of an index: a name, a dot and 8 hexadecimal digits.
fn is_index_id(text: &str) -> bool {
    let is_fingerprint = |digits: &str| {
        digits.len() == 8
            && digits
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    text.rsplit_once('.')
        .is_some_and(|(name, digits)| !name.is_empty() && is_fingerprint(digits))
}

/// Returns the text of [`INDEX_NAME`] in the rows of an index. In the table of the entities that is the index id. A row in another
/// table also names the table of its entities: rows of two tables' indexes may meet there, and a key alone does not tell whose
/// entity is meant.
pub fn entry_id(index: &str, source: Option<&TableName>) -> String {
    match source {
        // In lower case also where the store distinguishes case: a copy of the rows in a store that ignores case must be the same.
        Some(source) => format!("{index}@{}", source.to_lowercase()),
        None => index.to_owned(),
    }
}

/// Splits the text of [`INDEX_NAME`] into the index id and the table of the entities, in lower case; see [`entry_id`].
pub fn split_entry_id(text: &str) -> (&str, Option<&str>) {
    // An id ends in 8 digits after a dot, and a table name has no dot: so a name of an index with an `@` is not taken apart.
    match text.rsplit_once('@') {
        Some((id, source))
            if !source.is_empty() && source.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            (id, Some(source))
        }
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_entry_has_the_index_and_the_table_of_the_entity() {
        let orders = TableName::from_static("Orders");
        assert_eq!(entry_id("newest.1f0c77aa", None), "newest.1f0c77aa");
        assert_eq!(
            entry_id("newest.1f0c77aa", Some(&orders)),
            "newest.1f0c77aa@orders"
        );
        for (text, id, source) in [
            ("newest.1f0c77aa", "newest.1f0c77aa", None),
            ("newest.1f0c77aa@orders", "newest.1f0c77aa", Some("orders")),
            ("a.12345678@b.12345678", "a.12345678@b.12345678", None),
            (
                "a.12345678@b.12345678@orders",
                "a.12345678@b.12345678",
                Some("orders"),
            ),
            ("city@orders", "city", Some("orders")),
        ] {
            assert_eq!(split_entry_id(text), (id, source), "{text}");
        }
        let row = |text: &str| {
            Entity::new("p", "r")
                .unwrap()
                .with(INDEX_NAME, text)
                .is_index_entry()
        };
        assert!(row("newest.1f0c77aa") && row("newest.1f0c77aa@orders"));
        assert!(!row("ann@example") && !row(".1f0c77aa") && !row("newest.1f0c77aa@"));
    }
}
