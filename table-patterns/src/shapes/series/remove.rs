use table_core::model::{Entity, IfMatch, Key};
use table_core::store::limits::GROUP_OPERATIONS;
use table_core::store::{GroupTransaction, Operation, Result};

use super::{DataSeries, SlotCodec, SlotSet};
use crate::rows::conflict::{Conflicts, is_lost, told_of, version_of};
use crate::rows::plain;

/// Removing values.
impl<S: SlotSet, V: Send + Sync, C: SlotCodec<V>> DataSeries<S, V, C> {
    /// Makes a slot missing again; whether it was set. Two requests, and two more for each conflict.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    pub async fn clear(&self, series: &Key, slot: S::Slot) -> Result<bool> {
        let index = self.layout.index(&slot)?;
        let key = self.layout.key(series, self.layout.row_of(index))?;
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            let Some(entity) = self.store.get(&self.table, &key, None).await? else { return Ok(false) };
            let Some(operation) = self.without(entity, index)? else { return Ok(false) };
            match plain::write(&*self.store, &self.table, operation).await {
                Err(error) => conflicts.wait(told_of(series, error)).await?,
                Ok(_) => return Ok(true),
            }
        }
    }

    /// Deletes a series; whether there was one. One request; where it has several rows, one a page of 1000 and one for
    /// each 100 of them, again on conflict. More than 100 rows do not go together: a deletion that failed is run again.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete(&self, series: &Key) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.attempts);
        loop {
            match self.delete_rows(series).await {
                Err(error) if is_lost(&error) && self.layout.rows() > 1 => conflicts.wait(error).await?,
                Err(error) if error.is_entity_not_found() => return Ok(false),
                deleted => return deleted,
            }
        }
    }

    async fn delete_rows(&self, series: &Key) -> Result<bool> {
        if self.layout.rows() <= 1 {
            let delete = Operation::Delete(series.clone(), IfMatch::Any);
            return plain::write(&*self.store, &self.table, delete).await.map(|_| true);
        }
        let rows = self.stored(series).await?;
        for some in rows.chunks(GROUP_OPERATIONS) {
            let mut group = GroupTransaction::new(series.partition_key(), self.store.profile());
            for (_, entity) in some {
                group.push(Operation::Delete(entity.key().clone(), IfMatch::Any))?;
            }
            plain::transact(&*self.store, &self.table, group).await?;
        }
        Ok(!rows.is_empty())
    }

    /// The row without a slot; `None` if the slot is not set.
    fn without(&self, mut entity: Entity, index: usize) -> Result<Option<Operation>> {
        let etag = version_of(&entity)?;
        let slot = self.slots().name(index);
        let before = entity.properties().len();
        for suffix in C::suffixes() {
            entity.properties_mut().remove(&format!("{slot}{suffix}"));
        }
        let removed = entity.properties().len() < before;
        Ok(removed.then(|| match entity.properties().is_empty() {
            true => Operation::Delete(entity.key().clone(), etag),
            false => Operation::Replace(entity, etag),
        }))
    }
}
