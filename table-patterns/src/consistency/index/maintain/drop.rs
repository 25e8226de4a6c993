//! Drops indexes of this program and indexes that only the manifest has.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::{IndexState, StoredIndex};
use table_core::model::{Entity, IfMatch};
use table_core::query::Continuation;
use table_core::store::{Error, LocalPermit, Operation, Result};
use tokio::time::Instant;

use super::build::IndexBuild;
use super::build_groups::Groups;
use crate::entry::shared::{Merge, copy_owner};
use crate::entry::{Index, Shape};
use crate::index::handle::IndexedEntities;
use crate::index::states::view::ReadTime;
use crate::index::states::waiting::{Waiting, WaitingFor};

impl IndexedEntities {
    /// Drops an index: its entries, then its row in the manifest. A name means the generation that this program
    /// defines, or the only generation there is. An [id](Index::id) means any generation, of any program or
    /// type, whether or not this program can maintain it. The index passes through the states write-only and
    /// delete-only to absent, so writers maintain less of it at each step. After a crash, call this function
    /// again to continue; several programs may run it. A program that still defines a dropped unique index
    /// refuses writes of its values: remove the index from the definitions, too.
    ///
    /// Cost: the pages of the index (of the whole table, if its entries are in the entities' table: a service
    /// may return short pages); 1 group per 100 entries of a partition in each page (1 request per row of
    /// lists, summaries and copies); 3 requests per change of state; 1 request for each
    /// [`IndexOptions::cache`](crate::index::IndexOptions::cache) that it takes. A drop waits at each change of state
    /// as a [build](IndexBuild) does, and waits for a running builder.
    ///
    /// # Errors
    /// The index is unknown, or several indexes of this name exist and none is of this program; an error of the
    /// store.
    pub async fn drop_index(&self, index: &str) -> Result<()> {
        self.drop_index_with(index, |_| ()).await
    }

    /// As [`drop_index`](Self::drop_index); reports each wait with its latest end.
    ///
    /// # Errors
    /// As for [`drop_index`](Self::drop_index).
    pub async fn drop_index_with(&self, index: &str, mut on_wait: impl FnMut(Waiting) + Send) -> Result<()> {
        self.set.check_writes()?;
        self.refresh().await?;
        let id = match self.set.find(index) {
            Ok(found) => found.id().to_owned(),
            // A program can drop an index that it cannot maintain.
            Err(error) => match self.rows().index(index).await? {
                Some(stored) => stored.id(),
                None => return Err(error),
            },
        };
        self.remove(&id, |_| true, &mut on_wait).await?;
        self.refresh().await
    }

    /// Continues a drop that another process has begun; returns whether this process ended it. If the drop has
    /// ended and the index is built again, no request changes the index.
    pub(crate) async fn finish_drop(&self, id: &str) -> Result<bool> {
        self.set.check_writes()?;
        let removed = self.remove(id, StoredIndex::is_dropping, &mut |_| {}).await?;
        self.refresh().await.map(|()| removed)
    }

