//! Rows that a pattern writes as they are, past [`IndexedTable`](crate::index::IndexedTable): an index of any program that is of them
//! would go stale, so such writes are refused.

use table_core::manifest::{Layout, Manifest, StoredType, WriteTarget};
use table_core::model::{Entity, Key, TableName};
use table_core::store::{
    GroupTransaction, ManifestCache, Operation, PlainWrite, Result, TableStore, Written,
};
use table_core::typed::{Schema, Spread, permit_registered};

const INSTEAD: &str = "keep them in a table of their own, or drop the index";

/// Permits a write of an entity of a type, in the layout of the type's schema. Refuses it if the manifest has another
/// layout for the type, or an index of the entity. Keep the answer until the write is done.
///
/// 1 request if the manifest was not read for [`ManifestCache::LIFE`]. 2 more if the manifest does not have the layout yet,
/// or misses a part of it, so for the first write of the type in the table. No request in an unmanaged store.
pub(crate) async fn permit(
    store: &dyn TableStore,
    table: &TableName,
    schema: &Schema,
    key: &Key,
) -> Result<PlainWrite> {
    permit_after(store, table, schema, None, key).await
}

/// [`permit`] for a table whose entities were spread over other buckets before.
pub(crate) async fn permit_after(
    store: &dyn TableStore,
    table: &TableName,
    schema: &Schema,
    previous: Option<Spread>,
    key: &Key,
) -> Result<PlainWrite> {
    let manifests = ManifestCache::for_store(store);
    let check = |manifest: &Manifest| check_type(manifest, table, schema, previous, key);
    permit_registered(store, &manifests, table, schema, check).await
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
    manifest.check_no_index(table, WriteTarget::Type(&entity, key), "a write", INSTEAD)?;
    // During a migration the manifest has the former buckets. The first write replaces them by the present
    // ones.
    if let (Some(stored), Some(Spread { buckets, salt })) = (manifest.type_of(&entity), previous)
        && stored.layout == (Layout::Spread { buckets, salt: salt.into() })
    {
        stored.check_encrypted(table, schema)?;
        return Ok(Some(StoredType { layout: Layout::of(schema), ..stored.with(&StoredType::of(schema)) }));
    }
    manifest.check_type(table, schema)?;
    Ok(manifest.type_to_register(schema))
}

/// Permits a write of an entity of several rows. `entity` is called only if the manifest has indexes or types.
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
    let permitted = ManifestCache::for_store(store).plain_write(store, table).await?;
    let manifest = permitted.manifest();
    if !manifest.indexes.is_empty() || !manifest.types.is_empty() {
        let entity = entity();
        manifest.check_no_index(table, WriteTarget::Entity(&entity), "a write", INSTEAD)?;
        manifest.check_wide(table, &entity)?;
    }
    Ok(permitted)
}

/// Writes a row of the pattern's own, unless an index of the manifest is of it.
pub(crate) async fn write(
    store: &dyn TableStore,
    table: &TableName,
    operation: Operation,
) -> Result<Written> {
    // Kept until the answer: where only this process writes the store, a change of the manifest waits for it.
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
    let manifest = permitted.manifest();
    if manifest.indexes.is_empty() && manifest.types.is_empty() {
        return Ok(());
    }
    let row = operation.entity().cloned().unwrap_or_else(|| operation.key().clone().into());
    manifest.check_plain(table, WriteTarget::Entity(&row), operation.kind().name(), INSTEAD)
}

#[cfg(test)]
mod tests;
