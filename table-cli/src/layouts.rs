//! The layouts of entities: in which tables a row is a whole entity.

use table_core::manifest::{Layout, Manifest};
use table_core::model::TableName;

use crate::failure::{Failure, Result};

/// Refuses tables whose entities have several rows, or values in blobs: their rows alone are not the entities.
pub(crate) fn check_layouts(manifest: &Manifest, table: &TableName) -> Result<()> {
    for stored in &manifest.types {
        if stored.layout != Layout::Plain {
            return Err(Failure::failed(format!(
                "the table '{table}' keeps the entities of the type {} as {}, and this command is for plain rows only: use a program with the type",
                stored.name(),
                stored.layout
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
