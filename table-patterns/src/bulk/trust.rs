//! Definitions that do something beyond the rows in which they are stored.
//!
//! A client that may add rows to a table can add an index definition whose entries go into another table, or an expiry. A copy or a restore
//! would carry it to a store whose owner did not make it.

use table_core::manifest::Manifest;
use table_core::model::TableName;
use table_core::store::{Error, Result};

/// The definitions of a manifest that write into other tables or delete entities, each as a sentence.
pub(super) fn definitions_beyond(table: &TableName, manifest: &Manifest) -> Vec<String> {
    let indexes = manifest.all_definitions().filter_map(|index| {
        let other = index.table.as_ref()?;
        Some(format!(
            "the index '{}' of the table '{table}' writes into the table '{other}'",
            index.name
        ))
    });
    let expiring = manifest
        .types
        .iter()
        .filter(|stored| stored.expiry.is_some());
    let expiring = expiring.map(|stored| {
        format!(
            "the entities of the type '{}' of the table '{table}' expire: upkeep deletes them",
            stored.name()
        )
    });
    indexes.chain(expiring).collect()
}

/// Refuses definitions that are not trusted. `source` is what has them, and `done` what is to be done with it.
pub(super) fn check_trusted(source: &str, done: &str, definitions: &[String]) -> Result<()> {
    if definitions.is_empty() {
        return Ok(());
    }
    Err(Error::wrong_state(format!(
        "the {source} has definitions that programs obey beyond its rows, and nothing was {done}: {}. Set `trust_definitions` if nobody else \
         could write into its tables, or if each of these is intended",
        definitions.join("; ")
    )))
}
