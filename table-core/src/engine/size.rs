use crate::model::{Key, Properties, ValueRef};
use crate::store::Operation;

/// The bytes of an entity as the service counts them:
/// `4 + 2 * (PartitionKey + RowKey) + Σ (8 + 2 * name + value)` in UTF-16 code units, where a String
/// takes `4 + 2 * units` and a Binary `4 + bytes`.
///
/// The service was measured to refuse entities from 88 bytes below the limit by this formula on
/// (<https://github.com/MicrosoftDocs/azure-docs/issues/68661>): leave it that room.
///
/// <https://learn.microsoft.com/archive/blogs/avkashchauhan/how-the-size-of-an-entity-is-caclulated-in-windows-azure-table-storage>
pub fn entity_size(key: &Key, properties: &Properties) -> usize {
    let keys = utf16(key.partition()) + utf16(key.row());
    4 + 2 * keys + properties.iter().map(|p| property_size(p.name(), p.value())).sum::<usize>()
}

/// The bytes of one property by the same formula.
pub fn property_size(name: &str, value: ValueRef<'_>) -> usize {
    8 + 2 * utf16(name) + value_size(value)
}

fn value_size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Binary(v) => 4 + v.len(),
        ValueRef::String(v) => 4 + 2 * utf16(v),
        ValueRef::Boolean(_) => 1,
        ValueRef::Int32(_) => 4,
        ValueRef::DateTime(_) | ValueRef::Double(_) | ValueRef::Int64(_) => 8,
        ValueRef::Guid(_) => 16,
    }
}

/// UTF-16 code units.
pub(crate) fn utf16(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// A lower bound of what an operation adds to the payload of a group transaction, whatever the
/// JSON style: method, keys twice at most once encoded, names and values in their shortest form.
pub fn least_payload(operation: &Operation) -> usize {
    let key = operation.key();
    let keys = key.partition().len() + key.row().len();
    let properties = operation.entity().map_or(0, |e| least_json(e.properties()));
    keys + properties
}

fn least_json(properties: &Properties) -> usize {
    properties.iter().map(|p| p.name().len() + 4 + least_value(p.value())).sum()
}

fn least_value(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Binary(v) => v.len().div_ceil(3) * 4,
        ValueRef::String(v) => v.len(),
        ValueRef::Guid(_) => 36,
        ValueRef::DateTime(_) => 20,
        ValueRef::Boolean(_) | ValueRef::Double(_) | ValueRef::Int32(_) | ValueRef::Int64(_) => 1,
    }
}
