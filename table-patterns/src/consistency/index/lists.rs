//! Lookups in lists and summaries.

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
    /// The keys of the entities in a list, in their order, as the list has them. One request; for a list
    /// that is longer than a list entity, one more for each of its parts, at once.
    ///
    /// # Errors
    /// The index is unknown, not readable, or keeps no lists.
    pub async fn references(&self, index: &str, key: &Key) -> Result<Vec<Key>> {
        let index = self.list_index(index).await?;
        self.keys_in(&index, &self.location(&index, key)).await
    }

    /// The entities of a list, in the order of their keys. One request for the list, then one for each
    /// entity, as many at once as [`IndexOptions::concurrency`](super::IndexOptions) says: two round trips for
    /// 16 entities. Entities that have left the list are left out.
    ///
    /// # Errors
    /// As for [`references`](Self::references).
    pub async fn list(&self, index: &str, key: &Key) -> Result<Vec<Entity>> {
        let index = self.list_index(index).await?;
        let at = self.location(&index, key);
        let keys = self.keys_in(&index, &at).await?;
        Ok(self.follow(&index, &at, keys, usize::MAX).await?.0)
    }

    /// The same, with one range query for the entities instead of a request for each: from the first of the
    /// list to its last, in one partition. Cheaper where they lie close together; it reads what lies
    /// between them too. One request for the list, one for each 1,000 entities in the range.
    ///
    /// # Errors
    /// As for [`references`](Self::references); the list has entities of several partitions.
    pub async fn list_by_range(&self, index: &str, key: &Key) -> Result<Vec<Entity>> {
        let index = self.list_index(index).await?;
        let at = self.location(&index, key);
        let keys: BTreeSet<_> = self.keys_in(&index, &at).await?.into_iter().collect();
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(Vec::new()) };
        if first.partition() != last.partition() {
            let reason = format!("the list {key} has entities of several partitions: use `list`");
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

    /// The count and sums of a key; zeros where it has no entity. One request.
    ///
    /// # Errors
    /// The index is unknown, not readable, or keeps no summaries.
    pub async fn summary(&self, index: &str, key: &Key) -> Result<Summary> {
        let index = self.summary_index(index).await?;
        let row = self.store().get(self.table(), key, None).await?;
        let row = row.filter(|row| super::Entry::index_of(row) == Some(index.id()));
        row.map_or_else(|| Ok(Summary::default()), |row| Summary::read(row.key(), row.properties()))
    }

    /// The counts and sums of the keys of a partition that match. One request for each 1,000.
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

    /// Deletes blobs that crashes left and no list names; how many. Waits the longest lease of
    /// the processes that are registered, in which every write under way is finished or given up.
    ///
    /// # Errors
    /// The index is unknown; the storage's.
    pub async fn collect_blobs(&self, index: &str) -> Result<usize> {
        self.set.check_writes()?;
        let index = self.set.find(index)?;
        self.collect_blobs_of(&index, &mut |_| ()).await
    }

    /// The same, and says what it waits for.
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

    /// Reads entities of a list until there are so many, and no more than may be wanted: more only for those
    /// that have left the list. The last reference that was followed, if there are more.
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

    /// Reads entities of a list and keeps those that are still to be in it.
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

    pub(super) async fn keys_in(&self, index: &Index, at: &Location) -> Result<Vec<Key>> {
        let members = self.journal.shared().members(at, index.id()).await?;
        members.keys().ok_or_else(|| damaged(at))
    }

    /// The same of a list whose row was read.
    pub(super) async fn keys_of(&self, index: &Index, at: &Location, row: &Entity) -> Result<Vec<Key>> {
        match self.journal.shared().members_of(at, row).await? {
            Some(members) => members.keys().ok_or_else(|| damaged(at)),
            None => self.keys_in(index, at).await,
        }
    }

    pub(super) async fn list_index(&self, name: &str) -> Result<Readable> {
        let index = self.readable(name).await?;
        let shape = index.shape().clone();
        let refused = || Error::invalid_request(format!("the index '{name}' is a {shape}, not a list"));
        if shape.is_list() { Ok(index) } else { Err(refused()) }
    }

    async fn summary_index(&self, name: &str) -> Result<Readable> {
        let index = self.readable(name).await?;
        let shape = index.shape().clone();
        let refused = || Error::invalid_request(format!("the index '{name}' is a {shape}, not a summary"));
        if matches!(shape, Shape::Summary { .. }) { Ok(index) } else { Err(refused()) }
    }
}

fn damaged(at: &Location) -> Error {
    Error::corrupt(format!("the list {} has a reference that is no key", at.key))
}
