use std::marker::PhantomData;

use table_core::manifest::IndexDefinition;
use table_core::model::Entity;
use table_core::query::{Filter, Select};
use table_core::store::{Error, Result};
use table_core::typed::{FromEntity, TableEntity};

use super::place::logical;

/// On a row that is being moved to another bucket: readers ignore it, writers wait.
pub(super) const MOVING: &str = "SpreadMoving";

/// A row of a [`SpreadTable`](super::SpreadTable), under the key that the program knows.
#[derive(Debug)]
pub struct SpreadRow<T> {
    pub(super) entity: Entity,
    /// The stored PartitionKey.
    pub(super) partition: String,
    of: PhantomData<fn() -> T>,
}

impl<T: TableEntity> SpreadRow<T> {
    /// The value.
    ///
    /// # Errors
    /// The row is not a `T`.
    pub fn decode(mut self) -> Result<T> {
        self.entity.properties_mut().remove(MOVING);
        T::from_entity(self.entity)
    }
}

impl<T: TableEntity> FromEntity for SpreadRow<T> {
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

    fn large() -> Vec<&'static str> {
        T::large()
    }

    fn wide() -> bool {
        T::wide()
    }
    fn indexes() -> Vec<&'static IndexDefinition> {
        T::indexes()
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        let partition = entity.key().partition().to_owned();
        let key = logical(entity.key()).ok_or_else(|| {
            let expected = "a bucket before the key, as in `0007_Sales`";
            Error::decode(T::SCHEMA.rust_name, entity.key(), "PartitionKey", expected, &*partition)
        })?;
        Ok(Self { entity: entity.with_key(key), partition, of: PhantomData })
    }
}
