//! What `#[index(…)]` says, as an [`Index`].

use table_core::manifest::IndexDefinition;
use table_core::model::{Entity, Key};
use table_core::store::{Error, Result};
use table_core::typed::IndexedEntity;

use crate::index::definition::Index;
use crate::large::filled;

/// The index that a type declares. Its keys are derived by the type, which converts what an older version of it has stored.
pub(super) fn declared<T: IndexedEntity>(n: usize, definition: &'static IndexDefinition) -> Index {
    Index::derived(definition.clone(), move |entity| keys_of::<T>(n, entity))
}

/// The keys of an entity's entries; rows of other types have none. They do not depend on values in blobs, and something else
/// stands for those.
fn keys_of<T: IndexedEntity>(n: usize, entity: &Entity) -> Result<Vec<Key>> {
    if T::type_filter().is_some_and(|filter| !filter.matches(entity)) {
        return Ok(Vec::new());
    }
    let keys = |entity: Entity| T::from_entity(entity)?.index_keys(n);
    let Some(row) = filled::<T>(entity, "") else { return keys(entity.clone()) };
    let found = keys(row)?;
    // A conversion from an older version may have looked at a value that is not here.
    let older = T::SCHEMA.stored_version(entity)? < i64::from(T::SCHEMA.version);
    if older
        && let Some(other) = filled::<T>(entity, "another text")
        && keys(other)? != found
    {
        let (of, key, index) = (T::SCHEMA.rust_name, entity.key(), &T::SCHEMA.indexes[n].name);
        return Err(Error::invalid_request(format!(
            "the conversion of {key} from an older version of {of} gives its entry of the index '{index}' by a large value, which \
             is in a blob: index what the conversion takes from other fields"
        )));
    }
    Ok(found)
}
