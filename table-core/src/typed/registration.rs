//! The row of a type in the manifest, which the first write of the type adds.

use super::Schema;
use crate::manifest::{Manifest, StoredType};
use crate::model::{MANIFEST_PARTITION, TableName};
use crate::store::{Error, ErrorKind, Outcome, PlainWrite, Result, TableStore, TableStoreExt as _};

/// Maximum number of attempts to add a type to the manifest while other programs change its row.
const MAX_ATTEMPTS: usize = 16;

/// Permits a write of an entity whose type must be in the manifest. `check` returns the row to write first, `None` if the manifest is complete, or
/// the refusal. Keep the result until the write is done.
///
/// 1 request if the manifest was not read for [`ManifestCache::LIFE`]. 2 more if the row is missing or has to change, so for the first write of the
/// type in the table. No request in an unmanaged store.
///
/// # Errors
/// Returns the errors of `check` and of the store. Nothing of the entity was written.
#[doc(hidden)]
pub async fn permit_registered(
    store: &dyn TableStore,
    table: &TableName,
    schema: &Schema,
    check: impl Fn(&Manifest) -> Result<Option<StoredType>> + Send + Sync,
) -> Result<PlainWrite> {
    let mut attempt = 1;
    loop {
        let permitted = store.plain_write(table).await?;
        let missing = check(permitted.manifest())?;
        let Some(row) = missing.filter(|_| !store.context().manifests().is_unmanaged()) else {
            return Ok(permitted);
        };
        permitted
            .manifest()
            .check_type_row(table, &schema.entity_type())?;
        let operation = row.operation()?;
        let key = operation.key().clone();
        match store.write(table, operation).await {
            Err(error) if error.is_conflict() && attempt < MAX_ATTEMPTS => {}
            Err(error) if error.is_conflict() => {
                return Err(Error::precondition_failed(table, key));
            }
            // The row of the manifest may be written; the entity is not.
            // An ambiguous error has the kind of the lost answer (`in_doubt`), never of a conflict, so this cannot make a conflict of it.
            Err(error) => {
                let error = with_advice(error, table, schema).with_outcome(Outcome::NotApplied);
                debug_assert!(!error.is_conflict(), "{error:?}");
                return Err(error);
            }
            Ok(_) => {
                if let Some(local) = store.context().local_writers() {
                    // Not awaited, as on a service: a write with the older manifest lacks only this row, and its writer adds
                    // the row itself or is refused when it next reads the manifest.
                    local.change(&store.profile().table_identity(table));
                }
            }
        }
        // For a backend that does not notice its writes of manifest rows: with the old manifest, each attempt would write the row again.
        store.context().manifests().forget(table);
        attempt += 1;
    }
}

/// Adds advice if the credential may not write the manifest, for example because it may only update rows.
fn with_advice(error: Error, table: &TableName, schema: &Schema) -> Error {
    let ErrorKind::Forbidden(reason) = error.kind() else {
        return error;
    };
    let kind = ErrorKind::Forbidden(format!(
        "{reason}; the first write of {} to '{table}' adds the type to the table's manifest, and the credential does not allow this: \
         write an entity of the type once by a program that may write the partition '{MANIFEST_PARTITION}'",
        schema.rust_name
    ));
    error.into_cause_of(kind)
}
