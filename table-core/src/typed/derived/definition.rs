//! Constants of index definitions.

use std::borrow::Cow;

use crate::manifest::{KeySegment, PartEncoding, PartSource, TemplatePart, Text, Transform};
use crate::model::KeyPartType;

/// A text of the program.
pub const fn text(text: &'static str) -> Text {
    Cow::Borrowed(text)
}

/// A literal of a key template.
pub const fn literal(text: &'static str) -> KeySegment {
    KeySegment::Literal(Cow::Borrowed(text))
}

/// A part of a key template.
pub const fn part(
    source: PartSource,
    each: bool,
    encoding: PartEncoding,
    transforms: &'static [Transform],
    width: Option<usize>,
) -> KeySegment {
    KeySegment::Part(TemplatePart { source, each, encoding, transforms: Cow::Borrowed(transforms), width })
}

/// The transforms of a part whose type has its encoding in a descending order, or not.
pub const fn reversed(is_reversed: bool) -> &'static [Transform] {
    if is_reversed { &[Transform::Descending] } else { &[] }
}

/// The encoding of a field of the entity's key: `chosen` is the width that the template chose.
pub const fn key_encoding(
    part: KeyPartType,
    name: &'static str,
    width: Option<usize>,
    chosen: Option<usize>,
) -> PartEncoding {
    match (chosen, width) {
        // Any number of that many digits is one of the type: a field of a wider type has the same keys.
        (Some(chosen), Some(own)) if part.is_unsigned() && chosen < own => {
            PartEncoding::new(KeyPartType::U64, name, None)
        }
        (Some(_), _) => PartEncoding::new(part, name, None),
        (None, width) => PartEncoding::new(part, name, width),
    }
}

/// The encoding of a property that is stored as values of the key part type `stored`: known where the field is a part of that
/// type, and otherwise opaque.
pub const fn encoding(
    part: KeyPartType,
    stored: KeyPartType,
    name: &'static str,
    width: Option<usize>,
    chosen: Option<usize>,
) -> PartEncoding {
    match part {
        KeyPartType::Custom => key_encoding(part, name, width, chosen),
        known if known as u8 == stored as u8 => key_encoding(part, name, width, chosen),
        known => key_encoding(KeyPartType::Custom, known.word(), width, chosen),
    }
}
