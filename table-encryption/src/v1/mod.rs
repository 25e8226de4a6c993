//! The legacy format of the first storage libraries: read if requested, written only by an explicit option,
//! never trusted.
//!
//! The format has no specification. The rules here are the rules of the libraries that write it:
//! <https://github.com/Azure/azure-storage-net/blob/master/Lib/ClassLibraryCommon/Table/TableEncryptionPolicy.cs>,
//! <https://github.com/Azure/azure-storage-java>, and the overview
//! <https://learn.microsoft.com/azure/storage/common/storage-client-side-encryption>.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aes_kw::aes::Aes256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use table_core::model::{
    ENCRYPTION_HEADERS, Entity, Key, Properties, PropertyRef, TableName, ValueRef,
};
use table_core::query::Select;
use table_core::store::{Error, Result};
use zeroize::Zeroizing;

use crate::KeyBytes;
use crate::data_key::{CacheBounds, FailedUnwraps, Wrapping, unreadable};
use crate::error::Unreadable;
use crate::key::{Keys, fill_random};

/// The two properties that hold the metadata.
pub(crate) const METADATA: [&str; 2] = [ENCRYPTION_HEADERS[1], ENCRYPTION_HEADERS[2]];

pub(crate) fn is_metadata(name: &str) -> bool {
    METADATA.contains(&name)
}

const PROTOCOL: &str = "1.0";
const CIPHER: &str = "AES_CBC_256";
const LIBRARY: &str = concat!("table-encryption ", env!("CARGO_PKG_VERSION"));

/// The contents of the two metadata properties.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) key_id: String,
    pub(crate) algorithm: String,
    wrapped: Vec<u8>,
    iv: [u8; 16],
    /// The Java library wrote it; it orders keys and formats lists differently.
    is_java: bool,
    /// The encrypted list of names.
    list: Vec<u8>,
}

