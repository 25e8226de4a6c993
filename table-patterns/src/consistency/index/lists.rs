//! Lookups in lists and summaries, and the collection of blobs.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, Key};
use table_core::query::{Filter, Query};
use table_core::store::{Error, Result, TableStoreExt as _};
use tokio::time::{Instant, sleep_until};

use super::definition::Index;
use super::entry::Location;
use super::indexed::IndexedEntities;
use super::query::IndexQuery;
use super::resolve::Readable;
use super::shape::Shape;
use super::shared::Summary;
use super::waiting::{Waiting, WaitingFor};

impl IndexedEntities {
    /// The keys of the entities in a list, in the order of keys, as the list has them. 1 request; 1 more for
    /// each chunk of a long list, sent in parallel.
    ///
    /// # Errors
    /// The index is unknown, not readable, or keeps no lists.
    pub async fn references(&self, index: &str, key: &Key) -> Result<Vec<Key>> {
        let index = self.list_index(index).await?;
        self.keys_in(&index, &self.location(&index, key)).await
    }

    /// The entities of a list, in the order of their keys. 1 request for the list and 1 for each entity, with
    /// [`IndexOptions::concurrency`](super::IndexOptions) requests in parallel: 2 round trips for 16 entities.
    /// Entities that have left the list are omitted.
    ///
    /// # Errors
    /// As for [`references`](Self::references).
    pub async fn list(&self, index: &str, key: &Key) -> Result<Vec<Entity>> {
        let index = self.list_index(index).await?;
        let at = self.location(&index, key);
        let keys = self.keys_in(&index, &at).await?;
        Ok(self.follow(&index, &at, keys, usize::MAX).await?.0)
    }

