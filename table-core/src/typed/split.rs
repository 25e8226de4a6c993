//! Values in several properties: `#[entity(split)]`.
//!
//! A value that fits one property is stored as any other. A longer value is stored in parts:
//!
//! | property | value |
//! |---|---|
//! | `Body` | absent |
//! | `Body_Parts` | Int32: the number of parts |
//! | `Body_Part1`, `Body_Part2`, … | the parts, in the order of their numbers |
//!
//! A reader that does not know the parts finds no `Body`, instead of a part that looks like a whole value.
//!
//! A merge cannot remove properties, so it would leave parts of a longer value. Code that merges a split value reads the
//! entity and replaces it: see [`Schema::merged`](super::Schema::merged).

use super::derived::{NamePieces, marks};
use crate::limits::{BINARY_BYTES, STRING_UNITS};
use crate::model::{EdmType, Entity, Properties, PropertyRef, ValueRef};

/// Between the name of a property and the number of a part.
const PART: &str = "_Part";

/// Returns the name of the property with the number of parts.
pub(super) fn count_name(name: &str) -> String {
    format!("{name}{PART}s")
}

fn part_name(name: &str, number: usize) -> String {
    format!("{name}{PART}{number}")
}

/// Whether a name is reserved for the parts of the split value `whole`: `_Parts`, or `_Part` and a number from 1 on,
/// follows the name of the value.
///
/// Reads, writes and the derive macro all use this rule. So no other property of a type can be read as a part, or be removed
/// with the parts of a former value.
pub(super) const fn is_part(name: NamePieces<'_>, whole: &str) -> bool {
    let number = whole.len() + PART.len();
    if name.len() <= number || !name.starts_with(NamePieces(whole, PART)) {
        return false;
    }
    if name.byte(number) == b's' {
        return name.len() == number + 1;
    }
    // The writer of the parts writes no leading zeros.
    let mut is_number = name.byte(number) != b'0';
    let mut i = number;
    while i < name.len() {
        is_number &= name.byte(i).is_ascii_digit();
        i += 1;
    }
    is_number
}

/// Appends a value as one property, or in parts if one property cannot hold it.
pub(super) fn push(properties: &mut Properties, name: &str, value: ValueRef<'_>, encrypt: bool) {
    let parts: Vec<ValueRef<'_>> = match value {
        ValueRef::String(text) => text_parts(text, encrypt)
            .into_iter()
            .map(ValueRef::String)
            .collect(),
        ValueRef::Binary(bytes) => bytes.chunks(BINARY_BYTES).map(ValueRef::Binary).collect(),
        _ => Vec::new(),
    };
    // An empty value has no parts. It is stored as one property, because an absent property would be `None`.
    if parts.len() < 2 {
        return properties.push(name, value, encrypt);
    }
    // More parts than an `i32` counts do not fit into an entity: the store refuses them.
    let count = i32::try_from(parts.len()).unwrap_or(i32::MAX);
    properties.push(&count_name(name), ValueRef::Int32(count), encrypt);
    for (n, part) in parts.into_iter().enumerate() {
        properties.push(&part_name(name, n + 1), part, encrypt);
    }
}

fn text_parts(mut text: &str, encrypt: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (part, rest) = text.split_at(first_part_bytes(text, encrypt));
        parts.push(part);
        text = rest;
    }
    parts
}

/// Returns the length in bytes of the longest start of a text that one property can store.
fn first_part_bytes(text: &str, encrypt: bool) -> usize {
    // Each UTF-16 unit takes at least one byte of UTF-8.
    if text.len() <= STRING_UNITS {
        return text.len();
    }
    let mut units = 0;
    for (start, c) in text.char_indices() {
        units += c.len_utf16();
        // An encrypted text is stored as Binary, which is as long as its UTF-8.
        if units > STRING_UNITS || (encrypt && start + c.len_utf8() > BINARY_BYTES) {
            return start;
        }
    }
    text.len()
}

/// The parts of one value in an entity.
pub(super) struct Parts<'a> {
    count: Option<PropertyRef<'a>>,
    /// The parts with their numbers, in the order of the numbers.
    numbered: Vec<(usize, PropertyRef<'a>)>,
}

/// The property because of which the parts of a value cannot be put together: it is absent or not as expected.
pub(super) struct BadPart {
    pub(super) property: String,
    pub(super) expected: String,
    pub(super) found: String,
}

impl<'a> Parts<'a> {
    /// Finds the parts of a value; `None` if there are none.
    pub(super) fn find(entity: &'a Entity, name: &str) -> Option<Self> {
        let (mut count, mut numbered) = (None, Vec::new());
        for property in entity.properties() {
            if !is_part(NamePieces::of(property.name()), name) {
                continue;
            }
            // A number that is too large for a `usize` is larger than every number of parts.
            match &property.name()[name.len() + PART.len()..] {
                "s" => count = Some(property),
                number => numbered.push((number.parse().unwrap_or(usize::MAX), property)),
            }
        }
        numbered.sort_by_key(|(number, _)| *number);
        (count.is_some() || !numbered.is_empty()).then_some(Self { count, numbered })
    }

