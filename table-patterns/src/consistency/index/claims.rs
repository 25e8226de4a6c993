//! Claims: a write that needs the key or a unique value of an entity that is due removes that entity first, with its entries, values and blobs.
//!
//! The removal is a write of its own, in the version that was read and found due. So of an owner that is renewed and a claimant one fails: the
//! renewal finds its entity gone, or the claimant finds the owner changed, reads it again, and is refused. Two claimants may both remove the owner;
//! the first reservation of the value decides between them.

use table_core::model::{Entity, Key, TableName};
use table_core::store::{Error, Outcome, Result, TableStore};
use table_core::typed::Schema;

use super::changes::EntityChanges;
use crate::journal::{Change, Committed, Holder, as_read};

/// The number of removals for one write: more than a write has keys and values.
pub(crate) const CLAIMS: usize = 256;

/// The key of the entity that made a write fail, if nothing was written: the entity that has a key or value of the write.
fn holder(error: &Error, changes: &[Change]) -> Vec<Key> {
    if error.outcome() != Outcome::NotApplied {
        return Vec::new();
    }
    if error.is_unique_violation() || error.is_key_collision() {
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Holder>());
        return cause.map(|holder| holder.0.clone()).into_iter().collect();
    }
    if error.is_already_exists() {
        let inserted = changes.iter().filter(|change| change.old().is_none());
        return inserted.filter_map(|change| change.key().ok().cloned()).collect();
    }
    Vec::new()
}

/// The row that made a write of a type fail and is due, as it was read; `None` if the write has to fail. 1 request if the error names an entity.
pub(crate) async fn due_row(
    store: &dyn TableStore,
    table: &TableName,
    schema: &Schema,
    error: &Error,
    changes: &[Change],
) -> Result<Option<Entity>> {
    if schema.expiry.is_none() {
        return Ok(None);
    }
    for key in holder(error, changes) {
        let row = store.get(table, &key, None).await?.map(as_read);
        if let Some(row) = row.filter(|row| schema.is_due(row, store.now())) {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

impl EntityChanges<'_> {
    /// Writes changes, and removes due entities that are in the way.
    pub(super) async fn write_and_claim(&self, changes: &[Change]) -> Result<Committed> {
        let Some(schema) = self.set.schema().filter(|schema| schema.expiry.is_some()) else {
            return self.write_once(changes).await;
        };
        let mut left = CLAIMS;
        loop {
            let error = match self.write_once(changes).await {
                Err(error) if left > 0 => error,
                done => return done,
            };
            let due = due_row(&**self.rows.store, self.rows.table, schema, &error, changes).await?;
            let Some(due) = due else { return Err(error) };
            left -= 1;
            match self.write_once(&[Change::delete(due)]).await {
                // The owner was renewed or removed: the write shows it.
                Err(error) if !error.is_conflict() => return Err(error.with_outcome(Outcome::NotApplied)),
                _ => {}
            }
        }
    }
}
