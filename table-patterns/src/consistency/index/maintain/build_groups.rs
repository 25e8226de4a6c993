//! The groups in which a build writes the entries of a window.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::StoredIndex;
use table_core::model::{PartitionKey, TableName};
use table_core::store::{Operation, Result};

use super::build::IndexBuild;
use crate::index::handle::IndexedEntities;
use crate::journal::Lease;

/// Groups of a window being written.
const IN_PARALLEL: usize = 16;

/// Operations on one partition.
type Group = ((TableName, PartitionKey), Vec<Operation>);

/// Operations by partition.
#[derive(Default)]
pub(crate) struct Groups(pub(crate) BTreeMap<(TableName, PartitionKey), Vec<Operation>>);

impl Groups {
    pub(crate) fn add(&mut self, table: TableName, partition: PartitionKey, operation: Operation) {
        self.0.entry((table, partition)).or_default().push(operation);
    }

    /// Splits the groups into parts with at most `most` operations.
    fn split(self, most: usize) -> Vec<Group> {
        let parts = self.0.into_iter().flat_map(|(partition, mut operations)| {
            let mut parts = Vec::with_capacity(operations.len().div_ceil(most));
            while operations.len() > most {
                let rest = operations.split_off(most);
                parts.push((partition.clone(), std::mem::replace(&mut operations, rest)));
            }
            parts.push((partition, operations));
            parts
        });
        parts.collect()
    }
}

impl IndexedEntities {
    /// Sends a part of a window while the lease lasts. Returns the remaining operations and the number of sent groups.
    async fn put(&self, (to, mut operations): Group, lease: Lease) -> Result<(Group, usize)> {
        let mut sent = 0;
        if lease.may_send() {
            let may_send = || {
                let may_send = lease.may_send();
                sent += usize::from(may_send);
                may_send
            };
            let put = self.journal.put_while(&to, &mut operations, may_send);
            self.while_leased(lease, put).await?;
        }
        Ok(((to, operations), sent))
    }
}

impl IndexBuild<'_> {
    /// Sends groups under the builder's lease, because another builder may replace a builder that is silent for a lease.
    pub(crate) async fn send(&mut self, groups: Groups, entry: &mut StoredIndex) -> Result<()> {
        let mut groups = groups.split(self.entities.store().profile().group_operations);
        while !groups.is_empty() {
            let lease = self.lease;
            let sends = groups.into_iter().map(|group| self.entities.put(group, lease)).collect::<Vec<_>>();
            let sent: Vec<_> = stream::iter(sends).buffer_unordered(IN_PARALLEL).try_collect().await?;
            self.progress.groups += sent.iter().map(|(_, groups)| groups).sum::<usize>();
            groups = sent.into_iter().map(|(left, _)| left).filter(|left| !left.1.is_empty()).collect();
            if !groups.is_empty() {
                self.claim(entry).await?;
            }
        }
        Ok(())
    }
}
