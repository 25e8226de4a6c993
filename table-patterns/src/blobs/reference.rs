//! References in rows to blobs with large values.

use table_core::model::{EdmType, EdmValue, Entity, Key, PropertyRef, ValueRef};
use table_core::store::{Error, Result};
use table_core::typed::{PropertySchema, Schema};
use uuid::Uuid;

/// The size and the SHA-256 hash of a blob's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobDigest {
    pub(crate) size: u64,
    pub(crate) hash: [u8; 32],
}

/// A reference in a row to the blob with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) id: Uuid,
    /// The size of the value, in bytes.
    pub(crate) size: u64,
    /// The size and hash of the blob's content.
    pub(crate) stored: BlobDigest,
    /// The codec that wrote the blob.
    pub(crate) codec: String,
}

/// The start of a reference in this version of the format.
const VERSION: &str = "blob1";
/// The start of a reference in any version of the format.
const FAMILY: &str = "blob";

/// A stored value that is a reference, or starts like one. The declared type of the property does not matter.
#[derive(Debug)]
pub(crate) enum MaybeReference {
    /// A reference to this blob.
    Blob(Reference),
    /// Text that starts like a reference and cannot be parsed, such as a reference of a later version.
    Unreadable,
}

/// Parses a stored value as a reference; `None` for a value that is not a reference.
pub(crate) fn parse_reference(value: ValueRef<'_>) -> Option<MaybeReference> {
    let bytes = match value {
        ValueRef::Binary(bytes) => bytes,
        ValueRef::String(text) => text.as_bytes(),
        _ => return None,
    };
    let reference = std::str::from_utf8(bytes).ok().and_then(Reference::parse);
    // Not a plain value: a collection would remove the blob of a reference of a later version.
    let unreadable = || {
        bytes
            .starts_with(FAMILY.as_bytes())
            .then_some(MaybeReference::Unreadable)
    };
    reference.map(MaybeReference::Blob).or_else(unreadable)
}

/// The name of the first property of a row whose value is in a blob.
pub(crate) fn first_name_in_blobs(row: &Entity) -> Option<String> {
    all_in_blobs(row).next()
}

/// Refuses a row whose entity has a part in a blob.
pub(crate) fn check_no_blob(row: &Entity) -> Result<()> {
    let Some(property) = first_name_in_blobs(row) else {
        return Ok(());
    };
    Err(Error::misuse(format!(
        "{} has the value of '{property}' in a blob, and a move of the row would lose it: move the entity with a `Table` of its type",
        row.key()
    )))
}

/// The names of all properties of a row whose values are in blobs.
pub(crate) fn names_in_blobs(row: &Entity) -> Vec<String> {
    all_in_blobs(row).collect()
}

fn all_in_blobs(row: &Entity) -> impl Iterator<Item = String> {
    let is_reference = |value| matches!(parse_reference(value), Some(MaybeReference::Blob(_)));
    let properties = row
        .properties()
        .iter()
        .filter(move |property| is_reference(property.value()));
    properties.map(|property| property.name().to_owned())
}

impl Reference {
    fn text(&self) -> String {
        let hash: String = self
            .stored
            .hash
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let Self {
            id,
            size,
            codec,
            stored,
        } = self;
        format!(
            "{VERSION} id={id} size={size} stored={} sha256={hash} codec={codec}",
            stored.size
        )
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
        parts.next().is_none().then_some(Self {
            id,
            size,
            stored: BlobDigest { size: stored, hash },
            codec,
        })
    }

    /// The reference as a property value. It has the other type than the property, so that no program takes it for the value.
    pub(crate) fn to_value(&self, property: EdmType) -> EdmValue {
        match property {
            EdmType::String => EdmValue::Binary(self.text().into_bytes()),
            _ => EdmValue::String(self.text()),
        }
    }

    /// Reads the reference of a declared property; `None` if the property holds the value.
    pub(crate) fn read(
        key: &Key,
        property: &PropertySchema,
        value: ValueRef<'_>,
    ) -> Result<Option<Self>> {
        let text = match (property.edm_type, value) {
            (EdmType::String, ValueRef::Binary(bytes)) => std::str::from_utf8(bytes).ok(),
            (EdmType::Binary, ValueRef::String(text)) => Some(text),
            _ => return Ok(None),
        };
        text.and_then(Self::parse).map(Some).ok_or_else(|| {
            let found = "something else of its type";
            Error::decode(
                "large value",
                key,
                property.name,
                "a reference to a blob",
                found,
            )
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

/// The values of a row that are in blobs. In a row of the schema's type, a value of the type that the schema declares for its property is no
/// reference, whatever its text is. Properties that no version of the schema declares may be of a later version.
pub(crate) fn references_of<'a>(
    schema: &'static Schema,
    row: &'a Entity,
) -> Vec<(PropertyRef<'a>, Reference)> {
    let mut found = references(row);
    if found.is_empty() || !schema.entity_type().admits(row) {
        return found;
    }
    found.retain(|(property, _)| {
        let mut versions = std::iter::successors(Some(schema), |version| version.previous);
        !versions.any(|version| {
            let mut declared = version.properties.iter();
            declared.any(|declared| {
                declared.name == property.name() && declared.edm_type == property.value().edm_type()
            })
        })
    });
    found
}

/// All values of a row that may be in blobs, for any type and schema version.
pub(crate) fn references(row: &Entity) -> Vec<(PropertyRef<'_>, Reference)> {
    let mut found = Vec::new();
    for property in row.properties() {
        if let Some(MaybeReference::Blob(reference)) = parse_reference(property.value()) {
            found.push((property, reference));
        }
    }
    found
}

/// A copy of a row with `text` in place of every value that is in a blob, for code that needs only the other values. `None`
/// if no value is in a blob.
pub(crate) fn with_placeholders(
    schema: &'static Schema,
    row: &Entity,
    text: &str,
) -> Option<Entity> {
    schema
        .properties
        .iter()
        .find(|property| property.large.is_some())?;
    let mut copy: Option<Entity> = None;
    // A row of an earlier schema version has the large properties that this version declares.
    let mut schema = Some(schema);
    while let Some(version) = schema {
        for property in version
            .properties
            .iter()
            .filter(|property| property.large.is_some())
        {
            let Some(stored) = row.properties().find(property.name) else {
                continue;
            };
            if stored.value().edm_type() != property.edm_type
                && matches!(
                    parse_reference(stored.value()),
                    Some(MaybeReference::Blob(_))
                )
            {
                let value = match property.edm_type {
                    EdmType::String => ValueRef::String(text),
                    _ => ValueRef::Binary(text.as_bytes()),
                };
                let entity = copy.get_or_insert_with(|| row.clone());
                entity
                    .properties_mut()
                    .put(property.name, value, stored.is_encrypted());
            }
        }
        schema = version.previous;
    }
    copy
}
