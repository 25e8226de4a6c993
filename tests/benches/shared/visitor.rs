//! The reader of entities that `serde_json` and a visitor make, to be compared with the one of `table-azure`: what the service sends, where
//! annotations come before their values. It refuses no repeated names and keeps no text of unknown members.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use table_core::model::{EdmType, Entity, Key, Properties, ValueRef};
use uuid::Uuid;

/// An entity as `serde_json` reads it.
pub(crate) struct Visited(pub(crate) Entity);

/// A text that is borrowed from the document if it has no escapes.
struct Text<'a>(Cow<'a, str>);

enum Value<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Decimal(f64),
    Text(Cow<'a, str>),
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a property")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        i64::try_from(value).map(Value::Integer).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Value::Decimal(value))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct EntityVisitor;

impl<'de> Visitor<'de> for EntityVisitor {
    type Value = Entity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entity")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entity, M::Error> {
        let (mut partition, mut row) = (Cow::Borrowed(""), Cow::Borrowed(""));
        let mut properties = Properties::with_capacity(512);
        let mut annotated: Option<(Cow<'de, str>, EdmType)> = None;
        while let Some(Text(name)) = map.next_key()? {
            if let Some(property) = name.strip_suffix("@odata.type") {
                let Text(of) = map.next_value()?;
                let of = EdmType::from_name(&of).ok_or_else(|| M::Error::custom("a type"))?;
                annotated = Some((Cow::Owned(property.to_owned()), of));
                continue;
            }
            match &*name {
                "PartitionKey" => partition = map.next_value::<Text<'_>>()?.0,
                "RowKey" => row = map.next_value::<Text<'_>>()?.0,
                _ => {
                    let of = annotated.take().filter(|(property, _)| *property == name);
                    let value: Value<'_> = map.next_value()?;
                    push(&mut properties, &name, of.map(|(_, of)| of), &value)
                        .ok_or_else(|| M::Error::custom("a value"))?;
                }
            }
        }
        let key = Key::new(partition, row).map_err(M::Error::custom)?;
        Ok(Entity::from_parts(key, properties))
    }
}

fn push(
    properties: &mut Properties,
    name: &str,
    of: Option<EdmType>,
    value: &Value<'_>,
) -> Option<()> {
    let bytes;
    let value = match (value, of) {
        (Value::Null, _) => return Some(()),
        (Value::Boolean(value), _) => ValueRef::Boolean(*value),
        (Value::Integer(value), _) => ValueRef::Int32(i32::try_from(*value).ok()?),
        (Value::Decimal(value), _) => ValueRef::Double(*value),
        (Value::Text(text), None | Some(EdmType::String)) => ValueRef::String(text),
        (Value::Text(text), Some(EdmType::Int64)) => ValueRef::Int64(text.parse().ok()?),
        (Value::Text(text), Some(EdmType::DateTime)) => ValueRef::DateTime(text.parse().ok()?),
        (Value::Text(text), Some(EdmType::Guid)) => ValueRef::Guid(Uuid::try_parse(text).ok()?),
        (Value::Text(text), Some(EdmType::Binary)) => {
            bytes = STANDARD.decode(&**text).ok()?;
            ValueRef::Binary(&bytes)
        }
        (Value::Text(text), Some(EdmType::Double)) => ValueRef::Double(text.parse().ok()?),
        (Value::Text(_), Some(EdmType::Int32 | EdmType::Boolean)) => return None,
    };
    properties.push(name, value, false);
    Some(())
}

impl<'de> Deserialize<'de> for Visited {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntityVisitor).map(Self)
    }
}
