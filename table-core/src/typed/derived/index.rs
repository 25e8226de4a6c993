use super::KeyFields;
use crate::manifest::{IndexDefinition, Placement, could_be_entity};
use crate::model::Key;
use crate::store::Result;
use crate::typed::{Schema, TableEntity};

/// The indexes that a schema declares.
pub fn indexes(schema: &'static Schema) -> Vec<&'static IndexDefinition> {
    schema.indexes.iter().collect()
}

/// Adds the key of an entry, unless it is there. In the table of the entities it must not be one that an entity could have.
///
/// # Errors
/// It is one, or is too long.
pub fn push_entry_key<T: TableEntity + KeyFields>(
    keys: &mut Vec<Key>,
    index: usize,
    partition: String,
    row: String,
) -> Result<()> {
    let key = Key::new(partition, row)?;
    let IndexDefinition { name, placement, .. } = &T::SCHEMA.indexes[index];
    let shared = !matches!(placement, Placement::OtherTable(_));
    if shared && T::key_fields(&key).is_ok() {
        return Err(could_be_entity(name, T::SCHEMA.rust_name, &key));
    }
    if !keys.contains(&key) {
        keys.push(key);
    }
    Ok(())
}
