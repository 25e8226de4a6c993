//! Set operations: writes of all entities of a period.

use std::sync::Arc;

use table_core::store::{BulkSummary, Error, Result};
use table_core::typed::TableEntity;
use table_core::typed::set::{Decision, changed};

use super::SliceQuery;
use super::family::is_gone;

/// Set operations: see [`TableQuery::delete`](table_core::typed::TableQuery::delete). The slices are written one after
/// another, in the order of the query.
impl<T: TableEntity> SliceQuery<T> {
    /// Deletes the entities. 1 request to list the tables; in each slice 1 per page and 1 per group of up to 100 entities of
    /// a partition. To delete whole slices, drop them: 1 request per slice
    /// ([`TimeSlices::drop_before`](super::TimeSlices::drop_before)).
    ///
    /// # Errors
    /// As [`all`](Self::all); the query has a limit; entities of the type may not be written. Errors of single entities are
    /// in the summary.
    pub async fn delete(&self) -> Result<BulkSummary> {
        self.write_set(|slice_has, old| {
            Ok(match slice_has(&T::from_entity(old.clone())?) {
                true => Decision::delete(old),
                false => Decision::Ignore,
            })
        })
        .await
    }

    /// Calls `change` with each entity and replaces the entity, unless `change` leaves it as it was. Requests as for
    /// [`delete`](Self::delete).
    ///
    /// # Errors
    /// As [`delete`](Self::delete). In the summary: an error of `change`, a change of a key, or a change of the time to that of
    /// another slice; such an entity is not written.
    pub async fn update(&self, change: impl Fn(&mut T) -> Result<()> + Send + Sync) -> Result<BulkSummary> {
        self.write_set(|slice_has, old| {
            let value = T::from_entity(old.clone())?;
            if !slice_has(&value) {
                return Ok(Decision::Ignore);
            }
            let at = (self.slices.time())(&value);
            let new = changed(&old, |value: &mut T| {
                change(value)?;
                self.slices.check_slice(at, value)
            })?;
            Ok(Decision::replace(old, new))
        })
        .await
    }

    async fn write_set(
        &self,
        decide: impl Fn(&dyn Fn(&T) -> bool, table_core::model::Entity) -> Result<Decision> + Send + Sync,
    ) -> Result<BulkSummary> {
        if self.limit.is_some() {
            return Err(Error::invalid_request(
                "a set operation over slices writes every entity of the period: select a period in place of a limit",
            ));
        }
        let wanted = self.in_period(Arc::clone(self.slices.time()));
        let mut summary = BulkSummary::default();
        for slice in self.slices_after(None).await? {
            let query = self.query_of(&slice)?.in_any_order();
            let concurrency = self.slices.concurrency();
            match query.with_concurrency(concurrency).write_set(|old| decide(&wanted, old)).await {
                // The slice was dropped since the tables were listed: it has no entities.
                Err(error) if is_gone(&error) => {}
                done => summary = summary.and(done?),
            }
        }
        Ok(summary)
    }
}
