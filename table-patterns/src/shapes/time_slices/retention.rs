//! Dropping slices.

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::model::Ticks;
use table_core::store::{Result, TableStore};
use table_core::typed::FromEntity;

use super::tables::is_gone;
use super::{Keep, Slice, TimeSlices};

impl<T: FromEntity> TimeSlices<T> {
    /// Drops every slice that ends by then. One request to list the tables, one for each slice. What was dropped, by
    /// this call or meanwhile by another.
    ///
    /// # Errors
    /// The store's: run it again for the rest.
    pub async fn drop_before(&self, before: Ticks) -> Result<Vec<Slice>> {
        let slices = self.slices().await?;
        self.drop_all(slices.into_iter().filter(|slice| slice.before <= before).collect()).await
    }

    /// What [`retain`](Self::retain) would drop: a dry run. One request.
    ///
    /// # Errors
    /// The store's; a negative age.
    pub async fn expired(&self, keep: Keep, now: Ticks) -> Result<Vec<Slice>> {
        keep.expired(self.slices().await?, now)
    }

    /// Drops what a policy does not keep. One request to list the tables, one for each slice.
    ///
    /// # Errors
    /// As [`drop_before`](Self::drop_before) and [`expired`](Self::expired).
    pub async fn retain(&self, keep: Keep, now: Ticks) -> Result<Vec<Slice>> {
        self.drop_all(self.expired(keep, now).await?).await
    }

    async fn drop_all(&self, slices: Vec<Slice>) -> Result<Vec<Slice>> {
        let drop = |slice: Slice| async move {
            self.forget(&slice.name);
            match self.shared.store.delete_table(&slice.table).await {
                Err(error) if !is_gone(&error) => Err(error),
                _ => Ok(slice),
            }
        };
        stream::iter(slices).map(drop).buffered(self.shared.concurrency).try_collect().await
    }
}