    /// Drops an index with all its entries and prepares its build: for an index whose content is in doubt.
    /// Lookups by the index are refused until the build has run; other indexes are unaffected. After a crash,
    /// [`build`](Self::build) continues the build, and this function starts again.
    ///
    /// Until a unique index is built again, writes that give an entity a value of it are refused.
    ///
    /// An index with a changed *definition* is another generation, which is [built](Self::build) in addition to
    /// the earlier generation.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use table_patterns::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// let by_city = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
    /// let people = IndexedEntities::open(store, table, vec![by_city], IndexOptions::local()).await?;
    /// people.insert(Entity::new("p", "1")?.with("City", "oslo")).await?;
    /// let built = people.rebuild("city").await?.run().await?;
    /// assert_eq!((built.entries, people.state("city")), (1, IndexState::Readable));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`drop_index`](Self::drop_index).
    pub async fn rebuild(&self, index: &str) -> Result<IndexBuild<'_>> {
        self.drop_index(index).await?;
        self.build(index)
    }

    /// Drops a generation of an index by its row in the manifest, while `is_to_go` holds for the row. Returns
    /// whether this process removed the row.
    async fn remove(
        &self,
        id: &str,
        is_to_go: impl Fn(&StoredIndex) -> bool + Send,
        on_wait: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<bool> {
        let mut settled = false;
        while let Some(mut stored) = self.rows().index(id).await?.filter(|stored| is_to_go(stored)) {
            // An index that a build left delete-only is marked as leaving, too: no builder continues the build.
            let unmarked = (!stored.is_dropping()).then_some(IndexState::DeleteOnly);
            if let Some(next) = lower_state(stored.state).or(unmarked) {
                settled = self.step_down(&mut stored, next, on_wait).await?;
                continue;
            }
            if !settled {
                // The process that set the state may have died before all writers knew the state.
                self.wait_for_state_propagation(WaitingFor::State(stored.state), on_wait).await?;
                settled = true;
                continue;
            }
            self.remove_rows(&stored, on_wait).await?;
            match self.rows().remove(&stored).await {
                Err(error) if error.is_conflict() => {}
                other => return other.map(|()| true),
            }
        }
        Ok(false)
    }

    /// Sets the next state and waits until every writer knows it; `false` if another process changed the row
    /// first.
    async fn step_down(
        &self,
        stored: &mut StoredIndex,
        next: IndexState,
        on_wait: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<bool> {
        let was_building = stored.state == IndexState::Building;
        let leaving = Some(StoredIndex::DROPPING.to_owned());
        match self.rows().advance(stored, next, leaving).await {
            Err(error) if error.is_conflict() => return Ok(false),
            other => other?,
        }
        self.wait_for_state_propagation(WaitingFor::State(next), on_wait).await?;
        if was_building {
            let lease = self.set.slowest().durations.lease;
            self.let_builder_end(&stored.id(), lease, on_wait).await;
        }
        Ok(true)
    }

    async fn remove_rows(
        &self,
        stored: &StoredIndex,
        on_wait: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<()> {
        let id = stored.id();
        let shape = stored.shape.clone().ok_or_else(|| {
            Error::invalid_request(format!(
                "the index '{id}' has a shape that this program does not know: drop the index by a newer program"
            ))
        })?;
        let index = Index::of_rows(&id, stored.table.as_ref(), shape);
        let (set, until) = (&self.set, Instant::now());
        let mut removal =
            Removal { entities: self, index, stored, asked: set.asked(), until, permit: set.permit() };
        if removal.index.shape().is_shared() {
            removal.shared(on_wait).await
        } else {
            removal.entries().await
        }
    }
}

/// The removal of the rows of an index.
pub(crate) struct Removal<'a> {
    pub(crate) entities: &'a IndexedEntities,
    /// The place and shape of the rows; enough to find them, not to derive keys.
    pub(crate) index: Index,
    pub(crate) stored: &'a StoredIndex,
    /// When the manifest was last read.
    pub(crate) asked: ReadTime,
    /// Until this time, no process can have built the index again, unless a set of this process changed a state.
    pub(crate) until: Instant,
    /// A builder of the same index in this process waits for this permit.
    pub(crate) permit: Option<LocalPermit>,
}

const fn lower_state(state: IndexState) -> Option<IndexState> {
    match state {
        IndexState::Readable | IndexState::Building => Some(IndexState::WriteOnly),
        IndexState::WriteOnly => Some(IndexState::DeleteOnly),
        IndexState::DeleteOnly | IndexState::Absent => None,
    }
}

impl Removal<'_> {
    /// Deletes rows that hold one entry each, in groups.
    pub(crate) async fn entries(&mut self) -> Result<()> {
        let mut from = None;
        loop {
            let (rows, next) = self.page(from.as_ref()).await?;
            if !self.is_in_place().await? {
                return Ok(());
            }
            let mut groups = Groups::default();
            for row in rows {
                // In the version that was read: the index may have been built again before the group is sent.
                let condition = row.etag().map_or(IfMatch::Any, IfMatch::from);
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
    pub(crate) async fn shared(&mut self, tell: &mut (dyn FnMut(Waiting) + Send)) -> Result<()> {
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
