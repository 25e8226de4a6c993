//! The drift of an index: entries without their entity, and entities without their entry.

use std::sync::Arc;

use serde_json::Value;
use table_core::model::TableName;
use table_core::store::TableStore;

use crate::errors::{Failure, Result};

/// Pages of entries and of entities that a comparison reads.
#[cfg(feature = "indexes")]
const PAGES: usize = 20;

/// Compares an index of the manifest with its entities, up to a limit of pages. `id` is the index's id. Changes nothing and does not
/// register in the manifest.
#[cfg(feature = "indexes")]
pub(super) async fn compare(store: &Arc<dyn TableStore>, table: &TableName, id: &str) -> Result<Value> {
    use table_core::store::ManifestCache;
    use table_patterns::index::{Index, IndexOptions, IndexedEntities, ScrubCursor, ScrubMode, ScrubReport};

    let manifest = ManifestCache::for_store(&**store).get(&**store, table).await?;
    let stored = manifest.indexes.iter().find(|index| index.id() == id);
    let stored = stored.ok_or_else(Failure::resource_not_found)?;
    let definition = stored.definition.clone().ok_or_else(|| {
        Failure::invalid_input("a later version of the library has written the definition of this index")
    })?;
    let index = vec![Index::from_definition(definition)?];
    let indexed =
        IndexedEntities::open_to_read(Arc::clone(store), table.clone(), index, IndexOptions::default())
            .await?;
    let (mut report, mut cursor) = (ScrubReport::default(), Some(ScrubCursor::default()));
    for _ in 0..PAGES {
        let Some(at) = cursor.take() else { break };
        cursor = indexed.scrub_page(&stored.name, ScrubMode::Report, at, &mut report).await?;
    }
    let ScrubReport { entries, dangling, entities, missing, taken } = report;
    Ok(serde_json::json!({
        "entries": entries, "dangling": dangling, "entities": entities, "missing": missing, "taken": taken,
        "complete": cursor.is_none(),
    }))
}

#[cfg(not(feature = "indexes"))]
pub(super) async fn compare(_: &Arc<dyn TableStore>, _: &TableName, _: &str) -> Result<Value> {
    Err(Failure::not_implemented(
        "a comparison of indexes: the server is built without the feature `indexes`",
    ))
}
