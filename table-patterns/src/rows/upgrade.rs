//! Upgrades: rewriting rows of older schema versions in the current version, with the writes of their table.

use table_core::model::Entity;
use table_core::store::{Error, Result};
use table_core::typed::TableEntity;

/// Whether a row is stored in an older schema version than that of the type.
#[cfg(feature = "blobs")]
pub(crate) fn is_older<T: TableEntity>(row: &Entity) -> Result<bool> {
    Ok(T::SCHEMA.stored_version(row)? < i64::from(T::SCHEMA.version))
}

/// The row in the current schema version, including properties that no version declares.
pub(crate) fn upgraded<T: TableEntity>(old: &Entity, value: &T) -> Result<Entity> {
    let mut new = value.to_logical()?;
    T::SCHEMA.keep_unknown(old, &mut new)?;
    Ok(new)
}

/// Upgrades one row that was read: `first` in the version that was read, and after a conflict `again` in the stored version.
/// Returns `false` if the row was deleted.
pub(crate) async fn upgrade_one<A, B>(
    first: impl Future<Output = Result<A>> + Send,
    again: impl Future<Output = Result<B>> + Send,
) -> Result<bool> {
    let is_deleted = Error::is_gone;
    match first.await {
        Ok(_) => return Ok(true),
        Err(error) if is_deleted(&error) => return Ok(false),
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    match again.await {
        Err(error) if is_deleted(&error) => Ok(false),
        done => done.map(|_| true),
    }
}
