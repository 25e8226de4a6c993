use super::KeyFields;
use crate::model::Key;
use crate::store::{Error, Result};
use crate::typed::{IndexPlacement, IndexSchema, Schema, TableEntity};

/// The indexes that a schema declares.
pub fn indexes(schema: &'static Schema) -> Vec<&'static IndexSchema> {
    schema.indexes.iter().collect()
}

/// The key of an entry. In the table of the entities it must not be one that an entity could have.
///
/// # Errors
/// It is one, or is too long.
pub fn entry_key<T: TableEntity + KeyFields>(
    index: usize,
    partition: String,
    row: String,
) -> Result<Option<Key>> {
    let key = Key::new(partition, row)?;
    let IndexSchema { name, placement, .. } = &T::SCHEMA.indexes[index];
    let shared = !matches!(placement, IndexPlacement::OtherTable(_));
    if shared && T::key_fields(&key).is_ok() {
        return Err(Error::invalid_request(format!(
            "the index '{name}' of {} gives an entry the key {key}, which an entity could have: start one of \
             the key templates with other text",
            T::SCHEMA.rust_name
        )));
    }
    Ok(Some(key))
}
