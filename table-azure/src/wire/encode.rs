//! One entity, as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use table_core::model::{EdmType, Entity, PropertyRef, ValueRef};
use uuid::Uuid;

/// The JSON of an entity, keys first.
///
/// ```
/// use table_azure::wire::encode_entity;
/// use table_core::model::Entity;
/// let entity = Entity::new("p", "r")?.with("N", 5_i64);
/// let json = r#"{"PartitionKey":"p","RowKey":"r","N@odata.type":"Edm.Int64","N":"5"}"#;
/// assert_eq!(encode_entity(&entity), json.as_bytes());
/// # Ok::<(), table_core::Error>(())
/// ```
pub fn encode_entity(entity: &Entity) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + 2 * entity.properties().as_packed().len());
    encode_into(entity, &mut out);
    out
}

/// [`encode_entity`], appended to `out`.
pub fn encode_into(entity: &Entity, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"PartitionKey\":");
    json(out, entity.key().partition());
    out.extend_from_slice(b",\"RowKey\":");
    json(out, entity.key().row());
    for property in entity.properties() {
        push_property(out, &property);
    }
    out.push(b'}');
}

fn push_property(out: &mut Vec<u8>, property: &PropertyRef<'_>) {
    let edm_type = property.value().edm_type();
    if !JSON_KNOWS.contains(&edm_type) {
        push_name(out, property.name());
        // In place of the closing quote.
        out.pop();
        out.extend_from_slice(b"@odata.type\":\"");
        out.extend_from_slice(edm_type.name().as_bytes());
        out.push(b'"');
    }
    push_name(out, property.name());
    out.push(b':');
    push_value(out, property.value());
}

/// Types that a reader of JSON cannot mistake.
const JSON_KNOWS: [EdmType; 3] = [EdmType::Boolean, EdmType::Int32, EdmType::String];

fn push_name(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    // Every name that a store takes is such a one, if it is of ASCII.
    if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        quoted(out, |out| out.extend_from_slice(name.as_bytes()));
    } else {
        json(out, name);
    }
}

fn push_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::String(v) => json(out, v),
        ValueRef::Int32(v) => json(out, &v),
        ValueRef::Boolean(v) => json(out, &v),
        ValueRef::Double(v) if v.is_finite() => json(out, &v),
        ValueRef::Double(v) => json(out, non_finite(v)),
        ValueRef::Int64(v) => quoted(out, |out| json(out, &v)),
        ValueRef::DateTime(v) => quoted(out, |out| out.extend_from_slice(&v.to_ascii())),
        ValueRef::Guid(v) => {
            let mut buffer = Uuid::encode_buffer();
            let text = v.hyphenated().encode_lower(&mut buffer);
            quoted(out, |out| out.extend_from_slice(text.as_bytes()));
        }
        ValueRef::Binary(v) => quoted(out, |out| push_base64(out, v)),
    }
}

const fn non_finite(value: f64) -> &'static str {
    match (value.is_nan(), value > 0.0) {
        (true, _) => "NaN",
        (false, true) => "Infinity",
        (false, false) => "-Infinity",
    }
}

/// Between quotes: text without anything to escape.
fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or_default();
    out.truncate(start + written);
}

/// Cannot fail: a `Vec` takes everything, and these values have a JSON form.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok());
}
