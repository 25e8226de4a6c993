//! Checks in constant expressions of generated code. The macros see tokens and not types, so the compiler must check
//! rules about types.

use crate::manifest::str_of;
use crate::model::EdmType;
use crate::typed::split::is_part;
use crate::typed::{Discriminator, PropertySchema, Schema};

const EMPTY: PropertySchema = PropertySchema {
    name: "",
    aliases: &[],
    alias_prefix: "",
    edm_type: EdmType::String,
    optional: false,
    encrypted: false,
    large: None,
    split: false,
};

/// Joins the properties of several groups to one array. `N` must be their total number.
// Constant functions have neither iterators nor `for`: <https://doc.rust-lang.org/reference/const_eval.html>. Hence the
// loops with `while` in this file.
pub const fn joined<const N: usize>(groups: &[&[PropertySchema]]) -> [PropertySchema; N] {
    let mut all = [EMPTY; N];
    let (mut group, mut n) = (0, 0);
    while group < groups.len() {
        let mut i = 0;
        while i < groups[group].len() {
            all[n] = groups[group][i];
            (i, n) = (i + 1, n + 1);
        }
        group += 1;
    }
    all
}

/// Returns the bytes of [`prefixed_names`].
pub const fn prefixed_bytes(prefix: &str, group: &[PropertySchema]) -> usize {
    let (mut i, mut bytes) = (0, 0);
    while i < group.len() {
        bytes += 2 * prefix.len() + group[i].name.len() + group[i].alias_prefix.len();
        i += 1;
    }
    bytes
}

/// Returns the texts of [`prefixed`] one after another: name and alias prefix of each property, each behind the prefix.
pub const fn prefixed_names<const B: usize>(prefix: &str, group: &[PropertySchema]) -> [u8; B] {
    let (mut out, mut at, mut i) = ([0; B], 0, 0);
    while i < group.len() {
        let texts = [prefix, group[i].name, prefix, group[i].alias_prefix];
        let mut text = 0;
        while text < texts.len() {
            let bytes = texts[text].as_bytes();
            let mut n = 0;
            while n < bytes.len() {
                out[at] = bytes[n];
                (at, n) = (at + 1, n + 1);
            }
            text += 1;
        }
        i += 1;
    }
    out
}

/// Returns the properties of a group with a prefix in front of their names. `texts` are the [`prefixed_names`].
pub const fn prefixed<const N: usize>(
    prefix: &str,
    texts: &'static [u8],
    group: &[PropertySchema],
) -> [PropertySchema; N] {
    let Ok(mut rest) = std::str::from_utf8(texts) else {
        panic!("names are text")
    };
    let (mut all, mut i) = ([EMPTY; N], 0);
    while i < N {
        let (name, behind) = rest.split_at(prefix.len() + group[i].name.len());
        let (alias_prefix, behind) = behind.split_at(prefix.len() + group[i].alias_prefix.len());
        all[i] = PropertySchema {
            name,
            alias_prefix,
            ..group[i]
        };
        (rest, i) = (behind, i + 1);
    }
    all
}

/// Whether each name and alias occurs once among `names`, the names of a type's own properties with their aliases, and
/// the properties of its flattened groups.
pub const fn are_distinct(names: &[&str], flattened: &[PropertySchema]) -> bool {
    // The compiler bounds the steps of a constant, and a type has up to 252 properties. Most groups have no aliases.
    let has_aliases = has_aliases(flattened);
    let mut i = 0;
    while i < names.len() + flattened.len() {
        let name = if i < names.len() {
            names[i]
        } else {
            flattened[i - names.len()].name
        };
        let aliases = if has_aliases {
            count_aliases(flattened, NamePieces::of(name))
        } else {
            0
        };
        if count_names(names, flattened, name) + aliases > 1 {
            return false;
        }
        i += 1;
    }
    !has_aliases || are_aliases_distinct(flattened)
}

