//! Building of rows that hold the entries of several entities.

use std::collections::BTreeMap;
use std::sync::Arc;

use table_core::manifest::StoredIndex;
use table_core::model::{Entity, PartitionKey, TableName};
use table_core::store::Result;
use tokio::time::sleep;

use super::build::IndexBuild;
use super::scrub::{ScrubMode, ScrubReport};
use crate::entry::Location;
use crate::entry::shared::Merge;

impl IndexBuild<'_> {
    /// Counts partition by partition; progress is the partition counted last.
    pub(crate) async fn total(&mut self, entry: &mut StoredIndex) -> Result<()> {
        loop {
            let mut report = ScrubReport::default();
            let (entities, index, after) = (self.entities, Arc::clone(&self.index), entry.progress.clone());
            let counted = entities.total_next(&index, ScrubMode::Repair, after.as_deref(), &mut report);
            let next = self.while_claimed(entry, counted).await?;
            self.progress.entities += report.entities;
            self.progress.entries += report.missing;
            let Some(next) = next else { return Ok(()) };
            entry.progress = Some(next);
            self.claim(entry).await?;
            self.tell(entry.state);
            sleep(self.pause).await;
        }
    }

    /// Adds the entries of a window to the rows that they share.
    pub(crate) async fn merge_window(&mut self, window: &[Entity], entry: &mut StoredIndex) -> Result<()> {
        let mut merges: BTreeMap<(TableName, PartitionKey), BTreeMap<Location, Merge>> = BTreeMap::new();
        for entity in window {
            for put in self.index.entries(self.entities.table(), entity)? {
                let at = put.location.clone();
                let partition = merges.entry((at.table.clone(), at.key.partition_key())).or_default();
                let new = || Merge::new(at.clone(), put.index.clone(), put.shape.clone());
                partition.entry(at.clone()).or_insert_with(new).put.push(put);
                self.progress.entries += 1;
            }
        }
        for (partition, merges) in merges {
            let mut merges: Vec<_> = merges.into_values().collect();
            while !self.merge_in_lease(&partition, &mut merges).await? {
                self.claim(entry).await?;
            }
        }
        Ok(())
    }

    /// Whether all were sent.
    async fn merge_in_lease(
        &mut self,
        to: &(TableName, PartitionKey),
        merges: &mut Vec<Merge>,
    ) -> Result<bool> {
        let (lease, sent) = (self.lease, &mut self.progress.groups);
        if !lease.may_send() {
            return Ok(false);
        }
        let may_send = || {
            *sent += usize::from(lease.may_send());
            lease.may_send()
        };
        let merged = self.entities.journal.merge_while(to, merges, may_send);
        self.entities.while_leased(lease, merged).await
    }
}
