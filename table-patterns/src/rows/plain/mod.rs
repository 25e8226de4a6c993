//! Rows that a pattern writes without [`Table`](crate::Table). Such a write does not update index entries, so it is
//! refused if the manifest has an index of the row, whichever program declared it.

use table_core::manifest::{Layout, Manifest, StoredType, WriteTarget};
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Operation, PlainWrite, Result, TableStore, TableStoreExt as _, Written};
use table_core::typed::{Schema, Spread, permit_registered};

/// The end of the errors of refused writes.
const ADVICE: &str = "keep them in a table of their own, or drop the index";

/// Permits a write of an entity of a type, in the layout of the type's schema. Refuses it if the manifest has another
/// layout for the type, or an index of the entity. Keep the answer until the write is done.
///
/// 1 request if the manifest was not read for [`ManifestCache::LIFE`](table_core::store::ManifestCache::LIFE). 2 more if the manifest does not have the layout yet,
/// or misses a part of it, so for the first write of the type in the table. No request in an unmanaged store.
pub(crate) async fn permit(
    store: &dyn TableStore,
    table: &TableName,
    schema: &Schema,
    key: &Key,
) -> Result<PlainWrite> {
    permit_after(store, table, schema, None, key).await
}

/// [`permit`] for a table whose entities were spread over the buckets of `previous` before.
pub(crate) async fn permit_after(
    store: &dyn TableStore,
    table: &TableName,
    schema: &Schema,
    previous: Option<Spread>,
    key: &Key,
) -> Result<PlainWrite> {
    let check = |manifest: &Manifest| check_type(manifest, table, schema, previous, key);
    permit_registered(store, table, schema, check).await
}

/// Returns the row of the manifest to write first, if there is one.
fn check_type(
    manifest: &Manifest,
    table: &TableName,
    schema: &Schema,
    previous: Option<Spread>,
    key: &Key,
) -> Result<Option<StoredType>> {
    let entity = schema.entity_type();
    manifest.check_no_index(table, WriteTarget::Type(&entity, key), "a write", ADVICE)?;
    // During a migration, the manifest still has the previous buckets. The first write replaces them by the present buckets.
    if let (Some(stored), Some(Spread { buckets, salt })) = (manifest.type_of(&entity), previous)
        && stored.layout
            == (Layout::Spread {
                buckets,
                salt: salt.into(),
            })
    {
        stored.check_encrypted(table, schema)?;
        return Ok(Some(StoredType {
            layout: Layout::from_schema(schema),
            ..stored.merged_with(&StoredType::from_schema(schema))
        }));
    }
    manifest.check_type(table, schema)?;
    Ok(manifest.type_to_register(schema))
}

/// Permits a write of an entity of several rows. `schema` is that of the wide type; `None` for entities without a type. `entity` is called
/// only without a schema, and only if the manifest has indexes or types.
///
/// Requests as for [`permit`]; without a schema at most 1.
pub(crate) async fn permit_whole(
    store: &dyn TableStore,
    table: &TableName,
    schema: Option<&'static Schema>,
    key: &Key,
    entity: impl FnOnce() -> Entity + Send,
) -> Result<PlainWrite> {
    if let Some(schema) = schema {
        return permit(store, table, schema, key).await;
    }
    let permitted = store.plain_write(table).await?;
    let manifest = permitted.manifest();
    if !manifest.indexes.is_empty() || !manifest.types.is_empty() {
        let entity = entity();
        manifest.check_no_index(table, WriteTarget::Entity(&entity), "a write", ADVICE)?;
        manifest.check_wide(table, &entity)?;
    }
    Ok(permitted)
}

/// Writes a row that only the pattern writes. Refuses the write if the manifest has an index of the row.
pub(crate) async fn write(
    store: &dyn TableStore,
    table: &TableName,
    operation: Operation,
) -> Result<Written> {
    // The permit is kept until the answer: where only this process writes the store, a change of the manifest waits for the permit.
    let permitted = store.plain_write(table).await?;
    check_own(&permitted, table, &operation)?;
    store.write(table, operation).await
}

/// Writes rows of one partition that only the pattern writes, as [`write_together`](super::write_together). Refuses all if the manifest has
/// an index of one of the rows.
pub(crate) async fn write_together(
    store: &dyn TableStore,
    table: &TableName,
    operations: &[Operation],
) -> Result<Vec<Written>> {
    if operations.is_empty() {
        return Ok(Vec::new());
    }
    let permitted = store.plain_write(table).await?;
    operations
        .iter()
        .try_for_each(|operation| check_own(&permitted, table, operation))?;
    super::write_together(store, table, operations).await
}

/// Checks the operation's entity as if it were the whole row: no other program adds properties to a row that only the pattern writes.
fn check_own(permitted: &PlainWrite, table: &TableName, operation: &Operation) -> Result<()> {
    let manifest = permitted.manifest();
    if manifest.indexes.is_empty() && manifest.types.is_empty() {
        return Ok(());
    }
    let row = operation
        .entity()
        .cloned()
        .unwrap_or_else(|| operation.key().clone().into());
    manifest.check_plain(
        table,
        WriteTarget::Entity(&row),
        operation.kind().name(),
        ADVICE,
    )
}

#[cfg(test)]
mod tests;
