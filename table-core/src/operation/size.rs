use crate::model::{EdmType, Key, Properties, Raw, ValueRef};
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

impl Tally {
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
pub fn least_payload(operation: &Operation) -> usize {
    Tally::of_operation(operation).payload
}
