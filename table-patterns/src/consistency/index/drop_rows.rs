//! The rows of an index that is being removed, a page at a time.

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
use crate::journal::Rule;

impl Removal<'_> {
    /// Deletes rows of their own, in groups.
    pub(super) async fn entries(&mut self) -> Result<()> {
        let mut from = None;
        loop {
            let (rows, next) = self.page(from.as_ref()).await?;
            if !self.is_in_place().await? {
                return Ok(());
            }
            let mut groups = Groups::default();
            for row in rows {
                // In this version only: by the time it is sent, the index may have been built again.
                let version = row.etag().filter(|_| self.entities.keeps(Rule::DropInVersion));
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

    /// Whether the index was in its place until all were sent.
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

    /// Strips copies from the entities that have them, or deletes rows, until none is left.
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
            // A row that was written meanwhile is still there.
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

    /// Whether the manifest still has the index as it is to be removed: what was read before is of that index
    /// then. Once it has not, another program may
    /// build it again: its entries come later than the time for which states are cached, and in this process after what is
    /// done under the permit.
    async fn is_in_place(&mut self) -> Result<bool> {
        let set = &self.entities.set;
        self.permit = set.permit();
        if Instant::now() < self.until && set.is_of_last_change(self.asked) {
            return Ok(true);
        }
        self.asked = set.ask(&**self.entities.store()).await?;
        let asked = self.asked.at;
        let now = self.entities.rows().index(self.index.id()).await?;
        self.until = asked + self.entities.options.cache;
        Ok(now.is_some_and(|now| now.etag == self.stored.etag))
    }
}