/// The JSON, with its keys in the order that Java requires.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EncryptionData {
    wrapped_content_key: WrappedContentKey,
    encryption_agent: EncryptionAgent,
    #[serde(rename = "ContentEncryptionIV")]
    content_encryption_iv: String,
    key_wrapping_metadata: Option<KeyWrappingMetadata>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrappedContentKey {
    key_id: String,
    encrypted_key: String,
    algorithm: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EncryptionAgent {
    protocol: String,
    encryption_algorithm: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyWrappingMetadata {
    encryption_library: Option<String>,
}

impl Metadata {
    /// Returns the metadata of an entity, if it has any.
    ///
    /// # Errors
    /// Fails if the metadata is incomplete or malformed.
    pub(crate) fn of(properties: &Properties) -> Result<Option<Self>, Unreadable> {
        match METADATA.map(|name| properties.get(name)) {
            [None, None] => Ok(None),
            [Some(ValueRef::String(json)), Some(ValueRef::Binary(list))] => {
                Self::parse(json, list).map(Some).ok_or(Unreadable::Refused)
            }
            _ => Err(Unreadable::Refused),
        }
    }

    /// Parses the JSON; `None` if it does not have this format.
    pub(crate) fn parse(json: &str, list: &[u8]) -> Option<Self> {
        let json: EncryptionData = serde_json::from_str(json).ok()?;
        let agent = &json.encryption_agent;
        if agent.protocol != PROTOCOL || agent.encryption_algorithm != CIPHER {
            return None;
        }
        let key = json.wrapped_content_key;
        Some(Self {
            key_id: key.key_id,
            algorithm: key.algorithm,
            wrapped: STANDARD.decode(key.encrypted_key).ok()?,
            iv: STANDARD
                .decode(json.content_encryption_iv)
                .ok()?
                .try_into()
                .ok()?,
            // The Java library recognizes its own entities in this way: its first versions wrote no `KeyWrappingMetadata`.
            is_java: json.key_wrapping_metadata.is_none_or(|m| {
                m.encryption_library
                    .is_some_and(|library| library.contains("Java"))
            }),
            list: list.to_vec(),
        })
    }

    /// Returns the wrapped content key.
    fn wrapping(&self) -> Wrapping {
        Wrapping {
            algorithm: self.algorithm.as_str().into(),
            key_id: self.key_id.as_str().into(),
            wrapped: self.wrapped.as_slice().into(),
        }
    }

    /// Returns the JSON to write.
    fn to_json(&self) -> String {
        let json = EncryptionData {
            wrapped_content_key: WrappedContentKey {
                key_id: self.key_id.clone(),
                encrypted_key: STANDARD.encode(&self.wrapped),
                algorithm: self.algorithm.clone(),
            },
            encryption_agent: EncryptionAgent {
                protocol: PROTOCOL.to_owned(),
                encryption_algorithm: CIPHER.to_owned(),
            },
            content_encryption_iv: STANDARD.encode(self.iv),
            key_wrapping_metadata: Some(KeyWrappingMetadata {
                encryption_library: Some(LIBRARY.to_owned()),
            }),
        };
        serde_json::to_string(&json).expect("text")
    }
}

/// AES-256-CBC for one entity, with an IV per property.
struct Cbc {
    key: Zeroizing<[u8; 32]>,
    iv: [u8; 16],
    is_java: bool,
    entity: Key,
}

impl Cbc {
    fn encrypt(&self, name: &str, plaintext: &[u8]) -> Vec<u8> {
        let cipher = cbc::Encryptor::<Aes256>::new((&*self.key).into(), &self.iv(name).into());
        cipher.encrypt_padded_vec::<Pkcs7>(plaintext)
    }

    fn decrypt(&self, name: &str, ciphertext: &[u8]) -> Option<String> {
        let cipher = cbc::Decryptor::<Aes256>::new((&*self.key).into(), &self.iv(name).into());
        // The padding is the only check that the format allows, and one of 256 random blocks passes it: changed bytes can decrypt to
        // another text. The callers report every failure alike, so that no reader becomes a padding oracle.
        let plaintext = cipher.decrypt_padded_vec::<Pkcs7>(ciphertext).ok()?;
        String::from_utf8(plaintext).ok()
    }

    /// The IV of a property: the first 16 bytes of a hash of the entity's IV, its keys and the property's name.
    fn iv(&self, name: &str) -> [u8; 16] {
        let (partition, row) = (self.entity.partition(), self.entity.row());
        // Without lengths between the parts, so two entities or properties can share an IV. The format requires it.
        let keys = if self.is_java {
            [partition, row]
        } else {
            [row, partition]
        };
        let digest = keys
            .into_iter()
            .fold(Sha256::new().chain_update(self.iv), |d, k| {
                d.chain_update(k)
            });
        let digest: [u8; 32] = digest.chain_update(name).finalize().into();
        *digest.first_chunk().expect("32 bytes")
    }

    /// Decrypts the names of the encrypted properties.
    fn list(&self, ciphertext: &[u8]) -> Option<Vec<String>> {
        let text = self.decrypt(METADATA[1], ciphertext)?;
        if !self.is_java {
            return serde_json::from_str(&text).ok();
        }
        // Java writes `Arrays.toString` of the names instead of JSON. Property names have neither commas nor spaces.
        let names = text.strip_prefix('[')?.strip_suffix(']')?.split(", ");
        Some(
            names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }
}

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
        Self {
            keys,
            read: Vec::new(),
            written: Vec::new(),
        }
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
    pub(crate) fn new(
        legacy: LegacyV1,
        v2: &Keys,
        case_sensitive: bool,
        cache: CacheBounds,
    ) -> Result<Self> {
        legacy.keys.check()?;
        for old in legacy.keys.named() {
            // A key that legacy programs hold must not open v2 data, and a v2 key must not be given to code without integrity checks.
            if v2.named().any(|new| new.key_id() == old.key_id()) {
                return Err(Error::invalid_argument(format!(
                    "the key '{}' is used for the legacy format and for v2; use another key for v2",
                    old.key_id()
                )));
            }
        }
        let id = |t: TableName| {
            if case_sensitive {
                t.to_string()
            } else {
                t.to_lowercase()
            }
        };
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
        let cbc = Cbc {
            key,
            iv: metadata.iv,
            is_java: metadata.is_java,
            entity: entity.key().clone(),
        };
        let names = cbc.list(&metadata.list).ok_or(Unreadable::Refused)?;
        let mut out = Properties::with_capacity(entity.properties().as_packed().len());
        let wanted = |name: &str| select.is_none_or(|s| s.contains(name));
        for property in entity
            .properties()
            .iter()
            .filter(|p| !is_metadata(p.name()) && wanted(p.name()))
        {
            match property.value() {
                value if !names.iter().any(|n| n == property.name()) => {
                    out.push(property.name(), value, false);
                }
                ValueRef::Binary(bytes) => {
                    let text = cbc
                        .decrypt(property.name(), bytes)
                        .ok_or(Unreadable::Refused)?;
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
        unwrapped.inspect_err(|failure| self.failed.record(&wrapping, failure))
    }

    async fn unwrap_now(&self, metadata: &Metadata) -> Result<Zeroizing<[u8; 32]>, Unreadable> {
        let key = self.keys.find(&metadata.key_id).await.map_err(unreadable)?;
        let key = key
            .filter(|k| k.algorithm() == metadata.algorithm)
            .ok_or(Unreadable::Refused)?;
        let bytes = key
            .unwrap_key(&metadata.wrapped)
            .await
            .map_err(unreadable)?;
        bytes
            .expose()
            .try_into()
            .map(Zeroizing::new)
            .map_err(|_| Unreadable::Refused)
    }

    /// Encrypts the marked properties. Returns whether there were any.
    pub(crate) async fn seal(&self, entity: &mut Entity, marked: bool) -> Result<bool> {
        if !marked {
            return Ok(false);
        }
        let (key, metadata) = self.new_key().await?;
        let cbc = Cbc {
            key,
            iv: metadata.iv,
            is_java: false,
            entity: entity.key().clone(),
        };
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
        let list = cbc.encrypt(
            METADATA[1],
            serde_json::to_string(&names).expect("names").as_bytes(),
        );
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
        Ok((
            key,
            Metadata {
                key_id,
                algorithm,
                wrapped,
                iv,
                is_java: false,
                list: Vec::new(),
            },
        ))
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
            format!(
                "the legacy format can encrypt Edm.String only, not {}",
                other.edm_type()
            ),
        )),
    }
}
