//! The tables whose rows are their entities.

use table_core::manifest::{Layout, Manifest};
use table_core::model::TableName;

use crate::failure::{Failure, Result};

/// Refuses tables whose entities have several rows, values in blobs or encrypted properties: their rows alone are not the entities.
pub(crate) fn check_layouts(manifest: &Manifest, table: &TableName) -> Result<()> {
    for stored in &manifest.types {
        let name = stored.entity.as_ref().map_or("", |entity| &*entity.name);
        if stored.layout != Layout::Plain {
            return Err(Failure::failed(format!(
                "the table '{table}' keeps the entities of the type {name} as {}, and this command is for plain rows only: use a program with the type",
                stored.layout
            )));
        }
        if !stored.encrypted.is_empty() {
            return Err(Failure::failed(format!(
                "the table '{table}' has encrypted properties of the type {name}, and `tables` has no keys: use a program with the type"
            )));
        }
    }
    Ok(())
}

/// Whether long values of entities may be in blobs.
pub(crate) fn is_large(layout: &Layout) -> bool {
    // A layout of a later version may have blobs too.
    !matches!(layout, Layout::Plain | Layout::Wide | Layout::Spread { .. })
}
