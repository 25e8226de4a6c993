use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use table_core::model::{Entity, Properties, PropertyRef, TableName, ValueRef};
use table_core::query::Select;
use table_core::store::{Error, Result};
use zeroize::Zeroizing;

use super::cipher::Cbc;
use super::metadata::Metadata;
use super::{METADATA, is_metadata};
use crate::KeyBytes;
use crate::data_key::{CacheBounds, FailedUnwraps, unreadable};
use crate::error::Unreadable;
use crate::key::{Keys, fill_random};

/// The legacy format v1 of `WindowsAzure.Storage`, `azure-storage-java` and `azure-cosmosdb-table`, for
/// selected tables.
///
/// It has no integrity protection (CVE-2022-30187): anyone who can write to the table can change the data
/// that is read, and can replace a v2 entity by a v1 entity. Read it only to migrate it, then remove this
/// option. It encrypts Strings only.
///
/// ```
/// # use std::sync::Arc;
/// # use table_core::model::TableName;
/// # use table_encryption::{AesKeyWrap, KeyBytes, Keys, LegacyV1};
/// let kek = AesKeyWrap::new("local:key1", &KeyBytes::random(32)?)?;
/// let legacy = LegacyV1::new(Keys::new(Arc::new(kek))).read(&TableName::new("Employees")?);
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LegacyV1 {
    keys: Keys,
    read: Vec<TableName>,
    written: Vec<TableName>,
}

impl LegacyV1 {
    /// Sets the keys of legacy data. Their ids must differ from the ids of v2 keys. The active key is used for
    /// writes.
    pub const fn new(keys: Keys) -> Self {
        Self { keys, read: Vec::new(), written: Vec::new() }
    }

    /// Reads entities of this table in format v1. Writes to the table use format v2.
    #[must_use]
    pub fn read(mut self, table: &TableName) -> Self {
        self.read.push(table.clone());
        self
    }

    /// Writes this table in format v1, **without integrity protection**, for legacy programs that still read
    /// it.
    #[must_use]
    pub fn write_insecurely_for_interoperability(mut self, table: &TableName) -> Self {
        self.written.push(table.clone());
        self.read(table)
    }
}

/// The options as a store uses them.
pub(crate) struct Legacy {
    keys: Keys,
    read: BTreeSet<String>,
    written: BTreeSet<String>,
    failed: FailedUnwraps,
}

impl Legacy {
    pub(crate) fn new(legacy: LegacyV1, v2: &Keys, case_sensitive: bool, cache: CacheBounds) -> Result<Self> {
        legacy.keys.check()?;
        for old in legacy.keys.named() {
            // A key that legacy programs hold must not open v2 data, and a v2 key must not be given to code without integrity checks.
            if v2.named().any(|new| new.key_id() == old.key_id()) {
                return Err(Error::invalid_request(format!(
                    "the key '{}' is used for the legacy format and for v2; use another key for v2",
                    old.key_id()
                )));
            }
        }
        let id = |t: TableName| if case_sensitive { t.to_string() } else { t.to_lowercase() };
        Ok(Self {
            keys: legacy.keys,
            read: legacy.read.into_iter().map(id).collect(),
            written: legacy.written.into_iter().map(id).collect(),
            failed: FailedUnwraps::new(cache),
        })
    }

    pub(crate) fn reads(&self, table: &str) -> bool {
        self.read.contains(table)
    }

    pub(crate) fn writes(&self, table: &str) -> bool {
        self.written.contains(table)
    }

    /// Returns the decrypted properties, with encrypted ones marked, and the names of all encrypted
    /// properties.
    pub(crate) async fn open(
        &self,
        entity: &Entity,
        metadata: Metadata,
        select: Option<&Select>,
    ) -> Result<(Properties, Vec<String>), Unreadable> {
        let key = self.unwrap(&metadata).await?;
        let cbc = Cbc { key, iv: metadata.iv, java: metadata.java, entity: entity.key().clone() };
        let names = cbc.list(&metadata.list).ok_or(Unreadable::Refused)?;
        let mut out = Properties::with_capacity(entity.properties().as_packed().len());
        let wanted = |name: &str| select.is_none_or(|s| s.contains(name));
        for property in entity.properties().iter().filter(|p| !is_metadata(p.name()) && wanted(p.name())) {
            match property.value() {
                value if !names.iter().any(|n| n == property.name()) => {
                    out.push(property.name(), value, false);
                }
                ValueRef::Binary(bytes) => {
                    let text = cbc.decrypt(property.name(), bytes).ok_or(Unreadable::Refused)?;
                    out.push(property.name(), ValueRef::String(&text), true);
                }
                _ => return Err(Unreadable::Refused),
            }
        }
        Ok((out, names))
    }