    /// As [`list`](Self::list), with one range query for the entities instead of 1 request for each: from the
    /// list's first entity to its last, in one partition. Cheaper for entities that are close together; the
    /// query also reads the entities between them. 1 request for the list, 1 for each 1,000 entities in the
    /// range.
    ///
    /// # Errors
    /// As for [`references`](Self::references); the list has entities of several partitions.
    pub async fn list_by_range(&self, index: &str, key: &Key) -> Result<Vec<Entity>> {
        let index = self.list_index(index).await?;
        let at = self.location(&index, key);
        let keys: BTreeSet<_> = self.keys_in(&index, &at).await?.into_iter().collect();
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(Vec::new()) };
        if first.partition() != last.partition() {
            let reason = format!("the list {key} has entities of several partitions: call `list`");
            return Err(Error::invalid_request(reason));
        }
        let rows = Filter::ge(Filter::ROW_KEY, first.row()).and(Filter::le(Filter::ROW_KEY, last.row()));
        let filter = Filter::eq(Filter::PARTITION_KEY, first.partition()).and(rows);
        let found = self.store().query_all(self.table(), &Query::new().with_filter(filter)).await?;
        let mut entities = Vec::with_capacity(keys.len());
        for entity in found.into_iter().filter(|e| keys.contains(e.key())) {
            if self.is_at(&index, &entity, &at)? {
                entities.push(entity);
            }
        }
        entities.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(entities)
    }

    /// The count and sums of a key; zeros for a key without entities. 1 request.
    ///
    /// # Errors
    /// The index is unknown, not readable, or keeps no summaries.
    pub async fn summary(&self, index: &str, key: &Key) -> Result<Summary> {
        let index = self.summary_index(index).await?;
        let row = self.store().get(self.table(), key, None).await?;
        let row = row.filter(|row| super::Entry::index_of(row) == Some(index.id()));
        row.map_or_else(|| Ok(Summary::default()), |row| Summary::read(row.key(), row.properties()))
    }

    /// The counts and sums of the matching keys of a partition. 1 request for each 1,000 keys.
    ///
    /// # Errors
    /// As for [`summary`](Self::summary).
    pub async fn summaries(&self, index: &str, query: &IndexQuery) -> Result<Vec<(Key, Summary)>> {
        let index = self.summary_index(index).await?;
        let rows = self.store().query_all(self.table(), &query.to_query(&index)).await?;
        let rows = rows.into_iter().filter(|row| super::Entry::index_of(row) == Some(index.id()));
        let read = |row: Entity| Ok((row.key().clone(), Summary::read(row.key(), row.properties())?));
        rows.map(read).collect()
    }

    /// Deletes blobs that crashes left and that no list names; returns their number. Waits for the longest
    /// lease plus the longest request of the registered processes: after that, every write that was under way
    /// is finished or stopped.
    ///
    /// # Errors
    /// The index is unknown; an error of the store.
    pub async fn collect_blobs(&self, index: &str) -> Result<usize> {
        self.set.check_writes()?;
        let index = self.set.find(index)?;
        self.collect_blobs_of(&index, &mut |_| ()).await
    }

    /// As [`collect_blobs`](Self::collect_blobs); reports the wait.
    pub(super) async fn collect_blobs_of(
        &self,
        index: &Index,
        tell: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<usize> {
        if !index.shape().needs_blobs() {
            return Ok(0);
        }
        let slowest = self.set.slowest().durations;
        let wait = async {
            let until = Instant::now() + slowest.lease + slowest.request;
            tell(Waiting { for_what: WaitingFor::Blobs, process: None, until });
            sleep_until(until).await;
        };
        self.journal.shared().collect_blobs(index.id(), &self.index_table(index), wait).await
    }

    /// Reads entities of a list until `limit` of them are found. Each round reads only as many as are still
    /// needed, so more are read only in place of entities that have left the list. Also returns the last
    /// reference that was followed, if the list has more.
    pub(super) async fn follow(
        &self,
        index: &Index,
        at: &Location,
        keys: Vec<Key>,
        limit: usize,
    ) -> Result<(Vec<Entity>, Option<Key>)> {
        let (mut found, mut last, mut keys) = (Vec::new(), None, keys.into_iter());
        while found.len() < limit {
            let next: Vec<_> = keys.by_ref().take(limit - found.len()).collect();
            if next.is_empty() {
                break;
            }
            last = next.last().cloned();
            found.extend(self.follow_all(index, at, next).await?);
        }
        Ok((found, last.filter(|_| keys.len() > 0)))
    }

    /// Reads entities of a list, and keeps those that still belong to it.
    async fn follow_all(&self, index: &Index, at: &Location, keys: Vec<Key>) -> Result<Vec<Entity>> {
        let reads = stream::iter(keys).map(|key| async move {
            let Some(entity) = self.read(&key).await? else { return Ok(None) };
            Ok(self.is_at(index, &entity, at)?.then_some(entity))
        });
        reads.buffered(self.at_once()).try_filter_map(|found| async move { Ok(found) }).try_collect().await
    }

    /// Whether an entity's entry is at a location.
    pub(super) fn is_at(&self, index: &Index, entity: &Entity, at: &Location) -> Result<bool> {
        index.has_entry_at(self.table(), entity, at)
    }

    /// The references of a list.
    pub(super) async fn keys_in(&self, index: &Index, at: &Location) -> Result<Vec<Key>> {
        let members = self.journal.shared().members(at, index.id()).await?;
        members.keys().ok_or_else(|| damaged(at))
    }

    /// The references of a list whose row was read.
    pub(super) async fn keys_of(&self, index: &Index, at: &Location, row: &Entity) -> Result<Vec<Key>> {
        match self.journal.shared().members_of(at, row).await? {
            Some(members) => members.keys().ok_or_else(|| damaged(at)),
            None => self.keys_in(index, at).await,
        }
    }

    pub(super) async fn list_index(&self, name: &str) -> Result<Readable> {
        let index = self.readable(name).await?;
        let shape = index.shape().clone();
        let refused = || {
            Error::invalid_request(format!(
                "the index '{name}' has the shape {shape}, not list: call `page` or `find`"
            ))
        };
        if shape.is_list() { Ok(index) } else { Err(refused()) }
    }

    async fn summary_index(&self, name: &str) -> Result<Readable> {
        let index = self.readable(name).await?;
        let shape = index.shape().clone();
        let refused = || {
            Error::invalid_request(format!(
                "the index '{name}' has the shape {shape}, not summary: call `page`, `find` or `list`"
            ))
        };
        if matches!(shape, Shape::Summary { .. }) { Ok(index) } else { Err(refused()) }
    }
}

fn damaged(at: &Location) -> Error {
    Error::corrupt(format!("the list {} has a reference that is not a valid key", at.key))
}
