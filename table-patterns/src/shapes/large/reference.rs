//! What a row says of a value that is in a blob.

use table_core::model::{EdmType, EdmValue, Entity, Key, ValueRef};
use table_core::store::{Error, Result};
use table_core::typed::PropertySchema;
use uuid::Uuid;

use crate::blobs::Stored;

/// The blob that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) id: Uuid,
    /// Bytes of the value.
    pub(super) size: u64,
    /// What the blob holds.
    pub(super) stored: Stored,
    /// The codec that wrote it.
    pub(super) codec: String,
}

const VERSION: &str = "blob1";
/// What references start with, of later versions too.
const FAMILY: &str = "blob";

/// What a stored value says of a blob, whatever its property is declared as.
#[derive(Debug)]
pub(super) enum Told {
    /// It is in this one.
    Blob(Reference),
    /// It begins like a reference and is none that can be read.
    Unreadable,
}

/// What a value says of a blob; `None` if it is a value itself.
pub(super) fn told(value: ValueRef<'_>) -> Option<Told> {
    let bytes = match value {
        ValueRef::Binary(bytes) => bytes,
        ValueRef::String(text) => text.as_bytes(),
        _ => return None,
    };
    let reference = std::str::from_utf8(bytes).ok().and_then(Reference::parse);
    let unreadable = || bytes.starts_with(FAMILY.as_bytes()).then_some(Told::Unreadable);
    reference.map(Told::Blob).or_else(unreadable)
}

/// The property of a row whose value is in a blob, if one is.
pub(crate) fn in_a_blob(row: &Entity) -> Option<String> {
    in_blobs(row).next()
}

/// The properties of a row whose values are in blobs.
pub(crate) fn names_in_blobs(row: &Entity) -> Vec<String> {
    in_blobs(row).collect()
}

fn in_blobs(row: &Entity) -> impl Iterator<Item = String> {
    let refers = |value| matches!(told(value), Some(Told::Blob(_)));
    let properties = row.properties().iter().filter(move |property| refers(property.value()));
    properties.map(|property| property.name().to_owned())
}

impl Reference {
    fn text(&self) -> String {
        let hash: String = self.stored.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let Self { id, size, codec, stored } = self;
        format!("{VERSION} id={id} size={size} stored={} sha256={hash} codec={codec}", stored.size)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let mut next = |name: &str| parts.next()?.strip_prefix(name);
        next(VERSION)?;
        let id = next("id=")?.parse().ok()?;
        let size = next("size=")?.parse().ok()?;
        let stored = next("stored=")?.parse().ok()?;
        let hash = parse_hash(next("sha256=")?)?;
        let codec = next("codec=")?.to_owned();
        parts.next().is_none().then_some(Self { id, size, stored: Stored { size: stored, hash }, codec })
    }

    /// The value to put in place of the property's own: of the other type, so that it is not taken for it.
    pub(super) fn to_value(&self, property: EdmType) -> EdmValue {
        match property {
            EdmType::String => EdmValue::Binary(self.text().into_bytes()),
            _ => EdmValue::String(self.text()),
        }
    }

    /// The reference that a property holds; `None` if it holds the value itself.
    pub(super) fn read(key: &Key, property: &PropertySchema, value: ValueRef<'_>) -> Result<Option<Self>> {
        let text = match (property.edm_type, value) {
            (EdmType::String, ValueRef::Binary(bytes)) => std::str::from_utf8(bytes).ok(),
            (EdmType::Binary, ValueRef::String(text)) => Some(text),
            _ => return Ok(None),
        };
        text.and_then(Self::parse).map(Some).ok_or_else(|| {
            let found = "something else of its type";
            Error::decode("large value", key, property.name, "a reference to a blob", found)
        })
    }
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}
