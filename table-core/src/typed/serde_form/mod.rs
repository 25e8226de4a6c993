//! Types with serde's `Serialize` and `Deserialize` as entities, without the derive macro.

mod decode;
mod encode;

use std::ops::{Deref, DerefMut};

use serde::de::DeserializeOwned;

pub(super) use decode::decode;
pub(super) use encode::{Encoded, encode};

use super::FromEntity;
use crate::model::Entity;
use crate::query::{Filter, Select};
use crate::store::Result;

/// A value of a type with serde's `Deserialize`, read from an entity. [`SerdeTable`](super::SerdeTable) writes such types, and says how
/// they are stored. Reads of every handle accept the wrapper: `table.view::<Serde<T>>()`, `query.project::<Serde<T>>()`.
///
/// ```
/// use table_core::prelude::*;
/// use table_core::typed::{FromEntity, Serde};
///
/// #[derive(serde::Deserialize)]
/// struct Name {
///     #[serde(rename = "RowKey")]
///     id: String,
///     name: String,
/// }
///
/// let row = Entity::new("Sales", "223")?.with("name", "Ken");
/// let name = Serde::<Name>::from_entity(row)?;
/// assert_eq!((&*name.id, &*name.name), ("223", "Ken"));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serde<T>(pub T);

impl<T> Serde<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Serde<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Serde<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: DeserializeOwned + Send + 'static> FromEntity for Serde<T> {
    fn select() -> Option<Select> {
        None
    }

    fn type_filter() -> Option<Filter> {
        None
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        decode(&entity).map(Self)
    }
}
