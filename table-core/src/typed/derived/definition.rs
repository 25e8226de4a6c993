//! Constructors of index definitions for constant expressions of generated code.

use std::borrow::Cow;

use super::KeyFields;
use crate::manifest::{
    IndexDefinition, KeySegment, PartEncoding, PartSource, Placement, TemplatePart, Text,
    Transform, entity_key_error,
};
use crate::model::{Key, KeyPartType};
use crate::store::Result;
use crate::typed::TableEntity;

/// A constant text.
pub const fn text(text: &'static str) -> Text {
    Cow::Borrowed(text)
}

/// A literal in a key template.
pub const fn literal(text: &'static str) -> KeySegment {
    KeySegment::Literal(Cow::Borrowed(text))
}

/// A part in a key template.
pub const fn part(
    source: PartSource,
    each: bool,
    encoding: PartEncoding,
    transforms: &'static [Transform],
    width: Option<usize>,
) -> KeySegment {
    KeySegment::Part(TemplatePart {
        source,
        each,
        encoding,
        transforms: Cow::Borrowed(transforms),
        width,
    })
}

/// Returns the transforms of a field: descending if its type is `Reverse`.
pub const fn reversed(is_reversed: bool) -> &'static [Transform] {
    if is_reversed {
        &[Transform::Descending]
    } else {
        &[]
    }
}

/// Returns the encoding of a field of the entity's key. `width` is the width of the type, `chosen` the width that the
/// template sets.
pub const fn key_encoding(
    part: KeyPartType,
    name: &'static str,
    width: Option<usize>,
    chosen: Option<usize>,
) -> PartEncoding {
    match (chosen, width) {
        // With fewer digits than the type has, every number of that width fits the type. A wider type gives the same
        // keys, so the definition does not depend on the type.
        (Some(chosen), Some(own)) if part.is_unsigned() && chosen < own => {
            PartEncoding::new(KeyPartType::U64, name, None)
        }
        (Some(_), _) => PartEncoding::new(part, name, None),
        (None, width) => PartEncoding::new(part, name, width),
    }
}

/// Returns the encoding of a property whose stored values correspond to the key part type `stored`. If the field has another
/// key part type, its keys cannot be computed from the stored values, and the encoding is opaque.
pub const fn encoding(
    part: KeyPartType,
    stored: KeyPartType,
    name: &'static str,
    width: Option<usize>,
    chosen: Option<usize>,
) -> PartEncoding {
    match part {
        KeyPartType::Custom => key_encoding(part, name, width, chosen),
        // `as u8`, because a constant function cannot call `PartialEq`.
        known if known as u8 == stored as u8 => key_encoding(part, name, width, chosen),
        known => key_encoding(KeyPartType::Custom, known.word(), width, chosen),
    }
}

/// Adds the key of an index entry, unless it was added before.
///
/// # Errors
/// Fails if the key is too long. For an index in the entities' own table, also fails if an entity could have the key.
pub fn push_entry_key<T: TableEntity + KeyFields>(
    keys: &mut Vec<Key>,
    index: usize,
    partition: String,
    row: String,
) -> Result<()> {
    let key = Key::new(partition, row)?;
    let IndexDefinition {
        name, placement, ..
    } = &T::SCHEMA.indexes[index];
    let shared = !matches!(placement, Placement::OtherTable(_));
    // An entry under a key that an entity can have would be overwritten by that entity, or would be read as one.
    if shared && T::fitting_key_fields(&key).is_some() {
        return Err(entity_key_error(name, T::SCHEMA.rust_name, &key));
    }
    if !keys.contains(&key) {
        keys.push(key);
    }
    Ok(())
}
