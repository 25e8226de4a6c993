//! One entity, from JSON.

use std::borrow::Cow;

use table_core::Result;
use table_core::model::{ETag, EdmType, Entity, Key, Properties, Ticks};

use super::json::{self, Json, Scalar};
use super::value::{push_value, retype};

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
    json::read(json, |document| entity(document, json.len()))
}

/// Reads an entity, with room for this many bytes of packed properties at first.
pub(super) fn entity(json: &mut Json<'_>, capacity: usize) -> json::Result<Entity> {
    let mut parts = Parts { properties: Properties::with_capacity(capacity), ..Parts::default() };
    json.object(|json, name| parts.read(json, name))?;
    parts.finish().map_err(|reason| json.broken(reason))
}

/// What has been read of an entity.
#[derive(Default)]
struct Parts<'a> {
    partition: Option<Cow<'a, str>>,
    row: Option<Cow<'a, str>>,
    etag: Option<ETag>,
    timestamp: Option<Ticks>,
    properties: Properties,
    /// The annotation just read: services write each before its value.
    next: Option<(Cow<'a, str>, EdmType)>,
    /// Annotations that were not followed by their values.
    other: Vec<(Cow<'a, str>, EdmType)>,
}

impl<'a> Parts<'a> {
    fn read(&mut self, json: &mut Json<'a>, name: Cow<'a, str>) -> json::Result<()> {
        match &*name {
            "PartitionKey" => self.partition = Some(json.text()?),
            "RowKey" => self.row = Some(json.text()?),
            "Timestamp" => self.timestamp = timestamp(json)?,
            "odata.etag" => self.etag = Some(json.with_text(|text| ETag::from(text))?),
            other if other.ends_with(TYPE) => {
                let edm_type = type_name(json)?;
                self.annotate(name, edm_type);
            }
            other if other.starts_with("odata.") || other.bytes().any(|b| b == b'@') => json.skip()?,
            other => {
                let edm_type = self.type_of(other);
                let value = json.scalar().map_err(|e| e.of_property(other))?;
                push_value(&mut self.properties, other, edm_type, &value).map_err(|e| json.broken(e))?;
            }
        }
        Ok(())
    }

    fn annotate(&mut self, annotation: Cow<'a, str>, edm_type: EdmType) {
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

/// A moment or null.
fn timestamp(json: &mut Json<'_>) -> json::Result<Option<Ticks>> {
    match json.scalar()? {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => text.parse().map(Some).map_err(|_| json.broken("the Timestamp is no time")),
        _ => Err(json.broken("the Timestamp is no text")),
    }
}

fn type_name(json: &mut Json<'_>) -> json::Result<EdmType> {
    let name = json.text()?;
    EdmType::from_name(&name).ok_or_else(|| json.broken(format!("unknown type {name:?}")))
}
