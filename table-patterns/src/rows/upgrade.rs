//! Upgrades: rewriting rows of older schema versions in the current version, with the writes of their table.

use std::future::ready;

use futures_util::{Stream, TryStreamExt as _};
use table_core::model::Entity;
use table_core::store::{Error, Result};
use table_core::typed::{TableEntity, Upgraded};

/// Whether a row is stored in an older schema version than that of the type.
pub(crate) fn is_older<T: TableEntity>(row: &Entity) -> Result<bool> {
    Ok(T::SCHEMA.stored_version(row)? < i64::from(T::SCHEMA.version))
}

/// The row in the current schema version, including properties that no version declares.
pub(crate) fn upgraded<T: TableEntity>(old: &Entity, value: &T) -> Result<Entity> {
    let mut new = value.to_logical()?;
    T::SCHEMA.keep_unknown(old, &mut new)?;
    Ok(new)
}

/// Upgrades up to `concurrency` rows at once. Returns the number of rows upgraded. An error that concerns one entity does not stop the upgrade of the
/// others; the first such error is returned at the end.
pub(crate) async fn upgrade_each<R, F>(
    rows: impl Stream<Item = Result<R>> + Send,
    concurrency: usize,
    upgrade: impl Fn(R) -> F + Send + Sync,
) -> Result<u64>
where
    R: Send,
    F: Future<Output = Result<bool>> + Send,
{
    let upgrade = |row| {
        let upgraded = upgrade(row);
        async move {
            match upgraded.await {
                Err(error) if error.is_of_one_entity() => Ok(Err(error)),
                done => done.map(Ok),
            }
        }
    };
    let upgrades = rows.map_ok(upgrade).try_buffer_unordered(concurrency.max(1));
    let add = |upgraded: Upgraded, one| ready(Ok(upgraded.with(one)));
    upgrades.try_fold(Upgraded::default(), add).await?.into_result()
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
