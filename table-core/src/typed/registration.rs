//! The first write of a type adds the type to the manifest.

use super::Schema;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::manifest::{Manifest, StoredType};
use crate::model::{MANIFEST_PARTITION, TableName};
use crate::store::{ManifestCache, PlainWrite, TableStore};

/// Attempts to add a type to the manifest while other programs change its row.
const ROUNDS: usize = 16;

/// Permits a write of an entity of a type that the manifest must have, after `check` of the manifest. `check` returns the row of the type if the manifest
/// has to get it first. Keep the answer until the write is done.
///
/// 1 request if the manifest was not read for [`ManifestCache::LIFE`]. 2 more if the row is missing or has to change, so for the first write of the
/// type in the table. No request in an unmanaged store.
///
/// # Errors
/// Returns the errors of `check` and of the store. Nothing of the entity was written.
#[doc(hidden)]
pub async fn permit_registered(
    store: &dyn TableStore,
    manifests: &ManifestCache,
    table: &TableName,
    schema: &Schema,
    check: impl Fn(&Manifest) -> Result<Option<StoredType>> + Send + Sync,
) -> Result<PlainWrite> {
    for _ in 0..ROUNDS {
        let permitted = manifests.plain_write(store, table).await?;
        let missing = check(permitted.manifest())?;
        let Some(row) = missing.filter(|_| !manifests.is_unmanaged()) else { return Ok(permitted) };
        match store.write(table, row.operation()?).await {
            Err(error) if error.is_conflict() => {}
            // The row of the manifest may be written; the entity is not.
            Err(error) => return Err(with_advice(error, table, schema).with_outcome(Outcome::NotApplied)),
            Ok(_) => {
                let local = store.local_writers();
                local.map(|local| local.change(&store.profile().table_identity(table)));
            }
        }
        manifests.forget(table);
    }
    Err(Error::precondition_failed(table, schema.type_name))
}

/// Adds advice if the credential may not write the manifest, for example because it may only update rows.
fn with_advice(error: Error, table: &TableName, schema: &Schema) -> Error {
    let ErrorKind::Forbidden(reason) = error.kind() else { return error };
    let kind = ErrorKind::Forbidden(format!(
        "{reason}; the first write of {} to '{table}' adds the type to the table's manifest, and the credential does not allow this: \
         write an entity of the type once by a program that may write the partition '{MANIFEST_PARTITION}'",
        schema.rust_name
    ));
    error.into_cause_of(kind)
}
