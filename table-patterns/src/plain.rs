//! Plain rows that a pattern writes through the store itself.

use table_core::manifest::Touched;
use table_core::store::{Operation, PlainWrite, Result, TableStore, Written};
use table_core::typed::Table;

/// What to do about an index of what is written.
const INSTEAD: &str = "write it through `IndexedTable`, in a table of its own";

/// Permits a write of a plain row: refuses it where an index of the manifest is of the row. Keep the answer until the write is done.
/// One request where the manifest was not read for [`ManifestCache::LIFE`](table_core::store::ManifestCache::LIFE).
pub(crate) async fn permit<T>(table: &Table<T>, touched: Touched<'_>) -> Result<Option<PlainWrite>> {
    let permitted = table.plain_write().await?;
    if let Some(permitted) = &permitted {
        permitted.manifest().check_plain(table.name(), touched, "a write", INSTEAD)?;
    }
    Ok(permitted)
}

/// Writes a plain row of a table, unless an index of the manifest is of it.
pub(crate) async fn write<T>(table: &Table<T>, operation: Operation) -> Result<Written> {
    let _permitted = permit(table, Touched::by(&operation)).await?;
    table.store().write(table.name(), operation).await
}
