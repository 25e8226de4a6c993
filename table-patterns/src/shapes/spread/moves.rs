//! Moves, and what tells that a key is one of a spread entity.

use std::ops::Bound;
use std::sync::Arc;

use table_core::model::{Key, TableName};
use table_core::query::{Filter, KeyBounds, Query, Range, Select};
use table_core::store::{Error, Operation, Result, TableStore};
use table_core::typed::{KeyOf, TableEntity};

use super::SpreadTable;
use super::place::logical;
use super::row::MOVING;
use super::write::exact;
use crate::rows::conflict::Conflicts;

/// Pages that are looked at for a bucket of a key.
const PAGES: usize = 3;

impl<T: TableEntity> SpreadTable<T> {
    /// Moves an entity to a key of this or another table, whatever is there; whether there was one. A change that another
    /// writer makes meanwhile is moved as well. A move that dies in between leaves both, and is to be run again. Requests: see
    /// the [module](super).
    ///
    /// # Errors
    /// The store's; precondition failed, after the last attempt; what is at the target is stored in a later version of the schema;
    /// the place is the same.
    pub async fn move_to(&self, key: impl KeyOf<T>, target: &Self, to: impl KeyOf<T>) -> Result<bool> {
        let (key, to) = (key.into_key(), to.into_key());
        if Arc::ptr_eq(self.store(), target.store()) && self.name() == target.name() && key == to {
            return Err(Error::invalid_request(format!("{key} would be moved to where it is")));
        }
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let Some(row) = self.locate(&key).await? else { return Ok(false) };
            if row.is_moving() {
                conflicts.wait(self.moving(&key)).await?;
                continue;
            }
            let version = exact(&row)?;
            let mut moved = row.entity.with_system(None, None).with_key(to.clone());
            moved.properties_mut().remove(MOVING);
            target.put_logical(moved).await?;
            let delete =
                self.at_its_place(&key, &version, |_, key, version| Ok(Operation::Delete(key, version)));
            match delete.await {
                Err(error) => conflicts.wait(error).await?,
                Ok(_) => return Ok(true),
            }
        }
    }
}

/// Whether the rows of a table show a bucket of a partition, with a row of this key. As far as three pages of keys tell: how many
/// buckets there are, and their salt, is only known to the type.
pub(crate) async fn is_there(
    store: &dyn TableStore,
    table: &TableName,
    partition: &str,
    row: Option<&str>,
) -> Result<bool> {
    let bound = |text: &str| text.to_owned();
    let buckets = Range { from: Bound::Included(bound("0000_")), to: Bound::Excluded(bound("9999`")) };
    let keys = KeyBounds { partition: buckets, row: row.map_or(Range::ALL, Range::single) }.to_filter();
    let query = Query { filter: keys, select: Some(Select::new([Filter::PARTITION_KEY])), top: None };
    let mut from = None;
    for _ in 0..PAGES {
        let page = store.query(table, &query, from.as_ref()).await?;
        let is_it = |key: &Key| logical(key).is_some_and(|key| key.partition() == partition);
        if page.items.iter().any(|entity| is_it(entity.key())) {
            return Ok(true);
        }
        from = page.continuation;
        if from.is_none() {
            break;
        }
    }
    Ok(false)
}
