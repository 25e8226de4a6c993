//! Writes entities as JSON.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use table_core::model::{EdmType, Entity, PackedProperty, ValueRef};
use uuid::Uuid;

use super::byte_scan::before_escape;

/// Returns the JSON of an entity, keys first.
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
    encode(entity, &mut out, |_, property, out| {
        push_name_and_type(out, property);
    });
    out
}

/// Writes an entity, keys first. `push_name` writes the name and the type of the property at a position.
#[inline]
fn encode(
    entity: &Entity,
    out: &mut Vec<u8>,
    mut push_name: impl FnMut(usize, &PackedProperty<'_>, &mut Vec<u8>),
) {
    out.extend_from_slice(b"{\"PartitionKey\":");
    push_text(out, entity.key().partition().as_bytes());
    out.extend_from_slice(b",\"RowKey\":");
    push_text(out, entity.key().row().as_bytes());
    for (place, property) in entity.properties().packed_properties().enumerate() {
        push_name(place, &property, out);
        push_property(out, &property);
    }
    out.push(b'}');
}

/// Writes entities one after another. The entities of a group mostly have the same properties, so the bytes
/// between the values are built once and copied for later entities.
#[derive(Debug, Default)]
pub struct EntityEncoder {
    /// For each property position of earlier entities: the packed name and type, and the bytes written for
    /// them.
    known: Vec<(Range<usize>, Range<usize>)>,
    texts: Vec<u8>,
}

impl EntityEncoder {
    /// Appends the JSON of an entity to `out`; see [`encode_entity`].
    pub fn encode(&mut self, entity: &Entity, out: &mut Vec<u8>) {
        encode(entity, out, |place, property, out| {
            self.push_name(place, property, out);
        });
    }

    /// Writes the bytes before a value.
    #[inline]
    fn push_name(&mut self, place: usize, property: &PackedProperty<'_>, out: &mut Vec<u8>) {
        if let Some((prefix, before)) = self.known.get(place)
            && self.texts[prefix.clone()] == *property.prefix()
        {
            return out.extend_from_slice(&self.texts[before.clone()]);
        }
        let from = out.len();
        push_name_and_type(out, property);
        self.keep(place, property.prefix(), &out[from..]);
    }

    /// Remembers the bytes before the value at this place, for the next entity of the same type.
    fn keep(&mut self, place: usize, prefix: &[u8], before: &[u8]) {
        // Groups of many different entities would let the buffer grow without end. All is dropped, since the ranges
        // point into one buffer.
        if self.texts.len() > KEPT {
            self.known.clear();
            self.texts.clear();
        }
        let start = self.texts.len();
        let middle = start + prefix.len();
        self.texts.extend_from_slice(prefix);
        self.texts.extend_from_slice(before);
        let known = (start..middle, middle..self.texts.len());
        if place < self.known.len() {
            self.known[place] = known;
        } else if place == self.known.len() {
            self.known.push(known);
        }
    }
}

/// Maximum bytes of names that are kept. Entities of one type need some hundreds.
const KEPT: usize = 64 << 10;

fn push_name_and_type(out: &mut Vec<u8>, property: &PackedProperty<'_>) {
    if !JSON_KNOWS.contains(&property.edm_type) {
        push_name(out, property.name);
        // Replaces the closing quote.
        out.pop();
        out.extend_from_slice(b"@odata.type\":\"");
        out.extend_from_slice(property.edm_type.name().as_bytes());
        out.push(b'"');
    }
    push_name(out, property.name);
    out.push(b':');
}

#[inline]
fn push_property(out: &mut Vec<u8>, property: &PackedProperty<'_>) {
    if property.edm_type == EdmType::String {
        // Packed text is valid UTF-8, so it needs no check.
        push_text(out, property.value);
    } else if let Some(value) = property.decode() {
        push_value(out, value);
    } else {
        debug_assert!(false, "packed properties are damaged");
        out.extend_from_slice(b"null");
    }
}

/// Types that JSON represents without an annotation.
const JSON_KNOWS: [EdmType; 3] = [EdmType::Boolean, EdmType::Int32, EdmType::String];

fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(b',');
    push_text(out, name);
}

/// Writes UTF-8 as a JSON string.
#[inline]
fn push_text(out: &mut Vec<u8>, mut text: &[u8]) {
    out.push(b'"');
    loop {
        // All escaped bytes are ASCII, so the text is never cut within a character.
        let (plain, rest) = text.split_at(before_escape(text));
        out.extend_from_slice(plain);
        let [escaped, rest @ ..] = rest else { break };
        push_escape(out, *escaped);
        text = rest;
    }
    out.push(b'"');
}

#[cold]
fn push_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        b'"' | b'\\' => byte,
        _ => return out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn push_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::String(v) => push_text(out, v.as_bytes()),
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

/// Writes text that needs no escapes, between quotes.
fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD
        .encode_slice(bytes, &mut out[start..])
        .unwrap_or_default();
    out.truncate(start + written);
}

/// Cannot fail: a `Vec` accepts every write, and these values have a JSON form.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok());
}
