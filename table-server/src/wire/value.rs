//! Parses one JSON value.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use table_core::model::{EdmType, EdmValue, Ticks};
use uuid::Uuid;

use crate::errors::{Failure, Result};

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    /// A whole number that does not fit an Int64.
    Large,
    Decimal(f64),
    Text(Cow<'a, str>),
    /// An array or an object.
    Nested,
}

/// Whole numbers up to this value are exact as Doubles.
const EXACT: u64 = 1 << 53;

/// Returns a property's value; `None` for null, which is an absent property.
pub(super) fn read(name: &str, edm_type: Option<EdmType>, value: &Scalar<'_>) -> Result<Option<EdmValue>> {
    let of = |wanted, value: EdmValue| edm_type.is_none_or(|found| found == wanted).then_some(value);
    let read = match value {
        Scalar::Null => return Ok(None),
        Scalar::Boolean(value) => of(EdmType::Boolean, (*value).into()),
        Scalar::Decimal(value) => of(EdmType::Double, (*value).into()),
        Scalar::Integer(value) => integer(*value, edm_type),
        Scalar::Text(text) => from_text(text, edm_type.unwrap_or(EdmType::String)),
        Scalar::Large | Scalar::Nested => None,
    };
    let expected = edm_type
        .map_or("a string, a Boolean, or a number that fits its type (annotate Edm.Int64)", EdmType::name);
    read.map(Some).ok_or_else(|| invalid(name, &format!("it is not {expected}")))
}

fn integer(value: i64, edm_type: Option<EdmType>) -> Option<EdmValue> {
    // A number that a Double would round is refused instead of being stored as another number.
    let exact = value.unsigned_abs() <= EXACT;
    match (edm_type, i32::try_from(value)) {
        (None | Some(EdmType::Int32), Ok(value)) => Some(value.into()),
        (Some(EdmType::Int64), _) => Some(value.into()),
        (None | Some(EdmType::Double), _) if exact => Some(EdmValue::Double(value as f64)),
        _ => None,
    }
}

fn from_text(text: &str, edm_type: EdmType) -> Option<EdmValue> {
    Some(match edm_type {
        EdmType::String => text.into(),
        EdmType::Int64 => EdmValue::Int64(text.parse().ok()?),
        EdmType::Int32 => EdmValue::Int32(text.parse().ok()?),
        EdmType::DateTime => EdmValue::DateTime(time(text)?),
        // `try_parse` also takes forms without hyphens and with braces, which are no Edm.Guid.
        EdmType::Guid if text.len() == 36 => EdmValue::Guid(Uuid::try_parse(text).ok()?),
        EdmType::Guid => return None,
        EdmType::Double => EdmValue::Double(double(text)?),
        EdmType::Boolean => EdmValue::Boolean(text.parse().ok()?),
        EdmType::Binary => EdmValue::Binary(STANDARD.decode(text).ok()?),
    })
}

/// Parses a time as filters do: without an offset it is UTC, and seconds may be left out.
fn time(text: &str) -> Option<Ticks> {
    let seconds = if text.len() == 16 { ":00Z" } else { "Z" };
    text.parse().or_else(|_| format!("{text}{seconds}").parse()).ok()
}

fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

pub(super) fn invalid(name: &str, reason: &str) -> Failure {
    let name: String = name.chars().take(256).collect();
    Failure::invalid_input(format!(
        "An error occurred while processing this request: property '{name}': {reason}."
    ))
}
