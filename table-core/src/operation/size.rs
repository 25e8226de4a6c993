use crate::model::{EdmType, Entity, Key, Properties, Raw, ValueRef};
use crate::operation::Operation;

/// Returns the size of an entity by the service's formula: `4 + 2 * (PartitionKey + RowKey) + Σ (8 + 2 * name
/// + value)` in UTF-16 code units. A String takes `4 + 2 * units` and a Binary `4 + bytes`.
///
/// Measurements show that the service refuses entities that are less than 88 bytes below the limit by this
/// formula (<https://github.com/MicrosoftDocs/azure-docs/issues/68661>), so keep that distance.
///
/// <https://learn.microsoft.com/archive/blogs/avkashchauhan/how-the-size-of-an-entity-is-caclulated-in-windows-azure-table-storage>
pub fn entity_size(key: &Key, properties: &Properties) -> usize {
    let mut tally = Tally::of(key);
    properties.raw().for_each(|raw| tally.add(&raw));
    tally.bytes
}

/// The sizes of an entity that limits apply to, computed in one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// Number of properties.
    pub(super) count: usize,
    /// See [`entity_size`].
    pub(super) bytes: usize,
    /// See [`least_payload`].
    pub(crate) payload: usize,
}

/// No property has more bytes in [`entity_size`] or [`least_payload`] than this many times its packed bytes: a Boolean without
/// a name has 4 packed bytes and 9 by the service's formula, and a Guid 19 and 40 in a payload.
const MOST_PER_BYTE: usize = 3;
/// Packed bytes of the smallest property.
const LEAST_PACKED: usize = 4;

impl Tally {
    /// Upper bounds of the sizes of an operation's entity or key, from lengths alone. Nearly all entities are far below the
    /// limits, so they need not be counted.
    #[inline]
    pub(crate) fn at_most(key: &Key, properties: Option<&Properties>) -> Self {
        let keys = key.partition().len() + key.row().len();
        let packed = properties.map_or(0, |properties| properties.as_packed().len());
        let (bytes, payload) = (4 + 2 * keys + MOST_PER_BYTE * packed, keys + MOST_PER_BYTE * packed);
        Self { count: packed / LEAST_PACKED, bytes, payload }
    }

    /// Like [`at_most`](Self::at_most), for an operation.
    #[inline]
    pub(crate) fn at_most_of(operation: &Operation) -> Self {
        Self::at_most(operation.key(), operation.entity().map(Entity::properties))
    }

    /// The sizes of an entity without properties.
    pub(super) fn of(key: &Key) -> Self {
        let (partition, row) = (key.partition(), key.row());
        let bytes = 4 + 2 * (utf16(partition) + utf16(row));
        Self { count: 0, bytes, payload: partition.len() + row.len() }
    }

    /// The sizes of an operation's entity, or of the key that it deletes.
    pub(crate) fn of_operation(operation: &Operation) -> Self {
        let mut tally = Self::of(operation.key());
        operation.entity().iter().flat_map(|e| e.properties().raw()).for_each(|raw| tally.add(&raw));
        tally
    }

    /// Adds a property.
    #[inline]
    pub(super) fn add(&mut self, raw: &Raw<'_>) {
        let value = raw.bytes;
        let (size, payload) = match raw.edm_type() {
            EdmType::String => (4 + 2 * units(value), value.len()),
            // In JSON, bytes are base64: four characters for three bytes. A GUID has 36 characters, and the shortest
            // time 20.
            EdmType::Binary => (4 + value.len(), value.len().div_ceil(3) * 4),
            EdmType::Guid => (value.len(), 36),
            EdmType::DateTime => (value.len(), 20),
            EdmType::Boolean | EdmType::Double | EdmType::Int32 | EdmType::Int64 => (value.len(), 1),
        };
        self.count += 1;
        self.bytes += 8 + 2 * units(raw.name) + size;
        self.payload += raw.name.len() + 4 + payload;
    }
}

/// Returns the size of one property by the formula of [`entity_size`].
pub fn property_size(name: &str, value: ValueRef<'_>) -> usize {
    let mut one = Properties::new();
    one.push(name, value, false);
    let mut tally = Tally { count: 0, bytes: 0, payload: 0 };
    one.raw().for_each(|raw| tally.add(&raw));
    tally.bytes
}

/// Returns the number of UTF-16 code units.
pub(crate) fn utf16(text: &str) -> usize {
    units(text.as_bytes())
}

/// Returns the number of UTF-16 code units of UTF-8 text: one per character, and one more per four-byte
/// character.
#[inline]
fn units(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.iter().map(|byte| usize::from(byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0)).sum()
}

/// Returns a lower bound of an operation's bytes in a group transaction, for every JSON style: method, keys
/// twice and encoded at most once, names and values in their shortest form.
pub(super) fn least_payload(operation: &Operation) -> usize {
    Tally::of_operation(operation).payload
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::Ticks;

    #[test]
    fn upper_bounds_hold_for_every_type() {
        let (letters, umlauts, wide) = ("x".repeat(300), "\u{fc}".repeat(300), "\u{1F600}".repeat(300));
        let texts = ["", "x", &letters, &umlauts, &wide];
        let mut values = vec![
            ValueRef::Boolean(true),
            ValueRef::Int32(7),
            ValueRef::Int64(7),
            ValueRef::Double(0.5),
            ValueRef::DateTime(Ticks::MIN),
            ValueRef::Guid(Uuid::nil()),
        ];
        values.extend(texts.map(ValueRef::String));
        values.extend(texts.map(|text| ValueRef::Binary(text.as_bytes())));
        for key in texts.map(|text| Key::new(text, text).unwrap_or_else(|_| Key::new("p", "r").unwrap())) {
            for value in &values {
                for name in texts {
                    let mut properties = Properties::new();
                    properties.push(name, *value, false);
                    let entity = Entity::from_parts(key.clone(), properties);
                    let operation = Operation::Insert(entity);
                    let (bound, exact) = (Tally::at_most_of(&operation), Tally::of_operation(&operation));
                    let fits = exact.count <= bound.count
                        && exact.bytes <= bound.bytes
                        && exact.payload <= bound.payload;
                    assert!(fits, "{exact:?} {bound:?} {operation:?}");
                }
            }
        }
    }
}