/// Whether no flattened property has a reserved name, now or as an alias.
pub const fn avoids(reserved: &[&str], flattened: &[PropertySchema]) -> bool {
    let mut i = 0;
    while i < reserved.len() {
        let aliases = count_aliases(flattened, NamePieces::of(reserved[i]));
        if count_names(&[], flattened, reserved[i]) + aliases > 0 {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether nothing but the parts of the split value `whole` has the name of one of its parts: not the names and aliases
/// of the type's own properties, and not its flattened properties.
pub const fn are_parts_free(whole: &str, names: &[&str], flattened: &[PropertySchema]) -> bool {
    let mut i = 0;
    while i < names.len() {
        if is_part(NamePieces::of(names[i]), whole) {
            return false;
        }
        i += 1;
    }
    let mut i = 0;
    while i < flattened.len() {
        let PropertySchema {
            name,
            aliases,
            alias_prefix,
            ..
        } = flattened[i];
        if is_part(NamePieces::of(name), whole) {
            return false;
        }
        let mut alias = 0;
        while alias < aliases.len() {
            if is_part(NamePieces(alias_prefix, aliases[alias]), whole) {
                return false;
            }
            alias += 1;
        }
        i += 1;
    }
    true
}

const fn has_aliases(properties: &[PropertySchema]) -> bool {
    let mut i = 0;
    while i < properties.len() {
        if !properties[i].aliases.is_empty() {
            return true;
        }
        i += 1;
    }
    false
}

const fn are_aliases_distinct(properties: &[PropertySchema]) -> bool {
    let mut i = 0;
    while i < properties.len() {
        let PropertySchema {
            aliases,
            alias_prefix,
            ..
        } = properties[i];
        let mut alias = 0;
        while alias < aliases.len() {
            if count_aliases(properties, NamePieces(alias_prefix, aliases[alias])) > 1 {
                return false;
            }
            alias += 1;
        }
        i += 1;
    }
    true
}

/// Returns how often a name occurs among `names` and the current names of the properties.
const fn count_names(names: &[&str], properties: &[PropertySchema], name: &str) -> usize {
    let (mut i, mut count) = (0, 0);
    while i < names.len() {
        count += equal(names[i], name) as usize;
        i += 1;
    }
    let mut i = 0;
    while i < properties.len() {
        count += equal(properties[i].name, name) as usize;
        i += 1;
    }
    count
}

/// Returns how often a name occurs among the aliases of the properties.
const fn count_aliases(properties: &[PropertySchema], name: NamePieces<'_>) -> usize {
    let (mut i, mut count) = (0, 0);
    while i < properties.len() {
        let PropertySchema {
            aliases,
            alias_prefix,
            ..
        } = properties[i];
        let mut alias = 0;
        while alias < aliases.len() {
            count += NamePieces(alias_prefix, aliases[alias]).equals(name) as usize;
            alias += 1;
        }
        i += 1;
    }
    count
}

/// A property name in two pieces: the prefix of a flattened group, which may be empty, and a name or alias in the group.
/// Constant functions cannot join texts of any length.
#[derive(Clone, Copy)]
pub(in crate::typed) struct NamePieces<'a>(
    pub(in crate::typed) &'a str,
    pub(in crate::typed) &'a str,
);

impl<'a> NamePieces<'a> {
    /// Creates a name without a prefix.
    pub(in crate::typed) const fn of(name: &'a str) -> Self {
        Self("", name)
    }

    /// Returns the length in bytes.
    pub(in crate::typed) const fn len(self) -> usize {
        self.0.len() + self.1.len()
    }

    pub(in crate::typed) const fn byte(self, at: usize) -> u8 {
        let first = self.0.as_bytes();
        if at < first.len() {
            first[at]
        } else {
            self.1.as_bytes()[at - first.len()]
        }
    }

    const fn equals(self, other: Self) -> bool {
        self.len() == other.len() && self.starts_with(other)
    }

    pub(in crate::typed) const fn starts_with(self, start: NamePieces<'_>) -> bool {
        if start.len() > self.len() {
            return false;
        }
        let mut i = 0;
        while i < start.len() {
            if self.byte(i) != start.byte(i) {
                return false;
            }
            i += 1;
        }
        true
    }
}

/// Whether a field of a projection fits the entity type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projected {
    /// The field fits.
    Fits,
    /// The entity has no property with this name.
    Missing,
    /// The property has another EDM type.
    OtherType,
    /// The property may be absent, but the field is not optional.
    Optional,
    /// Only one of property and field is encrypted.
    OtherMark,
    /// The property is large: its value may be in a blob instead of the row.
    Large,
    /// The property is split: its value may be in several properties.
    Split,
    /// The value is in a key of the entity.
    Key,
}

/// Compares a field of a projection with the property of the same name. `ident` is the name of the field in the struct.
pub const fn projected(schema: &Schema, field: PropertySchema, ident: &str) -> Projected {
    let mut i = 0;
    while i < schema.properties.len() {
        let property = schema.properties[i];
        if equal(property.name, field.name) {
            return compare(property, field);
        }
        i += 1;
    }
    if has_part(schema.partition_key, ident) || has_part(schema.row_key, ident) {
        Projected::Key
    } else {
        Projected::Missing
    }
}

/// Whether a key template has a part for a field: `{id}`, `{id:06}` or `{id#16}`.
const fn has_part(template: &str, field: &str) -> bool {
    let (template, field) = (template.as_bytes(), field.as_bytes());
    let mut start = 0;
    while start + field.len() + 1 < template.len() {
        let mut same = 0;
        while same < field.len() && template[start + 1 + same] == field[same] {
            same += 1;
        }
        let ends = matches!(template[start + 1 + same], b'}' | b':' | b'#');
        if template[start] == b'{' && same == field.len() && ends {
            return true;
        }
        start += 1;
    }
    false
}

const fn compare(property: PropertySchema, field: PropertySchema) -> Projected {
    // `==` of an enum is a trait method, which constant functions cannot call.
    if property.edm_type as u8 != field.edm_type as u8 {
        return Projected::OtherType;
    }
    if property.large.is_some() {
        return Projected::Large;
    }
    if property.split {
        return Projected::Split;
    }
    if property.encrypted != field.encrypted {
        return Projected::OtherMark;
    }
    if property.optional && !field.optional {
        Projected::Optional
    } else {
        Projected::Fits
    }
}

/// Whether `#[large(over = …)]` is allowed for this type: the type can be in a blob, and a value of `over` bytes fits into
/// a row. A String in a row has at most 32 Ki UTF-16 units, and each unit takes at least 1 byte.
pub const fn can_be_large(edm_type: EdmType, over: usize) -> bool {
    match edm_type {
        EdmType::String => over <= crate::store::limits::STRING_UNITS,
        EdmType::Binary => over <= crate::store::limits::BINARY_BYTES,
        _ => false,
    }
}

/// Whether a summary can add up properties of this type: its sums are exact.
pub const fn can_be_summed(edm_type: EdmType) -> bool {
    matches!(edm_type, EdmType::Int32 | EdmType::Int64)
}

/// Whether a summary can keep the minimum and maximum of properties of this type.
pub const fn has_extremes(edm_type: EdmType) -> bool {
    matches!(
        edm_type,
        EdmType::Int32 | EdmType::Int64 | EdmType::Double | EdmType::DateTime
    )
}

/// Whether `#[entity(split)]` is allowed for this type: only text and bytes have parts.
pub const fn can_be_split(edm_type: EdmType) -> bool {
    matches!(edm_type, EdmType::String | EdmType::Binary)
}

/// Whether two schema versions describe the same type: type name and discriminator are equal.
pub const fn same_type(a: &Schema, b: &Schema) -> bool {
    equal(a.type_name, b.type_name)
        && match (&a.discriminator, &b.discriminator) {
            (Discriminator::None, Discriminator::None) => true,
            (Discriminator::Property(a), Discriminator::Property(b))
            | (Discriminator::RowPrefix(a), Discriminator::RowPrefix(b))
            | (Discriminator::PartitionPrefix(a), Discriminator::PartitionPrefix(b)) => {
                equal(str_of(a), str_of(b))
            }
            _ => false,
        }
}

/// Whether the discriminators of two types exclude each other, so that a row cannot belong to both.
pub const fn is_distinct_from(a: &Schema, b: &Schema) -> bool {
    match (&a.discriminator, &b.discriminator) {
        (Discriminator::Property(p), Discriminator::Property(q)) => {
            !equal(str_of(p), str_of(q)) || !equal(a.type_name, b.type_name)
        }
        (Discriminator::RowPrefix(p), Discriminator::RowPrefix(q))
        | (Discriminator::PartitionPrefix(p), Discriminator::PartitionPrefix(q)) => {
            !starts_with(str_of(p), str_of(q)) && !starts_with(str_of(q), str_of(p))
        }
        // Different kinds of discriminators: a resolver takes the first variant that fits. A type without one is refused by itself.
        _ => true,
    }
}

const fn equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && starts_with(a, b)
}

const fn starts_with(text: &str, prefix: &str) -> bool {
    let (text, prefix) = (text.as_bytes(), prefix.as_bytes());
    if prefix.len() > text.len() {
        return false;
    }
    let mut i = 0;
    while i < prefix.len() {
        if text[i] != prefix[i] {
            return false;
        }
        i += 1;
    }
    true
}
