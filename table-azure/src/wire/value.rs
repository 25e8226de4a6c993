//! One property value, from JSON into [`Properties`].

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};
use table_core::model::{EdmType, Properties, ValueRef};
use uuid::Uuid;

/// Reads a value and appends it under its name. Null appends nothing: it is an absent property.
pub(super) struct ValueSeed<'a> {
    pub(super) properties: &'a mut Properties,
    pub(super) name: &'a str,
    /// The annotated type, if it came before the value.
    pub(super) edm_type: Option<EdmType>,
}

impl ValueSeed<'_> {
    fn push<E>(self, value: ValueRef<'_>) -> Result<(), E> {
        self.properties.push(self.name, value, false);
        Ok(())
    }

    fn mismatch<E: Error>(&self, found: &str) -> E {
        let expected = self.edm_type.map_or("a value", EdmType::name);
        E::custom(format_args!("property '{}': expected {expected}, found {found}", self.name))
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for ValueSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of the property '{}'", self.name)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.edm_type {
            None | Some(EdmType::Boolean) => self.push(ValueRef::Boolean(value)),
            Some(_) => Err(self.mismatch("a Boolean")),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match integer(value, self.edm_type) {
            Some(value) => self.push(value),
            None => Err(self.mismatch("an integer")),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.edm_type {
            None | Some(EdmType::Double) => self.push(ValueRef::Double(value)),
            Some(_) => Err(self.mismatch("a number with decimals")),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        let Some(edm_type) = self.edm_type else { return self.push(ValueRef::String(value)) };
        if edm_type == EdmType::Binary {
            let Ok(bytes) = STANDARD.decode(value) else { return Err(self.mismatch("other text")) };
            return self.push(ValueRef::Binary(&bytes));
        }
        match from_text(value, edm_type) {
            Some(value) => self.push(value),
            None => Err(self.mismatch("other text")),
        }
    }
}

/// An integer of JSON as the annotated type, or as the smallest that holds it.
fn integer(value: i64, edm_type: Option<EdmType>) -> Option<ValueRef<'static>> {
    match (edm_type, i32::try_from(value)) {
        (None | Some(EdmType::Int32), Ok(value)) => Some(ValueRef::Int32(value)),
        (None | Some(EdmType::Int64), _) => Some(ValueRef::Int64(value)),
        (Some(EdmType::Double), _) => Some(ValueRef::Double(value as f64)),
        _ => None,
    }
}

/// The text form of every type but Binary, which needs a buffer.
fn from_text(text: &str, edm_type: EdmType) -> Option<ValueRef<'_>> {
    Some(match edm_type {
        EdmType::String => ValueRef::String(text),
        EdmType::Int64 => ValueRef::Int64(text.parse().ok()?),
        EdmType::Int32 => ValueRef::Int32(text.parse().ok()?),
        EdmType::DateTime => ValueRef::DateTime(text.parse().ok()?),
        EdmType::Guid => ValueRef::Guid(Uuid::try_parse(text).ok()?),
        EdmType::Double => ValueRef::Double(double(text)?),
        EdmType::Boolean => ValueRef::Boolean(text.parse().ok()?),
        EdmType::Binary => return None,
    })
}

fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|n: &f64| n.is_finite()),
    }
}

/// Gives the type of an annotation to a property that was read before it.
///
/// # Errors
/// The value cannot be of that type (a message without the value).
pub(super) fn retype(properties: &mut Properties, name: &str, edm_type: EdmType) -> Result<(), String> {
    let Some(value) = properties.get(name).map(ValueRef::to_owned) else { return Ok(()) };
    if value.edm_type() == edm_type {
        return Ok(());
    }
    let found = value.edm_type();
    let mismatch = || format!("property '{name}': expected {edm_type}, found {found}");
    match value.as_ref() {
        ValueRef::String(text) if edm_type == EdmType::Binary => {
            let bytes = STANDARD.decode(text).map_err(|_| mismatch())?;
            properties.put(name, ValueRef::Binary(&bytes), false);
        }
        ValueRef::String(text) => {
            properties.put(name, from_text(text, edm_type).ok_or_else(mismatch)?, false);
        }
        ValueRef::Int32(n) => {
            let value = integer(n.into(), Some(edm_type)).ok_or_else(mismatch)?;
            properties.put(name, value, false);
        }
        ValueRef::Int64(n) => {
            let value = integer(n, Some(edm_type)).ok_or_else(mismatch)?;
            properties.put(name, value, false);
        }
        _ => return Err(mismatch()),
    }
    Ok(())
}
