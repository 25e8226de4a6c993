//! Rules that only the compiler can check, because the macros see tokens and not types.

use crate::manifest::str_of;
use crate::model::EdmType;
use crate::typed::{Discriminator, PropertySchema, Schema};

const EMPTY: PropertySchema =
    PropertySchema { name: "", edm_type: EdmType::String, optional: false, encrypted: false, large: None };

/// The properties of several groups as one array of `N`, their total.
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

/// Whether no name occurs twice among `names` and the groups.
pub const fn distinct(names: &[&str], groups: &[&[PropertySchema]]) -> bool {
    let mut i = 0;
    while i < names.len() {
        if occurrences(names, groups, names[i]) > 1 {
            return false;
        }
        i += 1;
    }
    let mut group = 0;
    while group < groups.len() {
        let mut i = 0;
        while i < groups[group].len() {
            if occurrences(names, groups, groups[group][i].name) > 1 {
                return false;
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

/// How a field of a projection fits its entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projected {
    /// It does.
    Fits,
    /// The entity has no such property.
    Missing,
    /// The property has another type.
    OtherType,
    /// The property may be absent, the field not.
    Optional,
    /// One is encrypted, the other not.
    OtherMark,
    /// The value may not be in the row.
    Large,
}

/// Compares a field of a projection with the entity's property of that name.
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
    if property.edm_type as u8 != field.edm_type as u8 {
        return Projected::OtherType;
    }
    if property.large.is_some() {
        return Projected::Large;
    }
    if property.encrypted != field.encrypted {
        return Projected::OtherMark;
    }
    if property.optional && !field.optional { Projected::Optional } else { Projected::Fits }
}

/// Whether a large property of this type can leave the row, and one of `over` bytes can stay: a String
/// holds 32 Ki UTF-16 units, of which none has less than a byte.
pub const fn can_be_large(edm_type: EdmType, over: usize) -> bool {
    match edm_type {
        EdmType::String => over <= crate::store::limits::STRING_UNITS,
        EdmType::Binary => over <= crate::store::limits::BINARY_BYTES,
        _ => false,
    }
}

/// Whether a version and its previous one describe the same rows.
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

/// Whether no row can be both, as far as the discriminators tell.
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
        // Told by different means: the first variant that fits is taken.
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
