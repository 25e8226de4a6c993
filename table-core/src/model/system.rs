use super::{Entity, Key, TableName, ValueRef};

/// What the keys of system rows start with: rows of the pattern library that no typed query shows.
///
/// Key parts escape `~` as `~7E`, so that no typed text starts a key with it, and it sorts after
/// ASCII letters and digits: a log tail or a range of rows does not meet system rows.
pub const SYSTEM_PREFIX: &str = "~~";

/// The PartitionKey of the system rows in which a table says what it is: its manifest.
pub const MANIFEST_PARTITION: &str = "~~manifest";

/// The property with the [id](crate::manifest::StoredIndex::id) of an index, by which its entries are told from entities.
pub const INDEX_NAME: &str = "IndexName";

/// The property of a row of the manifest with the table that holds the entries, where that is another table.
pub const INDEX_TABLE: &str = "IndexTable";

/// The reserved property that proves which write an entity comes from: a Guid, fresh for each write.
///
/// A [`Retrying`](crate::adapter::Retrying) store with write ids sets it on every entity it writes, whatever
/// the caller put there, and removes it from every entity it returns.
pub const WRITE_ID_PROPERTY: &str = "_WriteId";

/// The properties in which `table-encryption` keeps what decryption needs: of its format v2, and of the legacy format.
pub const ENCRYPTION_HEADERS: [&str; 3] =
    ["_EncryptionHeader", "_ClientEncryptionMetadata1", "_ClientEncryptionMetadata2"];

impl Key {
    /// Whether this is the key of a system row; see [`SYSTEM_PREFIX`].
    pub fn is_system(&self) -> bool {
        self.row().starts_with(SYSTEM_PREFIX) || self.partition().starts_with(SYSTEM_PREFIX)
    }
}

impl Entity {
    /// Whether the entity was encrypted and not decrypted, as a store shows it that has no keys: what its properties hold
    /// cannot be told. A store that decrypts takes the [headers](ENCRYPTION_HEADERS) out.
    pub fn is_ciphertext(&self) -> bool {
        ENCRYPTION_HEADERS.iter().any(|header| self.get(header).is_some())
    }

    /// Whether the row is an entry of an index: its property [`INDEX_NAME`] is the id of one, such as `newest.1f0c77aa`. No typed
    /// query shows entries unless it is [asked](crate::typed::TableQuery::with_index_entries).
    pub fn is_index_entry(&self) -> bool {
        let is_fingerprint = |digits: &str| {
            digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let id = self.properties().text_at_hand(INDEX_NAME).and_then(|id| id.rsplit_once('.'));
        id.is_some_and(|(name, digits)| !name.is_empty() && is_fingerprint(digits))
    }

    /// The other table that holds index entries of this row's table, if this is a row that names one.
    pub fn index_table(&self) -> Option<TableName> {
        match self.get(INDEX_TABLE) {
            Some(ValueRef::String(name)) if self.key().partition() == MANIFEST_PARTITION => {
                TableName::new(name).ok()
            }
            _ => None,
        }
    }
}
