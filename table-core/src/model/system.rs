use super::{Entity, Key, TableName, ValueRef};

/// Prefix of the keys of system rows: rows that patterns use internally and that no typed query returns by default.
///
/// Key parts escape `~` as `~7E`, so no typed text starts a key with this prefix. The prefix sorts after
/// ASCII letters and digits, so a log tail or a range of rows contains no system rows.
pub const SYSTEM_PREFIX: &str = "~~";

/// The PartitionKey of the table's manifest.
pub const MANIFEST_PARTITION: &str = "~~manifest";

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
pub const ENCRYPTION_HEADERS: [&str; 3] =
    ["_EncryptionHeader", "_ClientEncryptionMetadata1", "_ClientEncryptionMetadata2"];

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
        ENCRYPTION_HEADERS.iter().any(|header| self.get(header).is_some())
    }

    /// Whether the row is an index entry: its property [`INDEX_NAME`] is the id of an index, such as
    /// `newest.1f0c77aa`. Typed queries return entries only [on request](crate::typed::TableQuery::with_index_entries).
    pub fn is_index_entry(&self) -> bool {
        let is_fingerprint = |digits: &str| {
            digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let id = self.properties().index_name().and_then(|id| id.rsplit_once('.'));
        id.is_some_and(|(name, digits)| !name.is_empty() && is_fingerprint(digits))
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
