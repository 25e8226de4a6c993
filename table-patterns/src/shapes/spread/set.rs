//! Set operations: writes of all entities that a query of a logical partition finds.

use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use table_core::model::{Entity, Key, PartitionKey};
use table_core::store::{BulkSummary, Error, Result, TableStore as _, Written};
use table_core::typed::TableEntity;
use table_core::typed::set::{Decision, RowChange, SetWrite, SetWriter, changed};

use super::place::logical_key;
use super::query::without_partition;
use super::{SpreadQuery, SpreadRow, SpreadTable};
use crate::rows::plain::permit_after;
use crate::rows::write_together;

/// Set operations: see [`TableQuery::delete`](table_core::typed::TableQuery::delete).
impl<T: TableEntity> SpreadQuery<T> {
    /// Deletes the entities. 1 request per page of each bucket, and 1 per group of up to 100 entities of a bucket; during a
    /// migration 1 more per entity. 2 more per entity that another writer changes.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); entities of the type may not be written, and nothing was written. Errors of single
    /// entities are in the summary.
    pub async fn delete(&self) -> Result<BulkSummary> {
        self.write_set(|row| {
            SpreadRow::<T>::from_stored(&row)?.decode()?;
            Ok(Decision::delete(row))
        })
        .await
    }

    /// Calls `change` with each entity and replaces the entity, unless `change` leaves it as it was. Requests as for
    /// [`delete`](Self::delete).
    ///
    /// # Errors
    /// As [`delete`](Self::delete). In the summary: an error of `change`, or a change of a key; such an entity is not written.
    pub async fn update(
        &self,
        change: impl Fn(&mut T) -> Result<()> + Send + Sync,
    ) -> Result<BulkSummary> {
        self.write_set(|row| {
            let old = SpreadRow::<T>::from_stored(&row)?.entity;
            let new = changed(&old, &change)?.with_key(row.key().clone());
            Ok(Decision::replace(row, new))
        })
        .await
    }

    async fn write_set(
        &self,
        decide: impl Fn(Entity) -> Result<Decision> + Send + Sync,
    ) -> Result<BulkSummary> {
        let of: &PartitionKey = self.of.as_ref().ok_or_else(without_partition)?;
        let table = &self.table;
        let filter = (self.narrow)(table.table.query()).to_query()?.filter;
        let limit = self.limit.unwrap_or(usize::MAX);
        let rows = table.merged(of, &self.bounded(self.limit)).take(limit);
        let rows = rows
            .and_then(|row| ready(table.place_of(&row).map(|place| row.entity.with_key(place))));
        let write = SetWrite {
            table: table.name(),
            writer: table,
            decide: |row| ready(decide(row)).boxed(),
            is_in_set: |row: &Entity| {
                !table.table.hides(row) && filter.as_ref().is_none_or(|filter| filter.matches(row))
            },
            concurrency: table.concurrency,
            attempts: table.attempts,
        };
        write.run(rows).await
    }
}

impl<T: TableEntity> SetWriter for SpreadTable<T> {
    fn check<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<()>> {
        async move {
            permit_after(&**self.store(), self.name(), T::SCHEMA, self.previous, key)
                .await
                .map(drop)
        }
        .boxed()
    }

    fn most_operations(&self) -> usize {
        self.store().profile().group_operations
    }

    fn write<'a>(
        &'a self,
        changes: &'a [RowChange],
    ) -> BoxFuture<'a, Result<(Vec<Written>, bool)>> {
        async move {
            let mut operations = Vec::new();
            for change in changes {
                let (row, mut operation) = (
                    SpreadRow::<T>::from_stored(&change.old)?,
                    change.operation()?,
                );
                if self.must_wait(&row, &operation).await? {
                    // As a conflict: the set operation reads the row again, after a pause.
                    return Err(self.moving(row.entity.key()));
                }
                self.mark_by_rules(&mut operation);
                operations.push(operation);
            }
            if let [one] = &*operations {
                // Its error has the logical key.
                return Ok((vec![SpreadTable::write(self, one.clone()).await?], false));
            }
            let Some(first) = operations.first() else {
                return Ok((Vec::new(), false));
            };
            let (store, table) = (&**self.store(), self.name());
            let _permitted =
                permit_after(store, table, T::SCHEMA, self.previous, first.key()).await?;
            Ok((write_together(store, table, &operations).await?, false))
        }
        .boxed()
    }

    /// Looks at the places of the entity: a migration may have moved it.
    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        async move {
            let Some(key) = logical_key(key) else {
                return Ok(None);
            };
            let Some(row) = self.locate(&key).await? else {
                return Ok(None);
            };
            let place = self.place_of(&row)?;
            Ok(Some(row.entity.with_key(place)))
        }
        .boxed()
    }

    fn failed(&self, error: &Error) -> Option<usize> {
        error.failed_index()
    }
}

impl<T: TableEntity> SpreadRow<T> {
    fn from_stored(row: &Entity) -> Result<Self> {
        table_core::typed::FromEntity::from_entity(row.clone())
    }
}
