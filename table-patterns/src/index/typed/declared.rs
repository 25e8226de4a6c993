//! What `#[index(…)]` says, as an [`Index`].

use table_core::manifest::IndexDefinition;
use table_core::model::{Entity, Key};
use table_core::store::Result;
use table_core::typed::IndexedEntity;

use crate::index::definition::Index;

/// The index that a type declares. Its keys are derived by the type, which converts what an older version of it has stored.
pub(super) fn declared<T: IndexedEntity>(n: usize, definition: &'static IndexDefinition) -> Index {
    Index::derived(definition.clone(), move |entity| keys_of::<T>(n, entity))
}

/// The keys of an entity's entries; rows of other types have none.
fn keys_of<T: IndexedEntity>(n: usize, entity: &Entity) -> Result<Vec<Key>> {
    if T::type_filter().is_some_and(|filter| !filter.matches(entity)) {
        return Ok(Vec::new());
    }
    T::from_entity(entity.clone())?.index_keys(n)
}
