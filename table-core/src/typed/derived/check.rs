//! Checks in constant expressions of generated code. The macros see tokens and not types, so the compiler must check
//! rules about types.

use crate::manifest::str_of;
use crate::model::EdmType;
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
    let Ok(mut rest) = std::str::from_utf8(texts) else { panic!("names are text") };
    let (mut all, mut i) = ([EMPTY; N], 0);
    while i < N {
        let (name, behind) = rest.split_at(prefix.len() + group[i].name.len());
        let (alias_prefix, behind) = behind.split_at(prefix.len() + group[i].alias_prefix.len());
        all[i] = PropertySchema { name, alias_prefix, ..group[i] };
        (rest, i) = (behind, i + 1);
    }
    all
}

/// Whether no name and no alias occurs twice among `names` and the groups.
pub const fn distinct(names: &[&str], groups: &[&[PropertySchema]]) -> bool {
    // A type has up to 252 properties, and the compiler bounds the steps of a constant: most types have no aliases in groups.
    let has_aliases = has_aliases(groups);
    let mut i = 0;
    while i < names.len() {
        if occurrences(names, groups, names[i]) > 1 || (has_aliases && former(groups, ["", names[i]]) > 0) {
            return false;
        }
        i += 1;
    }
    let mut group = 0;
    while group < groups.len() {
        let mut i = 0;
        while i < groups[group].len() {
            let name = groups[group][i].name;
            if occurrences(names, groups, name) > 1 || (has_aliases && former(groups, ["", name]) > 0) {
                return false;
            }
            i += 1;
        }
        group += 1;
    }
    !has_aliases || are_aliases_distinct(groups)
}

/// Whether no property of the groups has one of these names, or had it.
pub const fn avoids(reserved: &[&str], groups: &[&[PropertySchema]]) -> bool {
    let mut i = 0;
    while i < reserved.len() {
        if occurrences(&[], groups, reserved[i]) > 0 || former(groups, ["", reserved[i]]) > 0 {
            return false;
        }
        i += 1;
    }
    true
}

const fn has_aliases(groups: &[&[PropertySchema]]) -> bool {
    let mut group = 0;
    while group < groups.len() {
        let mut i = 0;
        while i < groups[group].len() {
            if !groups[group][i].aliases.is_empty() {
                return true;
            }
            i += 1;
        }
        group += 1;
    }
    false
}

const fn are_aliases_distinct(groups: &[&[PropertySchema]]) -> bool {
    let mut group = 0;
    while group < groups.len() {
        let mut i = 0;
        while i < groups[group].len() {
            let PropertySchema { aliases, alias_prefix, .. } = groups[group][i];
            let mut alias = 0;
            while alias < aliases.len() {
                if former(groups, [alias_prefix, aliases[alias]]) > 1 {
                    return false;
                }
                alias += 1;
            }
            i += 1;
        }
        group += 1;
    }
    true
}

const fn occurrences(names: &[&str], groups: &[&[PropertySchema]], name: &str) -> usize {
    let (mut i, mut count) = (0, 0);
    while i < names.len() {
        count += equal(names[i], name) as usize;
        i += 1;
    }
    let mut group = 0;
    while group < groups.len() {
        let mut i = 0;
        while i < groups[group].len() {
            count += equal(groups[group][i].name, name) as usize;
            i += 1;
        }
        group += 1;
    }
    count
}

/// Returns the number of aliases that are this text, in two pieces.
const fn former(groups: &[&[PropertySchema]], text: [&str; 2]) -> usize {
    let (mut group, mut count) = (0, 0);
    while group < groups.len() {
        let mut i = 0;
        while i < groups[group].len() {
            let PropertySchema { aliases, alias_prefix, .. } = groups[group][i];
            let mut alias = 0;
            while alias < aliases.len() {
                count += same([alias_prefix, aliases[alias]], text) as usize;
                alias += 1;
            }
            i += 1;
        }
        group += 1;
    }
    count
}

/// Whether two texts, each in two pieces, are equal.
const fn same(a: [&str; 2], b: [&str; 2]) -> bool {
    if a[0].len() + a[1].len() != b[0].len() + b[1].len() {
        return false;
    }
    let mut i = 0;
    while i < a[0].len() + a[1].len() {
        if byte(a, i) != byte(b, i) {
            return false;
        }
        i += 1;
    }
    true
}

const fn byte(pieces: [&str; 2], at: usize) -> u8 {
    let first = pieces[0].as_bytes();
    if at < first.len() { first[at] } else { pieces[1].as_bytes()[at - first.len()] }
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
}

/// Compares a field of a projection with the property of the same name.
pub const fn projected(schema: &Schema, field: PropertySchema) -> Projected {
    let mut i = 0;
    while i < schema.properties.len() {
        let property = schema.properties[i];
        if equal(property.name, field.name) {
            return compare(property, field);
        }
        i += 1;
    }
    Projected::Missing
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
    if property.optional && !field.optional { Projected::Optional } else { Projected::Fits }
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
    matches!(edm_type, EdmType::Int32 | EdmType::Int64 | EdmType::Double | EdmType::DateTime)
}

/// Whether `#[entity(split)]` is allowed for this type: only text and bytes have parts.
pub const fn can_be_split(edm_type: EdmType) -> bool {
    matches!(edm_type, EdmType::String | EdmType::Binary)
}

/// Whether no property of the groups has the name of a part of the split property `name`.
pub const fn are_parts_free(name: &str, groups: &[&[PropertySchema]]) -> bool {
    let mut group = 0;
    while group < groups.len() {
        let mut i = 0;
        while i < groups[group].len() {
            let other = groups[group][i].name;
            if starts_with(other, name) && starts_with(other.split_at(name.len()).1, "_Part") {
                return false;
            }
            i += 1;
        }
        group += 1;
    }
    true
}

/// Whether a property is stored as a time.
pub const fn is_time(edm_type: EdmType) -> bool {
    matches!(edm_type, EdmType::DateTime)
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
        (Discriminator::None, _) | (_, Discriminator::None) => false,
        (Discriminator::Property(p), Discriminator::Property(q)) => {
            !equal(str_of(p), str_of(q)) || !equal(a.type_name, b.type_name)
        }
        (Discriminator::RowPrefix(p), Discriminator::RowPrefix(q))
        | (Discriminator::PartitionPrefix(p), Discriminator::PartitionPrefix(q)) => {
            !starts_with(str_of(p), str_of(q)) && !starts_with(str_of(q), str_of(p))
        }
        // Different kinds of discriminators: a resolver takes the first variant that fits.
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
