use table_core::model::IfMatch;
use table_core::query::{Filter, Query};
use table_core::store::{Operation, Result, TableStoreExt as _};
use tokio::time::sleep;

use super::build::Groups;
use super::definition::Index;
use super::entry::Entry;
use super::indexed::IndexedEntities;
use super::state::IndexState;

impl IndexedEntities {
    /// Removes an index: its entries, then its place in the catalog. Writers maintain it less and less:
    /// write-only, delete-only, absent.
    ///
    /// Cost: the pages of the index and one request per entry, two per change of state.
    ///
    /// # Errors
    /// The index is unknown; the storage's.
    pub async fn drop_index(&self, index: &str) -> Result<()> {
        let index = self.set.find(index)?;
        let Some(mut entry) = self.catalog_entry(index.name()).await? else { return Ok(()) };
        while let Some(state) = before(entry.state) {
            let building = entry.state == IndexState::Building;
            self.catalog().advance(index.name(), &mut entry, state, None).await?;
            self.settle_state().await?;
            if building {
                sleep(self.options.timing.lease()).await;
            }
        }
        if index.shape().is_shared() {
            self.remove_shared(index).await?;
        } else {
            self.remove_entries(index).await?;
        }
        self.catalog().remove(index.name(), &entry).await?;
        self.refresh().await
    }

    async fn remove_entries(&self, index: &Index) -> Result<()> {
        let query = Query::new().with_filter(Filter::eq(Entry::INDEX, index.name()));
        let table = self.index_table(index);
        let mut groups = Groups::default();
        for row in self.store().query_all(&table, &query).await? {
            // In this version only: by the time it is sent, the index may have been built again.
            let condition = row.etag().map_or(IfMatch::Any, IfMatch::from);
            let delete = Operation::Delete(row.key().clone(), condition);
            groups.add(table.clone(), row.key().partition_key(), delete);
        }
        for (partition, mut operations) in groups.0 {
            self.journal.put_while(&partition, &mut operations, || true).await?;
        }
        Ok(())
    }
}

const fn before(state: IndexState) -> Option<IndexState> {
    match state {
        IndexState::Readable | IndexState::Building => Some(IndexState::WriteOnly),
        IndexState::WriteOnly => Some(IndexState::DeleteOnly),
        IndexState::DeleteOnly | IndexState::Absent => None,
    }
}