    /// Calls `read` with the whole value, which has the type `edm_type`.
    ///
    /// # Errors
    /// Fails if a part is missing, has another type or another mark.
    pub(super) fn read<T>(
        &self,
        name: &str,
        edm_type: EdmType,
        encrypt: bool,
        read: impl for<'v> FnOnce(ValueRef<'v>) -> T,
    ) -> Result<T, BadPart> {
        let bad = |property, expected: &str, found: &str| BadPart {
            property,
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        let check_mark = |property: &PropertyRef<'_>| match property.is_encrypted() == encrypt {
            true => Ok(()),
            false => {
                let (expected, found) = marks(encrypt);
                Err(bad(property.name().to_owned(), expected, found))
            }
        };
        let bad_count = || {
            bad(
                count_name(name),
                "the number of parts as an Edm.Int32",
                "no such number",
            )
        };
        let count = self.count.as_ref().ok_or_else(bad_count)?;
        check_mark(count)?;
        let ValueRef::Int32(count) = count.value() else {
            return Err(bad_count());
        };
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(bad_count)?;
        let (mut text, mut bytes) = (String::new(), Vec::new());
        for number in 1..=count {
            let position = self
                .numbered
                .binary_search_by_key(&number, |(number, _)| *number);
            let property = part_name(name, number);
            let expected = format!("part {number} of {count} as an {}", edm_type.name());
            let Ok(position) = position else {
                return Err(bad(property, &expected, "no such property"));
            };
            let part = &self.numbered[position].1;
            check_mark(part)?;
            match (edm_type, part.value()) {
                (EdmType::String, ValueRef::String(part)) => text.push_str(part),
                (EdmType::Binary, ValueRef::Binary(part)) => bytes.extend_from_slice(part),
                (_, other) => return Err(bad(property, &expected, other.edm_type().name())),
            }
        }
        Ok(match edm_type {
            EdmType::String => read(ValueRef::String(&text)),
            _ => read(ValueRef::Binary(&bytes)),
        })
    }
}

impl super::Schema {
    /// Whether a value of the type may be in several properties, so that a merge of a whole entity must read the stored
    /// entity and replace it.
    #[doc(hidden)]
    pub fn has_split(&self) -> bool {
        self.properties.iter().any(|property| property.split)
    }

    /// Removes the stored forms of the split values that `over` sets.
    pub(super) fn remove_split_values(&self, over: &Entity, from: &mut Entity) {
        // A row with both forms of a value cannot be read, because the values may differ. So all properties of the former
        // value are removed before the merge adds the new value.
        for split in self.properties.iter().filter(|property| property.split) {
            let has = |property: PropertyRef<'_>| split.has_name(property.name());
            if over.properties().iter().any(has) {
                from.properties_mut()
                    .retain(|property| !split.has_name(property.name()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_recognized() {
        for (name, whole) in [
            ("Body_Parts", Some("Body")),
            ("Body_Part1", Some("Body")),
            ("Body_Part251", Some("Body")),
            ("A_Part1_Part2", Some("A_Part1")),
            ("Body_Part", None),
            ("Body_Part0", None),
            ("Body_Part01", None),
            ("Body_Part1a", None),
            ("Body_Partss", None),
            ("Body_Partner", None),
            ("Body", None),
        ] {
            for candidate in ["A", "A_Part1", "Bod", "Body", "Body_Part", "Body_Part1"] {
                assert_eq!(
                    is_part(NamePieces::of(name), candidate),
                    whole == Some(candidate),
                    "{name}"
                );
                // The same name as the alias of a flattened group with a prefix.
                for (prefix, alias) in (0..name.len()).map(|at| name.split_at(at)) {
                    let pieces = NamePieces(prefix, alias);
                    assert_eq!(
                        is_part(pieces, candidate),
                        whole == Some(candidate),
                        "{prefix} {alias}"
                    );
                }
            }
        }
    }

    #[test]
    fn parts_are_as_long_as_a_property_and_keep_characters_whole() {
        let text = format!("{}{}", "a".repeat(STRING_UNITS - 1), "\u{1F600}".repeat(3));
        let parts = text_parts(&text, false);
        assert_eq!(
            parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
            [STRING_UNITS - 1, 12]
        );
        assert_eq!(parts.concat(), text);
        // Three bytes of UTF-8, one unit of UTF-16.
        let text = "\u{20AC}".repeat(STRING_UNITS + 1);
        let lengths = |encrypt| {
            text_parts(&text, encrypt)
                .iter()
                .map(|part| part.len() / 3)
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(false), [STRING_UNITS, 1]);
        assert_eq!(
            lengths(true),
            [BINARY_BYTES / 3, STRING_UNITS + 1 - BINARY_BYTES / 3]
        );
    }
}
