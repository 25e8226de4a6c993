use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use table_core::model::{Properties, ValueRef};

use super::METADATA;
use crate::data_key::Wrapping;
use crate::error::Unreadable;

const PROTOCOL: &str = "1.0";
const CIPHER: &str = "AES_CBC_256";
const LIBRARY: &str = concat!("table-encryption ", env!("CARGO_PKG_VERSION"));

/// The contents of the two metadata properties.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) key_id: String,
    pub(crate) algorithm: String,
    pub(super) wrapped: Vec<u8>,
    pub(super) iv: [u8; 16],
    /// The Java library wrote it; it orders keys and formats lists differently.
    pub(super) java: bool,
    /// The encrypted list of names.
    pub(super) list: Vec<u8>,
}

/// The JSON, with its keys in the order that Java requires.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Json {
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
        let json: Json = serde_json::from_str(json).ok()?;
        let agent = &json.encryption_agent;
        if agent.protocol != PROTOCOL || agent.encryption_algorithm != CIPHER {
            return None;
        }
        let key = json.wrapped_content_key;
        Some(Self {
            key_id: key.key_id,
            algorithm: key.algorithm,
            wrapped: STANDARD.decode(key.encrypted_key).ok()?,
            iv: STANDARD.decode(json.content_encryption_iv).ok()?.try_into().ok()?,
            // The Java library recognizes its own entities in this way: its first versions wrote no `KeyWrappingMetadata`.
            java: json
                .key_wrapping_metadata
                .is_none_or(|m| m.encryption_library.is_some_and(|library| library.contains("Java"))),
            list: list.to_vec(),
        })
    }

    /// Returns the wrapped content key.
    pub(super) fn wrapping(&self) -> Wrapping {
        Wrapping {
            algorithm: self.algorithm.as_str().into(),
            key_id: self.key_id.as_str().into(),
            wrapped: self.wrapped.as_slice().into(),
        }
    }

    /// Returns the JSON to write.
    pub(super) fn to_json(&self) -> String {
        let json = Json {
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
            key_wrapping_metadata: Some(KeyWrappingMetadata { encryption_library: Some(LIBRARY.to_owned()) }),
        };
        serde_json::to_string(&json).expect("text")
    }
}
