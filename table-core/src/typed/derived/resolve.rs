use super::Slots;
use crate::model::{EdmType, Entity, ValueError, ValueRef};
use crate::query::{Filter, Select};
use crate::store::{Error, Result};
use crate::typed::{Discriminator, PropertySchema, Schema};

/// Whether the discriminator of a type says that the entity is one.
pub fn is_a(schema: &Schema, entity: &Entity) -> bool {
    is_told(schema) && schema.discriminator.admits(schema.type_name, entity)
}

/// The error for an entity that is none of a resolver's types.
///
/// # Errors
/// Always.
pub fn no_variant<T>(resolver: &'static str, schemas: &[&Schema], entity: &Entity) -> Result<T> {
    let names: Vec<_> = schemas.iter().map(|s| s.type_name).collect();
    let property = schemas.iter().find_map(|s| s.discriminator.property());
    let property = property.unwrap_or("RowKey");
    let found = match (property, entity.get(property)) {
        (_, Some(ValueRef::String(found))) => format!("{found:?}"),
        ("RowKey", _) => format!("{:?}", entity.key().row()),
        _ => "no discriminator".to_owned(),
    };
    Err(Error::decode(resolver, entity.key(), property, format!("one of {}", names.join(", ")), found))
}

/// Checks that a row is of a projection's entity, in its current schema version.
///
/// # Errors
/// It is of another type or version.
pub fn check_projected(owner: &'static str, schema: &Schema, entity: &Entity) -> Result<()> {
    static NAMES: [&str; 2] = [Schema::VERSION_PROPERTY, Schema::READER_PROPERTY];
    if schema.discriminator != Discriminator::None && !is_a(schema, entity) {
        return no_variant(owner, &[schema], entity);
    }
    Slots::scan(owner, &NAMES, entity).check_version(0, schema.version)
}

/// The properties that a projection of an entity needs.
pub fn select(schema: &Schema, names: &[&str]) -> Select {
    let discriminator = schema.discriminator.property();
    let versions = [&Schema::VERSION_PROPERTY, &Schema::READER_PROPERTY];
    Select::new(discriminator.iter().chain(versions).chain(names))
}

/// What reading any of several types needs; `None` if one of them needs everything.
pub fn select_all(selects: impl IntoIterator<Item = Option<Select>>) -> Option<Select> {
    let selects: Option<Vec<Select>> = selects.into_iter().collect();
    let selects = selects?;
    Some(Select::new(selects.iter().flat_map(Select::names)))
}

/// The condition that keeps other rows than those of several types out; `None` if one of them
/// takes every row.
pub fn filter_all(filters: impl IntoIterator<Item = Option<Filter>>) -> Option<Filter> {
    let filters: Option<Vec<Filter>> = filters.into_iter().collect();
    filters?.into_iter().reduce(Filter::or)
}

/// Whether the rows of a type can be told from others.
pub const fn is_told(schema: &Schema) -> bool {
    !matches!(schema.discriminator, Discriminator::None)
}

/// The error of an enum for a value that is none of its texts.
pub fn no_text(texts: &[&str], found: ValueRef<'_>) -> ValueError {
    match found {
        ValueRef::String(text) => {
            ValueError::new(format!("one of {}", texts.join(", ")), format_args!("{text:?}"))
        }
        other => ValueError::new(EdmType::String.name(), other.edm_type()),
    }
}

/// The marked properties of a type.
pub fn encrypted(properties: &[PropertySchema]) -> Vec<&'static str> {
    properties.iter().filter(|p| p.encrypted).map(|p| p.name).collect()
}

/// The properties of a type that carry no mark.
pub fn unencrypted(properties: &[PropertySchema]) -> Vec<&'static str> {
    properties.iter().filter(|p| !p.encrypted).map(|p| p.name).collect()
}

/// The properties of a type whose values may be in blobs.
pub fn large(properties: &[PropertySchema]) -> Vec<&'static str> {
    properties.iter().filter(|p| p.large.is_some()).map(|p| p.name).collect()
}
