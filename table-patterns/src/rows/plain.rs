//! Rows that a pattern writes as they are, past [`IndexedTable`](crate::index::IndexedTable): an index of any program that is of them
//! would go stale, so such writes are refused.

use table_core::manifest::WriteTarget;
use table_core::model::{Entity, TableName};
use table_core::store::{
    GroupTransaction, ManifestCache, Operation, PlainWrite, Result, TableStore, Written,
};

const INSTEAD: &str = "keep them in a table of their own, or drop the index";

/// Permits a write of a plain row: refuses it where an index of the manifest is of the row. Keep the answer until the write is done.
/// One request where the manifest was not read for [`ManifestCache::LIFE`].
pub(crate) async fn permit(
    store: &dyn TableStore,
    table: &TableName,
    touched: WriteTarget<'_>,
) -> Result<PlainWrite> {
    let permitted = ManifestCache::for_store(store).plain_write(store, table).await?;
    permitted.manifest().check_plain(table, touched, "a write", INSTEAD)?;
    Ok(permitted)
}

/// The same for an entity of several rows, which is put together only where the manifest has indexes.
pub(crate) async fn permit_whole(
    store: &dyn TableStore,
    table: &TableName,
    entity: impl FnOnce() -> Entity + Send,
) -> Result<PlainWrite> {
    let permitted = ManifestCache::for_store(store).plain_write(store, table).await?;
    if !permitted.manifest().indexes.is_empty() {
        permitted.manifest().check_plain(table, WriteTarget::Entity(&entity()), "a write", INSTEAD)?;
    }
    Ok(permitted)
}

/// Writes a row of the pattern's own, unless an index of the manifest is of it.
pub(crate) async fn write(
    store: &dyn TableStore,
    table: &TableName,
    operation: Operation,
) -> Result<Written> {
    let permitted = ManifestCache::for_store(store).plain_write(store, table).await?;
    check_own(&permitted, table, &operation)?;
    store.write(table, operation).await
}

/// Writes rows of the pattern's own in one partition, unless an index of the manifest is of one of them.
pub(crate) async fn transact(
    store: &dyn TableStore,
    table: &TableName,
    group: GroupTransaction,
) -> Result<Vec<Written>> {
    let permitted = ManifestCache::for_store(store).plain_write(store, table).await?;
    group.operations().iter().try_for_each(|operation| check_own(&permitted, table, operation))?;
    store.transact(table, group).await
}

/// A row that only the pattern writes has no properties but the pattern's: what an operation leaves out does not tell that the row is an
/// entity of another type.
fn check_own(permitted: &PlainWrite, table: &TableName, operation: &Operation) -> Result<()> {
    if permitted.manifest().indexes.is_empty() {
        return Ok(());
    }
    let row = operation.entity().cloned().unwrap_or_else(|| operation.key().clone().into());
    permitted.manifest().check_plain(table, WriteTarget::Entity(&row), operation.kind().name(), INSTEAD)
}
