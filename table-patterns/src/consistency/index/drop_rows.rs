//! Deletes the rows of a dropped index, page by page.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch};
use table_core::query::Continuation;
use table_core::store::{Operation, Result};
use tokio::time::Instant;

use super::build_groups::Groups;
use super::drop::Removal;
use super::indexed::IndexedEntities;
use super::shape::Shape;
use super::shared::{Merge, copy_owner};
use super::waiting::Waiting;
use crate::journal::Invariant;

impl Removal<'_> {
    /// Deletes rows that hold one entry each, in groups.
    pub(super) async fn entries(&mut self) -> Result<()> {
        let mut from = None;
        loop {
            let (rows, next) = self.page(from.as_ref()).await?;
            if !self.is_in_place().await? {
                return Ok(());
            }
            let mut groups = Groups::default();
            for row in rows {
                // In the version that was read: the index may have been built again before the group is sent.
                let version = row.etag().filter(|_| self.entities.enforces(Invariant::DropInVersion));
                let condition = version.map_or(IfMatch::Any, IfMatch::from);
                let delete = Operation::Delete(row.key().clone(), condition);
                groups.add(self.entities.index_table(&self.index), row.key().partition_key(), delete);
            }
            if !self.send(groups).await? || next.is_none() {
                return Ok(());
            }
            from = next;
        }
    }

    /// Sends the groups; `false` if the index is no longer the dropped generation.
    async fn send(&mut self, groups: Groups) -> Result<bool> {
        for (partition, mut operations) in groups.0 {
            loop {
                let (until, mut first) = (self.until, true);
                let may_send = move || std::mem::take(&mut first) || Instant::now() <= until;
                if self.entities.journal.put_while(&partition, &mut operations, may_send).await? {
                    break;
                }
                if !self.is_in_place().await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Removes copies from entities, or deletes shared rows, until no row remains.
    pub(super) async fn shared(&mut self, tell: &mut (dyn FnMut(Waiting) + Send)) -> Result<()> {
        let (mut from, mut left) = (None, false);
        loop {
            let (rows, next) = self.page(from.as_ref()).await?;
            if !self.is_in_place().await? {
                return Ok(());
            }
            left |= !rows.is_empty();
            let (entities, index) = (self.entities, &self.index);
            let removals = stream::iter(rows).map(|row| async move {
                let at = entities.location(index, row.key());
                let Shape::Copy { prefix, .. } = index.shape() else {
                    return entities.delete_unchanged(&at, &row).await.map(drop);
                };
                let mut merge = Merge::new(at.clone(), index.id().to_owned(), index.shape().clone());
                merge.gone.extend(copy_owner(&row, prefix));
                let prepared = entities.journal.shared().prepare(&merge).await?;
                entities.journal.shared().send(&at, prepared).await.map(drop)
            });
            let at_once = entities.at_once();
            removals.buffer_unordered(at_once).try_collect::<Vec<()>>().await?;
            // A row that a writer changed after the read still exists: read the rows again.
            if next.is_none() && !std::mem::take(&mut left) {
                self.permit = None;
                return entities.collect_blobs_of(index, tell).await.map(drop);
            }
            from = next;
        }
    }

    async fn page(&self, from: Option<&Continuation>) -> Result<(Vec<Entity>, Option<Continuation>)> {
        let query = IndexedEntities::rows_of(&self.index);
        let page = self.entities.query_rows(&self.index, &query, from).await?;
        Ok((page.items, page.continuation))
    }

    /// Whether the manifest still has the dropped index in the version that was read: the rows read before
    /// belong to it then. After the row has changed, another program may build the index again. Its entries
    /// come later than the cache time; in this process, they come after the requests under the permit.
    async fn is_in_place(&mut self) -> Result<bool> {
        let set = &self.entities.set;
        self.permit = set.permit();
        if Instant::now() < self.until && set.is_after_last_change(self.asked) {
            return Ok(true);
        }
        self.asked = set.ask(&**self.entities.store()).await?;
        let asked = self.asked.at;
        let now = self.entities.rows().index(self.index.id()).await?;
        self.until = asked + self.entities.options.cache;
        Ok(now.is_some_and(|now| now.etag == self.stored.etag))
    }
}
