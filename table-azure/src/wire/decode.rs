//! One entity, from JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use table_core::model::{ETag, EdmType, Entity, Key, Properties, Ticks};
use table_core::store::ErrorKind;
use table_core::{Error, Result};

use super::value::{ValueSeed, retype};

const TYPE: &str = "@odata.type";

/// Reads one entity.
///
/// Nulls are absent properties. Without an annotation a text is a String, an integer an Int32 (an
/// Int64 if it needs to be), a number with decimals or an exponent a Double.
///
/// # Errors
/// The bytes are not the JSON of an entity, or a value is not of its annotated type.
///
/// ```
/// use table_azure::wire::decode_entity;
/// use table_core::model::ValueRef;
/// let json = br#"{"PartitionKey":"p","RowKey":"r","N@odata.type":"Edm.Int64","N":"5"}"#;
/// assert_eq!(decode_entity(json)?.get("N"), Some(ValueRef::Int64(5)));
/// # Ok::<(), table_core::Error>(())
/// ```
pub fn decode_entity(json: &[u8]) -> Result<Entity> {
    from_slice(json, EntitySeed { capacity: json.len() })
}

/// Runs a seed over a whole document.
pub(super) fn from_slice<'de, S: DeserializeSeed<'de>>(json: &'de [u8], seed: S) -> Result<S::Value> {
    // Once for the document: cheaper than serde_json's check of every text in it.
    let json = std::str::from_utf8(json).map_err(unreadable)?;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let value = seed.deserialize(&mut deserializer).map_err(unreadable)?;
    deserializer.end().map_err(unreadable)?;
    Ok(value)
}

fn unreadable(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Service("JSON that cannot be read".to_owned())).with_source(cause)
}

/// Reads an entity, with room for this many bytes of packed properties at first.
pub(super) struct EntitySeed {
    pub(super) capacity: usize,
}

impl<'de> DeserializeSeed<'de> for EntitySeed {
    type Value = Entity;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entity, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntitySeed {
    type Value = Entity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entity")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entity, A::Error> {
        let mut parts = Parts { properties: Properties::with_capacity(self.capacity), ..Parts::default() };
        while let Some(name) = map.next_key_seed(Text)? {
            parts.read(name, &mut map)?;
        }
        parts.finish().map_err(A::Error::custom)
    }
}

/// What has been read of an entity.
#[derive(Default)]
struct Parts<'de> {
    partition: Option<Cow<'de, str>>,
    row: Option<Cow<'de, str>>,
    etag: Option<ETag>,
    timestamp: Option<Ticks>,
    properties: Properties,
    /// The annotation just read: services write each before its value.
    next: Option<(Cow<'de, str>, EdmType)>,
    /// Annotations that were not followed by their values.
    other: Vec<(Cow<'de, str>, EdmType)>,
}

impl<'de> Parts<'de> {
    fn read<A: MapAccess<'de>>(&mut self, name: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        match &*name {
            "PartitionKey" => self.partition = Some(map.next_value_seed(Text)?),
            "RowKey" => self.row = Some(map.next_value_seed(Text)?),
            "Timestamp" => self.timestamp = timestamp(map)?,
            "odata.etag" => self.etag = Some(ETag::from(&*map.next_value_seed(Text)?)),
            other if other.ends_with(TYPE) => {
                let edm_type = map.next_value_seed(TypeName)?;
                self.annotate(name, edm_type);
            }
            other if other.starts_with("odata.") || other.contains('@') => {
                map.next_value::<IgnoredAny>()?;
            }
            _ => {
                let edm_type = self.type_of(&name);
                let properties = &mut self.properties;
                map.next_value_seed(ValueSeed { properties, name: &name, edm_type })?;
            }
        }
        Ok(())
    }

    fn annotate(&mut self, annotation: Cow<'de, str>, edm_type: EdmType) {
        let length = annotation.len() - TYPE.len();
        let name = match annotation {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..length]),
            Cow::Owned(mut text) => {
                text.truncate(length);
                Cow::Owned(text)
            }
        };
        if name != "Timestamp" {
            self.other.extend(self.next.replace((name, edm_type)));
        }
    }

    /// The type annotated for the value that comes now.
    fn type_of(&mut self, name: &str) -> Option<EdmType> {
        if let Some((_, edm_type)) = self.next.take_if(|(next, _)| next == name) {
            return Some(edm_type);
        }
        let at = self.other.iter().position(|(other, _)| other == name)?;
        Some(self.other.swap_remove(at).1)
    }

    fn finish(mut self) -> Result<Entity, String> {
        self.other.extend(self.next.take());
        for (name, edm_type) in &self.other {
            retype(&mut self.properties, name, *edm_type)?;
        }
        let partition = self.partition.ok_or("an entity without PartitionKey")?;
        let row = self.row.ok_or("an entity without RowKey")?;
        let key = Key::new(partition, row).map_err(|e| e.to_string())?;
        Ok(Entity::from_parts(key, self.properties).with_system(self.etag, self.timestamp))
    }
}

fn timestamp<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Ticks>, A::Error> {
    let Some(text) = map.next_value_seed(MaybeText)? else { return Ok(None) };
    text.parse().map(Some).map_err(A::Error::custom)
}

/// A text, borrowed from the document where it has no escapes.
pub(super) struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// A text or null.
struct MaybeText;

impl<'de> DeserializeSeed<'de> for MaybeText {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for MaybeText {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        Text.deserialize(deserializer).map(Some)
    }
}

/// The name of a type.
struct TypeName;

impl<'de> DeserializeSeed<'de> for TypeName {
    type Value = EdmType;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<EdmType, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for TypeName {
    type Value = EdmType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an Edm type")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<EdmType, E> {
        EdmType::from_name(name).ok_or_else(|| E::custom(format_args!("unknown type {name:?}")))
    }
}
