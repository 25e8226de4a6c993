//! Rows of older schema versions, rewritten in the present one by the writes of their table.

use std::future::ready;

use futures_util::{Stream, TryStreamExt as _};
use table_core::model::Entity;
use table_core::store::{Error, Result};
use table_core::typed::TableEntity;

use crate::rows::conflict::is_lost;

/// Whether a row of the type is stored in an older version of its schema.
pub(crate) fn is_older<T: TableEntity>(row: &Entity) -> Result<bool> {
    Ok(T::SCHEMA.stored_version(row)? < i64::from(T::SCHEMA.version))
}

/// The row in the present version, with what no version knows.
pub(crate) fn upgraded<T: TableEntity>(old: &Entity, value: &T) -> Result<Entity> {
    let mut new = value.to_logical()?;
    T::SCHEMA.keep_unknown(old, &mut new)?;
    Ok(new)
}

/// Upgrades several at once; how many were.
pub(crate) async fn upgrade_each<R, F>(
    rows: impl Stream<Item = Result<R>> + Send,
    at_once: usize,
    upgrade: impl Fn(R) -> F + Send + Sync,
) -> Result<u64>
where
    R: Send,
    F: Future<Output = Result<bool>> + Send,
{
    let upgrades = rows.map_ok(upgrade).try_buffer_unordered(at_once.max(1));
    upgrades.try_fold(0, |count, one| ready(Ok(count + u64::from(one)))).await
}

/// Upgrades a row that was read: `first` in that version, and where another writer was quicker `again` as it is now, unless it is
/// gone.
pub(crate) async fn upgrade_one<A, B>(
    first: impl Future<Output = Result<A>> + Send,
    again: impl Future<Output = Result<B>> + Send,
) -> Result<bool> {
    let gone = |error: &Error| error.is_entity_not_found() && !error.is_ambiguous();
    match first.await {
        Ok(_) => return Ok(true),
        Err(error) if gone(&error) => return Ok(false),
        Err(error) if is_lost(&error) => {}
        Err(error) => return Err(error),
    }
    match again.await {
        Err(error) if gone(&error) => Ok(false),
        done => done.map(|_| true),
    }
}
