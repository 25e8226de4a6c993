//! The tables whose rows are their entities.

use table_core::manifest::{Layout, Manifest};
use table_core::model::TableName;
use table_core::store::TableStore;

use crate::failure::{Failure, Result};

/// Refuses tables whose entities have several rows, or values in blobs: their rows alone are not the entities.
pub(crate) fn check_layouts(manifest: &Manifest, table: &TableName) -> Result<()> {
    for stored in &manifest.types {
        let name = stored.entity.as_ref().map_or("", |entity| &*entity.name);
        if stored.layout != Layout::Plain {
            return Err(Failure::failed(format!(
                "the table '{table}' keeps the entities of the type {name} as {}, and this command is for plain rows only: use a program with the type",
                stored.layout
            )));
        }
    }
    Ok(())
}

/// Refuses a table whose manifest has encrypted properties, unless the store has their keys.
pub(crate) fn check_keys(manifest: &Manifest, table: &TableName, store: &dyn TableStore) -> Result<()> {
    let encrypted = manifest.types.iter().find(|stored| !stored.encrypted.is_empty());
    match encrypted.filter(|_| !store.profile().encrypts) {
        None => Ok(()),
        Some(stored) => Err(Failure::misuse(format!(
            "the table '{table}' has encrypted properties of the type {}, and nothing was changed: give --keys FILE",
            stored.name()
        ))),
    }
}

/// Whether long values of entities may be in blobs.
pub(crate) fn is_large(layout: &Layout) -> bool {
    // A layout of a later version may have blobs too.
    !matches!(layout, Layout::Plain | Layout::Wide | Layout::Spread { .. })
}
