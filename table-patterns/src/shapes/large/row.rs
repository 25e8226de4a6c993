//! Rows of large entities.

use std::marker::PhantomData;

use table_core::model::Entity;
use table_core::query::{Filter, Select};
use table_core::store::Result;
use table_core::typed::{FromEntity, PropertySchema, Requirements, TableEntity};

use crate::blobs::Reference;

/// A stored row of a [`LargeTable`](super::LargeTable), whose large values may be in blobs.
/// [`LargeTable::load`](super::LargeTable::load) reads them.
#[derive(Debug)]
pub struct LargeRow<T> {
    pub(super) entity: Entity,
    of: PhantomData<fn() -> T>,
}

impl<T> LargeRow<T> {
    /// The stored properties.
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

    fn requirements() -> Requirements {
        Requirements { large: Vec::new(), ..T::requirements() }
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        Ok(Self { entity, of: PhantomData })
    }
}

/// The large properties of a type in its current schema version.
pub(super) fn large<T: TableEntity>() -> impl Iterator<Item = &'static PropertySchema> {
    T::SCHEMA.properties.iter().filter(|property| property.large.is_some())
}

/// The names of the large properties of a type in all schema versions.
pub(super) fn large_names<T: TableEntity>() -> impl Iterator<Item = &'static str> {
    let versions = std::iter::successors(Some(T::SCHEMA), |version| version.previous);
    let properties = versions.flat_map(|version| version.properties.iter());
    properties.filter(|property| property.large.is_some()).map(|property| property.name)
}

/// The declared large values of a row that are in blobs.
pub(super) fn declared_references<T: TableEntity>(
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
