//! The sample in a form for every language: `[type, value]`, with text for numbers that JSON does not have.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use table_core::model::{Entity, ValueRef};

/// The entities as JSON.
pub(crate) fn entities(entities: &[Entity]) -> Value {
    let one = |e: &Entity| json!({ "partition": e.key().partition(), "row": e.key().row(), "properties": properties(e) });
    entities.iter().map(one).collect()
}

/// The properties of an entity by name. They are equal exactly if types and values are equal.
pub(crate) fn properties(entity: &Entity) -> Map<String, Value> {
    let one =
        |name: &str, v: ValueRef<'_>| (name.to_owned(), json!([v.edm_type().name(), value(v)]));
    entity
        .properties()
        .iter()
        .map(|p| one(p.name(), p.value()))
        .collect()
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Binary(v) => BASE64_STANDARD.encode(v).into(),
        ValueRef::Boolean(v) => v.into(),
        ValueRef::DateTime(v) => v.to_string().into(),
        ValueRef::Double(v) if v.is_finite() => v.into(),
        ValueRef::Double(v) if v.is_nan() => "NaN".into(),
        ValueRef::Double(v) => if v > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        ValueRef::Guid(v) => v.to_string().into(),
        ValueRef::Int32(v) => v.into(),
        ValueRef::Int64(v) => v.to_string().into(),
        ValueRef::String(v) => v.into(),
    }
}