    /// Unwraps the content key. Each entity has its own content key, so keys are not cached. A key that
    /// recently could not be unwrapped is not tried again.
    async fn unwrap(&self, metadata: &Metadata) -> Result<Zeroizing<[u8; 32]>, Unreadable> {
        let wrapping = metadata.wrapping();
        if let Some(failed) = self.failed.get(&wrapping) {
            return Err(failed);
        }
        let unwrapped = self.unwrap_now(metadata).await;
        unwrapped.inspect_err(|failure| self.failed.remember(&wrapping, failure))
    }

    async fn unwrap_now(&self, metadata: &Metadata) -> Result<Zeroizing<[u8; 32]>, Unreadable> {
        let key = self.keys.find(&metadata.key_id).await.map_err(unreadable)?;
        let key = key.filter(|k| k.algorithm() == metadata.algorithm).ok_or(Unreadable::Refused)?;
        let bytes = key.unwrap_key(&metadata.wrapped).await.map_err(unreadable)?;
        bytes.expose().try_into().map(Zeroizing::new).map_err(|_| Unreadable::Refused)
    }

    /// Encrypts the marked properties. Returns whether there were any.
    pub(crate) async fn seal(&self, entity: &mut Entity, marked: bool) -> Result<bool> {
        if !marked {
            return Ok(false);
        }
        let (key, metadata) = self.new_key().await?;
        let cbc = Cbc { key, iv: metadata.iv, java: false, entity: entity.key().clone() };
        let mut names = Vec::new();
        let mut out = Properties::new();
        for property in entity.properties() {
            match marked_text(&property)? {
                None => out.push(property.name(), property.value(), false),
                Some(text) => {
                    let bytes = cbc.encrypt(property.name(), text.as_bytes());
                    out.push(property.name(), ValueRef::Binary(&bytes), false);
                    names.push(property.name());
                }
            }
        }
        // The list of names is encrypted as if it were the property `_ClientEncryptionMetadata2`.
        let list = cbc.encrypt(METADATA[1], serde_json::to_string(&names).expect("names").as_bytes());
        out.push(METADATA[0], ValueRef::String(&metadata.to_json()), false);
        out.push(METADATA[1], ValueRef::Binary(&list), false);
        *entity.properties_mut() = out;
        Ok(true)
    }

    async fn new_key(&self) -> Result<(Zeroizing<[u8; 32]>, Metadata)> {
        let active = Arc::clone(self.keys.active());
        let (mut key, mut iv) = (Zeroizing::new([0; 32]), [0; 16]);
        fill_random(&mut *key)?;
        fill_random(&mut iv)?;
        let wrapped = active.wrap_key(&KeyBytes::from(key.to_vec())).await?;
        let (key_id, algorithm) = (active.key_id().to_owned(), active.algorithm().to_owned());
        Ok((key, Metadata { key_id, algorithm, wrapped, iv, java: false, list: Vec::new() }))
    }
}

impl fmt::Debug for Legacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Legacy")
            .field("keys", &self.keys)
            .field("read", &self.read)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

/// Returns the text to encrypt, if the property is marked.
fn marked_text<'a>(property: &PropertyRef<'a>) -> Result<Option<&'a str>> {
    match property.value() {
        _ if !property.is_encrypted() => Ok(None),
        ValueRef::String(text) => Ok(Some(text)),
        other => Err(Error::invalid_value(
            property.name(),
            format!("the legacy format can encrypt Edm.String only, not {}", other.edm_type()),
        )),
    }
}
