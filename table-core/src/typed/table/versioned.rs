use std::ops::{Deref, DerefMut};

use crate::manifest::IndexDefinition;
use crate::model::{ETag, Entity, Key, Ticks};
use crate::query::{Filter, Select};
use crate::store::{Error, ErrorKind, Result};
use crate::typed::{FromEntity, Spread};

/// A value with the version and the time that the store gave it, for types that have no fields
/// for them.
///
/// Readable wherever the value is: `table.view::<Versioned<T>>()`, `query.project::<Versioned<T>>()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The version that was read, for [`Table::replace_if`](super::Table::replace_if) and the like.
    pub etag: ETag,
    /// When it was last written, by the store's clock, if the store told.
    pub timestamp: Option<Ticks>,
}

impl<T: FromEntity> FromEntity for Versioned<T> {
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
        let etag = entity.etag().cloned().ok_or_else(|| without_etag(entity.key()))?;
        let timestamp = entity.timestamp();
        Ok(Self { value: T::from_entity(entity)?, etag, timestamp })
    }
}

/// The error for an answer that tells no version.
pub(super) fn without_etag(key: &Key) -> Error {
    ErrorKind::Service(format!("{key} without an ETag")).into()
}

impl<T> Deref for Versioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Versioned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
