//! Parses one property value from JSON into [`Properties`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use table_core::model::{EdmType, Properties, ValueRef};
use uuid::Uuid;

use super::json::Scalar;

/// Appends a value under its name. `edm_type` is the annotated type, if the annotation came first. Null
/// appends nothing: the property is absent.
///
/// # Errors
/// Fails if the value cannot have that type. The message does not contain the value.
pub(super) fn push_value(
    properties: &mut Properties,
    name: &str,
    edm_type: Option<EdmType>,
    value: &Scalar<'_>,
) -> Result<(), String> {
    let found = match value {
        Scalar::Null => return Ok(()),
        Scalar::Boolean(value) => only(EdmType::Boolean, edm_type, ValueRef::Boolean(*value)),
        Scalar::Integer(value) => integer(*value, edm_type),
        Scalar::Decimal(value) => only(EdmType::Double, edm_type, ValueRef::Double(*value)),
        // Apart from the other types, because its bytes need a buffer that lives until they are pushed.
        Scalar::Text(text) if edm_type == Some(EdmType::Binary) => {
            let pushed = push_base64(properties, name, text);
            return pushed.ok_or_else(|| mismatch(name, edm_type, value));
        }
        Scalar::Text(text) => from_text(text, edm_type.unwrap_or(EdmType::String)),
    };
    properties.push(
        name,
        found.ok_or_else(|| mismatch(name, edm_type, value))?,
        false,
    );
    Ok(())
}

/// Decodes base64. Most values are short and fit a buffer on the stack.
fn push_base64(properties: &mut Properties, name: &str, text: &str) -> Option<()> {
    let (mut short, long);
    let bytes = if text.len() <= 256 {
        // 256 characters hold at most 192 bytes: 4 characters for each 3.
        short = [0; 192];
        let length = STANDARD.decode_slice(text, &mut short).ok()?;
        &short[..length]
    } else {
        long = STANDARD.decode(text).ok()?;
        &long[..]
    };
    properties.push(name, ValueRef::Binary(bytes), false);
    Some(())
}

/// Returns the value if no other type than `of` is annotated.
fn only(of: EdmType, edm_type: Option<EdmType>, value: ValueRef<'_>) -> Option<ValueRef<'_>> {
    edm_type
        .is_none_or(|annotated| annotated == of)
        .then_some(value)
}

fn mismatch(name: &str, edm_type: Option<EdmType>, found: &Scalar<'_>) -> String {
    let expected = edm_type.map_or("a value", EdmType::name);
    let found = match found {
        Scalar::Null => "null",
        Scalar::Boolean(_) => "a Boolean",
        Scalar::Integer(_) => "an integer",
        Scalar::Decimal(_) => "a number with decimals",
        Scalar::Text(_) => "other text",
    };
    format!("property '{name}': expected {expected}, found {found}")
}

/// Converts a JSON integer to the annotated type, or to the smallest type that holds it.
fn integer(value: i64, edm_type: Option<EdmType>) -> Option<ValueRef<'static>> {
    match (edm_type, i32::try_from(value)) {
        (None | Some(EdmType::Int32), Ok(value)) => Some(ValueRef::Int32(value)),
        (None | Some(EdmType::Int64), _) => Some(ValueRef::Int64(value)),
        (Some(EdmType::Double), _) => Some(ValueRef::Double(value as f64)),
        _ => None,
    }
}

/// Parses the text form of every type but Binary, which needs a buffer.
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
        // Rust's parser also reads `inf` and `nan`, which no service writes.
        _ => text.parse().ok().filter(|n: &f64| n.is_finite()),
    }
}

/// Converts a property to the type of an annotation that came after it.
///
/// # Errors
/// Fails if the value cannot have that type. The message does not contain the value.
pub(super) fn retype(
    properties: &mut Properties,
    name: &str,
    edm_type: EdmType,
) -> Result<(), String> {
    let Some(value) = properties.get(name).map(ValueRef::to_owned) else {
        return Ok(());
    };
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
