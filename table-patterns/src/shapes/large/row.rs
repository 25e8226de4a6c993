use std::marker::PhantomData;

use table_core::manifest::IndexDefinition;
use table_core::model::{EdmType, Entity, ValueRef};
use table_core::query::{Filter, Select};
use table_core::store::Result;
use table_core::typed::{FromEntity, PropertySchema, Spread, TableEntity};

use super::reference::{Reference, Told, told};

/// A row of a [`LargeTable`](super::LargeTable) as it is stored: its large values may be in blobs. Load it
/// with [`LargeTable::load`](super::LargeTable::load).
#[derive(Debug)]
pub struct LargeRow<T> {
    pub(super) entity: Entity,
    of: PhantomData<fn() -> T>,
}

impl<T> LargeRow<T> {
    /// The properties as they are stored.
    pub const fn entity(&self) -> &Entity {
        &self.entity
    }
}

impl<T: TableEntity> FromEntity for LargeRow<T> {
    fn select() -> Option<Select> {
        T::select()
    }

    fn type_filter() -> Option<Filter> {
        T::type_filter()
    }

    fn encrypted() -> Vec<&'static str> {
        T::encrypted()
    }

    fn unencrypted() -> Vec<&'static str> {
        T::unencrypted()
    }

    fn spread() -> Option<Spread> {
        T::spread()
    }

    fn wide() -> bool {
        T::wide()
    }
    fn indexes() -> Vec<&'static IndexDefinition> {
        T::indexes()
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        Ok(Self { entity, of: PhantomData })
    }
}

/// The large properties of a type.
pub(super) fn large<T: TableEntity>() -> impl Iterator<Item = &'static PropertySchema> {
    T::SCHEMA.properties.iter().filter(|property| property.large.is_some())
}

/// The names of the large properties of a type, in every version of its schema.
pub(super) fn large_names<T: TableEntity>() -> impl Iterator<Item = &'static str> {
    let versions = std::iter::successors(Some(T::SCHEMA), |version| version.previous);
    let properties = versions.flat_map(|version| version.properties.iter());
    properties.filter(|property| property.large.is_some()).map(|property| property.name)
}

/// A row with `text` in place of every large value that is in a blob, for what depends on the others alone; `None` for one
/// that has all of its values.
pub(crate) fn filled<T: TableEntity>(row: &Entity, text: &str) -> Option<Entity> {
    large::<T>().next()?;
    let mut filled: Option<Entity> = None;
    let mut schema = Some(T::SCHEMA);
    while let Some(version) = schema {
        for property in version.properties.iter().filter(|property| property.large.is_some()) {
            let Some(stored) = row.properties().find(property.name) else { continue };
            if stored.value().edm_type() != property.edm_type
                && matches!(told(stored.value()), Some(Told::Blob(_)))
            {
                let value = match property.edm_type {
                    EdmType::String => ValueRef::String(text),
                    _ => ValueRef::Binary(text.as_bytes()),
                };
                let entity = filled.get_or_insert_with(|| row.clone());
                entity.properties_mut().put(property.name, value, stored.is_encrypted());
            }
        }
        schema = version.previous;
    }
    filled
}

/// The values of an entity that are in blobs.
pub(super) fn references<T: TableEntity>(
    entity: &Entity,
) -> Result<Vec<(&'static PropertySchema, Reference)>> {
    let mut found = Vec::new();
    for property in large::<T>() {
        if let Some(value) = entity.get(property.name)
            && let Some(reference) = Reference::read(entity.key(), property, value)?
        {
            found.push((property, reference));
        }
    }
    Ok(found)
}
