//! The indexes that a type declares by `#[index(…)]`, as [`Index`].

use table_core::manifest::IndexDefinition;
use table_core::model::{Entity, Key};
use table_core::store::{Error, Result};
use table_core::typed::IndexedEntity;

use crate::index::definition::Index;
use crate::large::filled;

/// The index that a type declares. The type derives the keys, and converts rows of older schema versions.
pub(super) fn declared<T: IndexedEntity>(n: usize, definition: &'static IndexDefinition) -> Index {
    Index::derived(definition.clone(), move |entity| keys_of::<T>(n, entity))
}

/// The keys of an entity's entries; none for rows of other types. The keys do not depend on values in blobs,
/// which placeholders replace.
fn keys_of<T: IndexedEntity>(n: usize, entity: &Entity) -> Result<Vec<Key>> {
    if T::type_filter().is_some_and(|filter| !filter.matches(entity)) {
        return Ok(Vec::new());
    }
    let keys = |entity: Entity| T::from_entity(entity)?.index_keys(n);
    let Some(row) = filled::<T>(entity, "") else { return keys(entity.clone()) };
    let found = keys(row)?;
    // The conversion from an older version may read a large value: two placeholders must give the same keys.
    let older = T::SCHEMA.stored_version(entity)? < i64::from(T::SCHEMA.version);
    if older
        && let Some(other) = filled::<T>(entity, "another text")
        && keys(other)? != found
    {
        let (of, key, index) = (T::SCHEMA.rust_name, entity.key(), &T::SCHEMA.indexes[n].name);
        return Err(Error::invalid_request(format!(
            "the conversion of {key} from an older version of {of} derives the entry of the index '{index}' from a large value, which \
             is in a blob: derive the indexed fields from other properties"
        )));
    }
    Ok(found)
}
