//! Set operations: writes of all large entities that a query finds, with their blobs and index entries.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key};
use table_core::query::Filter;
use table_core::store::{BulkSummary, Result};
use table_core::typed::TableEntity;
use table_core::typed::set::{Decision, SetWrite};

use super::{LargeQuery, LargeTable};
use crate::blobs::with_placeholders;
use crate::rows::is_older;

/// Set operations: see [`TableQuery::delete`](table_core::typed::TableQuery::delete).
impl<T: TableEntity> LargeQuery<T> {
    /// Deletes the entities with their blobs and index entries; no value is read. 1 request per page of rows, the requests of
    /// one write per group of up to 100 entities of a partition, and 1 per blob. 2 more per entity that another writer
    /// changes.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); the handle may not write the entities, and nothing was written. Errors of single entities
    /// are in the summary.
    pub async fn delete(&self) -> Result<BulkSummary> {
        self.write_set(|old| {
            async move {
                // The values in blobs are not necessary to know that the row is a `T`.
                T::from_entity(
                    with_placeholders(T::SCHEMA, &old, "").unwrap_or_else(|| old.clone()),
                )?;
                Ok(Decision::delete(old))
            }
            .boxed()
        })
        .await
    }

    /// Calls `change` with each entity and replaces the entity, unless `change` leaves it as it was. Requests as for
    /// [`delete`](Self::delete), and 1 per large value that is read or written.
    ///
    /// # Errors
    /// As [`delete`](Self::delete). In the summary: an error of `change`, or a change of a key; such an entity is not written.
    pub async fn update(
        &self,
        change: impl Fn(&mut T) -> Result<()> + Send + Sync,
    ) -> Result<BulkSummary> {
        let change = &change;
        let filter = self
            .narrowed()?
            .clone()
            .project::<Entity>()
            .to_query()?
            .filter;
        let is_in_set = move |row: &Entity| self.is_in_set(filter.as_ref(), row);
        let is_in_set = &is_in_set;
        self.write_set(move |old| self.table.changed_in_set(old, is_in_set, change).boxed())
            .await
    }

    /// Whether the query still finds a row.
    fn is_in_set(&self, filter: Option<&Filter>, row: &Entity) -> bool {
        !self.table.table.hides(row) && filter.is_none_or(|filter| filter.matches(row))
    }

    async fn write_set<'d>(
        &self,
        decide: impl Fn(Entity) -> BoxFuture<'d, Result<Decision>> + Send + Sync,
    ) -> Result<BulkSummary> {
        let rows = self.narrowed()?.clone().project::<Entity>();
        let (filter, options) = (rows.to_query()?.filter, self.table.options());
        let write = SetWrite {
            table: self.table.name(),
            writer: self.table.writer(),
            decide,
            is_in_set: |row: &Entity| self.is_in_set(filter.as_ref(), row),
            concurrency: options.concurrency,
            attempts: options.attempts,
        };
        write.run(rows.stream()).await
    }
}

impl<T: TableEntity> LargeTable<T> {
    pub(super) async fn changed_in_set(
        &self,
        mut row: Entity,
        is_in_set: impl Fn(&Entity) -> bool + Send + Sync,
        change: impl Fn(&mut T) -> Result<()> + Send + Sync,
    ) -> Result<Decision> {
        let key: Key = row.key().clone();
        let mut value = loop {
            if let Some(value) = self.load_if_unchanged(row.clone()).await? {
                break value;
            }
            // A blob is missing because the row has changed: the query may not find it any more.
            let Some(now) = self.row(&key).await?.filter(|now| is_in_set(now)) else {
                return Ok(Decision::Ignore);
            };
            row = now;
        };
        let before = value.to_entity()?;
        change(&mut value)?;
        let new = value.to_entity()?;
        let is_same = new.properties() == before.properties() && !is_older::<T>(&row)?;
        let new = T::SCHEMA.updated(&row, new)?;
        Ok(if is_same {
            Decision::Keep
        } else {
            Decision::write(row, Some(new))
        })
    }
}
