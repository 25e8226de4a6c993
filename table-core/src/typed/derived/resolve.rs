use super::Slots;
use crate::model::property::text;
use crate::model::{ETag, EdmType, Entity, Ticks, ValueError, ValueRef};
use crate::query::{Filter, Select};
use crate::store::{Error, Result};
use crate::typed::{Discriminator, FromEntity, Property as _, Schema, TableEntity};

/// Whether the discriminator says that the entity has this type.
pub fn is_a(schema: &Schema, entity: &Entity) -> bool {
    has_discriminator(schema) && schema.discriminator.admits(schema.type_name, entity)
}

/// Returns the error for an entity that has none of a resolver's types.
///
/// # Errors
/// Always fails.
pub fn no_variant<T>(resolver: &'static str, schemas: &[&Schema], entity: &Entity) -> Result<T> {
    let names: Vec<_> = schemas.iter().map(|s| s.type_name).collect();
    let property = schemas.iter().find_map(|s| s.discriminator.property());
    let property = property.unwrap_or("RowKey");
    let found = match (property, entity.get(property)) {
        (_, Some(ValueRef::String(found))) => format!("{found:?}"),
        ("RowKey", _) => format!("{:?}", entity.key().row()),
        _ => "no discriminator".to_owned(),
    };
    Err(Error::decode(
        resolver,
        entity.key(),
        property,
        format!("one of {}", names.join(", ")),
        found,
    ))
}

/// Checks that a row has the entity type of a projection, in the current schema version.
///
/// # Errors
/// Fails if the row has another type or schema version.
pub fn check_projected(owner: &'static str, schema: &Schema, entity: &Entity) -> Result<()> {
    static NAMES: [&str; 2] = [Schema::VERSION_PROPERTY, Schema::READER_PROPERTY];
    if schema.discriminator != Discriminator::None && !is_a(schema, entity) {
        return no_variant(owner, &[schema], entity);
    }
    Slots::scan(owner, &NAMES, entity).check_version(0, schema.version)
}

/// Returns the properties that a projection reads.
pub fn select(schema: &Schema, names: &[&str]) -> Select {
    let discriminator = schema.discriminator.property();
    let versions = [&Schema::VERSION_PROPERTY, &Schema::READER_PROPERTY];
    Select::new(discriminator.iter().chain(versions).chain(names))
}

/// Returns the properties that a resolver reads for any of its types; `None` for all, if one type needs all.
pub fn select_all(selects: impl IntoIterator<Item = Option<Select>>) -> Option<Select> {
    let selects: Option<Vec<Select>> = selects.into_iter().collect();
    let selects = selects?;
    Some(Select::new(selects.iter().flat_map(Select::names)))
}

/// Returns the filter that selects the rows of a resolver's types; `None` if one type can be read from every row.
pub fn filter_all(filters: impl IntoIterator<Item = Option<Filter>>) -> Option<Filter> {
    let filters: Option<Vec<Filter>> = filters.into_iter().collect();
    filters?.into_iter().reduce(Filter::or)
}

/// Whether the type has a discriminator.
pub const fn has_discriminator(schema: &Schema) -> bool {
    !matches!(schema.discriminator, Discriminator::None)
}

/// Returns the error of an enum for a value that is none of its texts.
pub fn no_text(texts: &[&str], found: ValueRef<'_>) -> ValueError {
    match found {
        ValueRef::String(text) => unknown_value(&texts.join(", "), &format!("{text:?}")),
        other => ValueError::new(EdmType::String.name(), other.edm_type()),
    }
}

/// Returns the error of an enum for a value that is none of its numbers.
pub fn no_number(numbers: &[i32], found: i32) -> ValueError {
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    unknown_value(&numbers.join(", "), &found.to_string())
}

fn unknown_value(known: &str, found: &str) -> ValueError {
    let remedy = "a later program may have written it; a variant with `#[entity(other)]` accepts such values";
    ValueError::new(
        format!("one of {known}"),
        format_args!("{found} ({remedy})"),
    )
}

/// Returns the error for a variant that stands for all other values and does not keep the value.
pub fn lost_value(variant: &str) -> ValueError {
    let expected = "a value that can be stored; a variant that keeps the value, such as `Other(String)`, can be written back";
    ValueError::new(
        expected,
        format_args!("{variant}, which stands for a value that this program does not know"),
    )
}

/// Returns the text of an enum.
///
/// # Errors
/// Fails if the value is not a String.
pub fn text_of(value: ValueRef<'_>) -> Result<&str, ValueError> {
    text(value)
}

/// Returns the number of an enum: an Int32, or an Int64 in that range, which other clients write.
///
/// # Errors
/// Fails if the value is not such a number.
pub fn number_of(value: ValueRef<'_>) -> Result<i32, ValueError> {
    match value {
        ValueRef::Int64(wide) => wide
            .try_into()
            .map_err(|_| ValueError::new("a number in the range of an Int32", wide)),
        other => i32::read(other),
    }
}

/// Reads an entity of an older schema version as the older type and converts it to the new type.
///
/// `system` sets the ETag and timestamp of the new value, because a conversion need not keep them.
///
/// # Errors
/// Fails if the older type cannot be read, or if the conversion changes the key: a write of the new value would leave
/// the old row in the table.
pub fn upgrade<Old, New>(
    entity: Entity,
    system: impl FnOnce(&mut New, Option<ETag>, Option<Ticks>),
) -> Result<New>
where
    Old: FromEntity + Into<New>,
    New: TableEntity,
{
    let (key, etag, timestamp) = (
        entity.key().clone(),
        entity.etag().cloned(),
        entity.timestamp(),
    );
    let mut new = Old::from_entity(entity)?.into();
    let new_key = new.entity_key()?.into_key();
    if new_key != key {
        let (name, expected) = (
            New::SCHEMA.rust_name,
            "a conversion from the previous version that keeps the key",
        );
        return Err(Error::decode(
            name,
            key,
            "RowKey",
            expected,
            new_key.to_string(),
        ));
    }
    system(&mut new, etag, timestamp);
    Ok(new)
}
