//! The results of lookups.

use table_core::query::Select;
use table_core::store::Result;
use table_core::typed::{FromEntity, IndexedEntity};

use self::sealed::{Decode, Followed};
use crate::index::stored::Stored;

/// The result type of a lookup: any type that can be [read from an entity](FromEntity), or [`Stored`] entities.
pub trait Found: Decode {}

impl<R: Decode> Found for R {}

pub(super) mod sealed {
    use super::{Result, Select};
    use table_core::model::Entity;

    /// An entity that an index led to; only a lookup creates it.
    #[derive(Debug)]
    pub struct Followed(pub(in crate::index::typed) Entity);

    pub trait Decode: Sized + Send + 'static {
        /// The properties that the type needs; `None`: all.
        fn needs() -> Option<Select>;

        fn decode(found: Followed) -> Result<Self>;
    }
}

impl<R: FromEntity> Decode for R {
    fn needs() -> Option<Select> {
        R::select()
    }

    fn decode(Followed(entity): Followed) -> Result<Self> {
        R::from_entity(entity)
    }
}

/// A lookup of stored entities reads every entity, whatever the entries hold.
impl<T: IndexedEntity> Decode for Stored<T> {
    fn needs() -> Option<Select> {
        None
    }

    fn decode(Followed(entity): Followed) -> Result<Self> {
        Self::read(entity)
    }
}
