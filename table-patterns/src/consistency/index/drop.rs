//! The drop of an index: of this program, or one that only the manifest has.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::{IndexState, StoredIndex};
use table_core::model::{ETag, Entity, Key, PartitionKey};
use table_core::query::Continuation;
use table_core::store::{CycleDetector, Error, LocalPermit, Operation, Result};
use tokio::time::Instant;

use super::consent;
use super::rows::{IndexedRows, written_by};
use super::states::manifest::Loaded;
use super::states::set::IndexSet;
use super::states::view::ReadTime;
use super::states::waiting::{WaitingFor, Waits};
use crate::entry::shared::{Merge, copy_owner};
use crate::entry::{Index, Shape};
use crate::journal::Journal;

/// Drops an index: takes its state down, removes its rows, then its row in the manifest.
pub(crate) struct IndexDrop<'a, 't> {
    pub(super) rows: IndexedRows<'a>,
    pub(super) set: &'a IndexSet,
    pub(super) journal: &'a Journal,
    /// The time for which the states of indexes are cached.
    pub(super) cache: Duration,
    pub(super) waits: Waits<'a, 't>,
}

impl<'a> IndexDrop<'a, '_> {
    /// See [`IndexedEntities::drop_index`](super::IndexedEntities::drop_index).
    pub(super) async fn run(&mut self, index: &str) -> Result<()> {
        self.set.check_writes()?;
        self.set.refresh().await?;
        let id = match self.set.find(index) {
            Ok(found) => found.id().to_owned(),
            Err(error) => {
                let loaded = self.set.manifest().load().await?;
                // A program can drop an index that it cannot maintain.
                if let Some(stored) = loaded.index(index) {
                    stored.id()
                } else if let Some(key) = row_without_entries(&loaded, index)? {
                    self.set.manifest().remove_row(&key).await?;
                    return self.set.refresh().await;
                } else {
                    return Err(error);
                }
            }
        };
        self.remove(&id, |_| true).await?;
        self.set.refresh().await
    }

    /// Continues a drop that another process has begun; returns whether this process ended it. If the drop has
    /// ended and the index is built again, no request changes the index.
    pub(crate) async fn finish(&mut self, id: &str) -> Result<bool> {
        self.set.check_writes()?;
        let removed = self.remove(id, StoredIndex::is_dropping).await?;
        self.set.refresh().await.map(|()| removed)
    }

    /// Drops a generation of an index by its row in the manifest, while `is_to_go` holds for the row. Returns
    /// whether this process removed the row.
    ///
    /// Other processes may drop or build the same index. Each step is under the version of the row that this process has read, and no step
    /// is taken before every process knows the state in that version, also if another process has written it.
    async fn remove(
        &mut self,
        id: &str,
        is_to_go: impl Fn(&StoredIndex) -> bool + Send,
    ) -> Result<bool> {
        let mut before = None;
        while let Some(mut stored) = self
            .set
            .manifest()
            .index(id)
            .await?
            .filter(|stored| is_to_go(stored))
        {
            let mut seen = Seen::of(&stored, before.take());
            // `WaitForFound`: another process may have set the state a moment ago, and others may still use the state before it.
            if !seen.is_settled {
                self.waits
                    .until_states_known(WaitingFor::State(stored.state))
                    .await?;
                before = Some(Seen {
                    is_settled: true,
                    ..seen
                });
                continue;
            }
            // An index that a build left delete-only is marked as leaving, too: no builder continues the build.
            let unmarked = (!stored.is_dropping()).then_some(IndexState::DeleteOnly);
            if let Some(next) = lower_state(stored.state).or(unmarked) {
                before = self.step_down(&mut stored, next, seen).await?;
                continue;
            }
            // The builder may still write entries within its lease. It meets the changed row at its next claim.
            if let Some(since) = seen.may_be_written_since.take() {
                let lease = self.set.slowest().durations.lease;
                self.waits
                    .until_builder_ends(id, lease.saturating_sub(since.elapsed()))
                    .await;
                before = Some(seen);
                continue;
            }
            // The rows before the row of the manifest: while that is there, an interrupted drop is found and
            // continued.
            self.remove_rows(&stored).await?;
            let consent = consent::of_index(self.set, &stored).await?;
            match self.set.manifest().remove(&stored).await {
                // Another process has changed the row, and may have removed it: read it again.
                Err(error) if error.is_conflict() => continue,
                other => other?,
            }
            // Last: until the definition is gone, it needs the consent.
            if let Some(consent) = consent {
                consent::take_back(self.set, consent).await?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Sets the next state and waits until every process knows it; `None` if another process changed the row
    /// first.
    async fn step_down(
        &mut self,
        stored: &mut StoredIndex,
        next: IndexState,
        seen: Seen,
    ) -> Result<Option<Seen>> {
        let was_building = stored.state == IndexState::Building;
        let leaving = Some(StoredIndex::DROPPING.to_owned());
        match self.set.manifest().advance(stored, next, leaving).await {
            Err(error) if error.is_conflict() => return Ok(None),
            other => other?,
        }
        let may_be_written_since = if was_building {
            Some(Instant::now())
        } else {
            seen.may_be_written_since
        };
        self.waits
            .until_states_known(WaitingFor::State(next))
            .await?;
        Ok(Some(Seen {
            version: stored.etag.clone(),
            is_settled: true,
            may_be_written_since,
        }))
    }

    async fn remove_rows(&mut self, stored: &StoredIndex) -> Result<()> {
        let id = stored.id();
        let shape = stored.shape.clone().ok_or_else(|| {
            Error::manifest_mismatch(format!(
                "the index '{id}' has a shape that this program does not know: drop the index by a newer program"
            ))
        })?;
        let index = Index::of_rows(&id, stored.table.as_ref(), shape);
        let mut removal = Removal {
            rows: self.rows,
            set: self.set,
            journal: self.journal,
            cache: self.cache,
            index,
            stored,
            asked: self.set.read_time_now(),
            until: Instant::now(),
            permit: self.set.permit(),
        };
        if removal.index.definition().is_feed() && has_another_feed(self.set, stored).await? {
            // The feeds of a table share their changes.
            return Ok(());
        }
        if !removal.index.shape().is_shared() || removal.index.definition().is_feed() {
            return removal.entries().await;
        }
        if removal.shared().await? {
            // A builder of the index in this process need not wait for the blobs.
            removal.permit = None;
            collect_blobs(self.rows, &removal.index, &mut self.waits).await?;
        }
        Ok(())
    }
}

/// Whether the table has a feed of another type whose changes are recorded. Such a feed may be dropped, too: its own drop then removes the
/// changes, when no program records any more.
async fn has_another_feed(set: &IndexSet, dropped: &StoredIndex) -> Result<bool> {
    let loaded = set.manifest().load().await?;
    let mut others = loaded.manifest.indexes.iter();
    let is_over = |feed: &StoredIndex| feed.is_dropping() && feed.state == IndexState::DeleteOnly;
    Ok(others.any(|other| {
        other.shape == Some(Shape::Feed) && other.id() != dropped.id() && !is_over(other)
    }))
}

/// The key of a row of the manifest that says nothing: a definition that is not in force, by its id or name, or a refused row, by its
/// RowKey. No program has written entries by it, so the row is all there is to drop.
fn row_without_entries(loaded: &Loaded, name: &str) -> Result<Option<Key>> {
    if let Some(stored) = loaded.not_in_force(name) {
        return stored.key().map(Some);
    }
    let refused = &loaded.manifest.refused;
    Ok(refused
        .iter()
        .find(|row| row.key.row() == name)
        .map(|row| row.key.clone()))
}

/// What a drop knows of the index's row in the manifest.
#[derive(Clone, Debug)]
struct Seen {
    /// The version of the row that this process has read or written.
    version: Option<ETag>,
    /// Whether every process knows the state in this version, or a state that asks the same of a writer.
    is_settled: bool,
    /// A builder that works on the index writes nothing more when a lease has passed since this time. `None`: no builder writes entries.
    may_be_written_since: Option<Instant>,
}

impl Seen {
    /// The knowledge of a row that was read now. `before` counts if the row is still in the same version.
    fn of(stored: &StoredIndex, before: Option<Self>) -> Self {
        let is_same = |before: &Self| before.version.is_some() && before.version == stored.etag;
        before.filter(is_same).unwrap_or_else(|| Self {
            version: stored.etag.clone(),
            // In these states a writer does the same as in the state write-only, to which the first step leads.
            is_settled: matches!(stored.state, IndexState::Readable | IndexState::Building),
            // The builder of a readable index has ended.
            may_be_written_since: (stored.state != IndexState::Readable).then(Instant::now),
        })
    }
}

/// Deletes blobs of an index that no row names; returns their number.
pub(super) async fn collect_blobs(
    rows: IndexedRows<'_>,
    index: &Index,
    waits: &mut Waits<'_, '_>,
) -> Result<usize> {
    if !index.shape().needs_blobs() {
        return Ok(0);
    }
    rows.shared
        .collect_blobs(
            &rows.entry_id(index),
            rows.table_of(index),
            waits.until_blobs_named(),
        )
        .await
}

/// The removal of the rows of an index.
struct Removal<'a> {
    rows: IndexedRows<'a>,
    set: &'a IndexSet,
    journal: &'a Journal,
    cache: Duration,
    /// The place and shape of the rows; enough to find them, not to derive keys.
    index: Index,
    stored: &'a StoredIndex,
    /// When the manifest was last read.
    asked: ReadTime,
    /// Until this time, no process can have built the index again, unless a set of this process changed a state.
    until: Instant,
    /// A builder of the same index in this process waits for this permit.
    permit: Option<LocalPermit>,
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
    async fn entries(&mut self) -> Result<()> {
        let (mut from, mut cycles) = (None, CycleDetector::default());
        loop {
            let (rows, next) = self.page(from.as_ref()).await?;
            next.iter()
                .try_for_each(|next| cycles.add(next, rows.len()))?;
            if !self.is_in_place().await? {
                return Ok(());
            }
            let mut groups: BTreeMap<PartitionKey, Vec<Operation>> = BTreeMap::new();
            for row in rows {
                // In the version that was read: the index may have been built again before the group is sent. In the state *delete-only*
                // no writer changes a row of the index. An applier that settles a row makes the drop fail; it is then called again.
                let condition = row.version()?;
                let delete = Operation::Delete(row.key().clone(), condition);
                groups
                    .entry(row.key().partition_key())
                    .or_default()
                    .push(delete);
            }
            if !self.send(groups).await? || next.is_none() {
                return Ok(());
            }
            from = next;
        }
    }

    /// Sends the groups; `false` if the index is no longer the dropped generation.
    async fn send(&mut self, groups: BTreeMap<PartitionKey, Vec<Operation>>) -> Result<bool> {
        let table = self.rows.table_of(&self.index);
        let mut left: Vec<_> = groups
            .into_iter()
            .map(|(partition, deletes)| ((table.clone(), partition), deletes))
            .collect();
        loop {
            let (until, remote, most) = (
                self.until,
                self.journal.remote_rows(),
                self.rows.concurrency,
            );
            // Entries often have a partition each, so that each is a request of its own.
            let sends = left.into_iter().map(|(to, mut operations)| async move {
                // The first group is always sent, so that a drop with slow requests ends, too. A late group
                // does no harm: it deletes rows in the versions that were read (`DropInVersion`).
                let mut first = true;
                let may_send = move || std::mem::take(&mut first) || Instant::now() <= until;
                let sent = remote.put_while(&to, &mut operations, may_send).await?;
                Ok::<_, Error>((!sent).then_some((to, operations)))
            });
            let sent: Vec<_> = stream::iter(sends)
                .buffer_unordered(most.max(1))
                .try_collect()
                .await?;
            left = sent.into_iter().flatten().collect();
            if left.is_empty() {
                return Ok(true);
            }
            if !self.is_in_place().await? {
                return Ok(false);
            }
        }
    }

    /// Removes copies from entities, or deletes shared rows, until no row remains. `false` if the index is no longer the dropped
    /// generation.
    async fn shared(&mut self) -> Result<bool> {
        let (mut from, mut left, mut cycles) = (None, false, CycleDetector::default());
        loop {
            let (rows, next) = self.page(from.as_ref()).await?;
            match &next {
                Some(next) => cycles.add(next, rows.len())?,
                // The rows are read again from the first one, and the tokens are the same again.
                None => cycles = CycleDetector::default(),
            }
            if !self.is_in_place().await? {
                return Ok(false);
            }
            left |= !rows.is_empty();
            let (of, index) = (self.rows, &self.index);
            let removals = stream::iter(rows).map(|row| async move {
                let at = of.location(index, row.key());
                let Shape::Copy { prefix, .. } = index.shape() else {
                    return of.delete_unchanged(&at, &row).await.map(drop);
                };
                let mut merge = Merge::new(at.clone(), of.entry_id(index), index.shape().clone());
                merge
                    .gone
                    .extend(copy_owner(&row, prefix, &merge.index).own());
                let prepared = of.shared.prepare(&merge).await?;
                of.shared.send(&at, prepared).await.map(drop)
            });
            removals
                .buffer_unordered(of.concurrency)
                .try_collect::<Vec<()>>()
                .await?;
            // A row that a writer changed after the read still exists: read the rows again.
            if next.is_none() && !std::mem::take(&mut left) {
                return Ok(true);
            }
            from = next;
        }
    }

    async fn page(
        &self,
        from: Option<&Continuation>,
    ) -> Result<(Vec<Entity>, Option<Continuation>)> {
        let page = self
            .rows
            .page(&self.index, &written_by(&self.index, self.rows.table), from)
            .await?;
        Ok((page.items, page.continuation))
    }

    /// Whether the manifest still has the dropped index in the version that was read: the rows read before
    /// belong to it then. After the row has changed, another program may build the index again. Its entries
    /// come later than the cache time; in this process, they come after the requests under the permit.
    async fn is_in_place(&mut self) -> Result<bool> {
        let set = self.set;
        // A new permit for each page, and before the states are read: a change of state in this process waits
        // for one page, not for the whole drop.
        self.permit = set.permit();
        if Instant::now() < self.until && set.is_after_last_change(self.asked) {
            return Ok(true);
        }
        self.asked = set.ensure_registered().await?;
        let asked = self.asked.at;
        let now = set.manifest().index(self.index.id()).await?;
        self.until = asked + self.cache;
        Ok(now.is_some_and(|now| now.etag == self.stored.etag))
    }
}
