//! Reads of a feed: consumers with cursors.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use table_core::manifest::{IndexState, Manifest, Shape, StoredIndex};
use table_core::model::{Entity, FEED_COUNTER, IfMatch, Key, PartitionKey, TableName};
use table_core::query::{Filter, Query, Select};
use table_core::queue::WorkQueue;
use table_core::store::{
    Error, GroupTransaction, KeyOrder, Operation, Result, TableStore, TableStoreExt as _,
};

use super::cursor::{Cursor, begun_again, cursor_key, foreign_cursor};
use crate::entry::shared::feed::{
    Change, ChangeKind, Counter, MAX_NUMBER, change_row, counter_key, foreign_change,
};

/// The number of changes in a page.
const PAGE: usize = 1000;
/// The number of partitions that a consumer reads at once.
const CONCURRENCY: usize = 16;

/// The changes of a table.
#[derive(Clone, Debug)]
pub struct Changes {
    store: Arc<dyn TableStore>,
    table: TableName,
}

impl Changes {
    /// The changes of a table, for a program without the type; see [`Table::changes`](crate::Table::changes). No request.
    pub fn new(store: impl TableStore, table: TableName) -> Self {
        Self {
            store: store.into_shared(),
            table,
        }
    }

    /// The partitions that have changes, in the order of the store. A scan of the table: 1 request per page.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn partitions(&self) -> Result<Vec<PartitionKey>> {
        let counters = Query::new()
            .with_filter(Filter::eq(Filter::ROW_KEY, FEED_COUNTER))
            .with_select(Select::new([Filter::PARTITION_KEY]));
        let rows = self.store.query_all(&self.table, &counters).await?;
        Ok(rows.iter().map(|row| row.key().partition_key()).collect())
    }

    /// Refuses a table without a feed that records every write. 1 request, at most every 30 seconds; 1 more before a refusal.
    ///
    /// # Errors
    /// No feed of the table is readable.
    async fn check_readable(&self) -> Result<()> {
        let is_readable =
            |manifest: &Manifest| feeds(manifest).any(|feed| feed.state == IndexState::Readable);
        if is_readable(&*self.store.manifest(&self.table).await?) {
            return Ok(());
        }
        // Another process may have built the feed since the manifest was read.
        self.store.context().manifests().forget(&self.table);
        let manifest = self.store.manifest(&self.table).await?;
        if is_readable(&manifest) {
            return Ok(());
        }
        let table = &self.table;
        let reason = match feeds(&manifest).next() {
            Some(feed) => format!(
                "the feed '{}' of the table '{table}' is {}, so some writes are not in it: build it by `entities().await?.build(\"changes\")` first",
                feed.id(),
                feed.state
            ),
            None => format!(
                "the table '{table}' has no feed: a type with `#[entity(feed)]` declares it in a new table, by `declare` or the first write; in a table \
                 with rows, build it by `entities().await?.build(\"changes\")`"
            ),
        };
        Err(Error::index_not_ready(reason))
    }

    /// The counters of all partitions, in the order of the store.
    async fn counters(&self) -> Result<Vec<Entity>> {
        let counters = Query::new().with_filter(Filter::eq(Filter::ROW_KEY, FEED_COUNTER));
        self.store.query_all(&self.table, &counters).await
    }

    /// The counter of a partition; `None` if the partition has no changes yet. 1 request.
    async fn counter(&self, partition: &PartitionKey) -> Result<Option<Counter>> {
        let key = counter_key(partition)?;
        let row = self.store.get(&self.table, &key, None).await?;
        row.as_ref().map(Counter::read).transpose()
    }

    /// Up to 1,000 changes of a partition after the change with this number, in order. 1 request, and 1 for the counter if there are changes;
    /// more if the service returns short pages; 1 more if the next change was trimmed. A store that does not sort is asked for all changes
    /// after the number.
    ///
    /// # Errors
    /// The first change is damaged, or has a number that the feed has not given yet; errors of the store.
    pub async fn after(&self, partition: &PartitionKey, number: i64) -> Result<Vec<Change>> {
        Ok(self.page(partition, number).await?.0)
    }

    /// The changes, and the counter as it was read after them; `None` without changes.
    async fn page(
        &self,
        partition: &PartitionKey,
        number: i64,
    ) -> Result<(Vec<Change>, Option<Counter>)> {
        let (mut changes, damage) = self.stored_after(partition, number).await?;
        let Some(first) = changes.first().map(|change| change.number) else {
            return damage.map_or(Ok((Vec::new(), None)), Err);
        };
        // The counter is read after the changes: it has a larger number than each change of the feed. A row with another number is not of the
        // feed.
        let counter = self.counter(partition).await?;
        let next = counter.map_or(1, |counter| counter.next);
        changes.retain(|change| change.number < next);
        if changes.is_empty() {
            return Err(damage.unwrap_or_else(|| foreign_change(partition, first)));
        }
        // Changes are numbered without gaps. After a trim they start later; a gap within a page is a change that the page of
        // an unsorted store does not have yet.
        changes.truncate(PAGE);
        if let Some(gap) = changes
            .windows(2)
            .position(|pair| pair[1].number - pair[0].number != 1)
        {
            changes.truncate(gap + 1);
        }
        Ok((changes, counter))
    }

    /// The rows of changes after a number, in order, and the first damaged one.
    async fn stored_after(
        &self,
        partition: &PartitionKey,
        number: i64,
    ) -> Result<(Vec<Change>, Option<Error>)> {
        if number >= MAX_NUMBER {
            return Ok((Vec::new(), None));
        }
        let next = number + 1;
        let is_sorted = self.store.profile().order == KeyOrder::Sorted;
        // Without an order, the first rows of an answer may be the last changes.
        let rows = self
            .rows(partition, next, i64::MAX, is_sorted.then_some(PAGE))
            .await?;
        // A damaged row does not hold back the changes before it.
        let (mut changes, mut damage) = (Vec::with_capacity(rows.len()), None);
        for row in &rows {
            match Change::read(row) {
                Ok(change) => changes.push(change),
                Err(error) => {
                    damage.get_or_insert(error);
                    if is_sorted {
                        break;
                    }
                }
            }
        }
        changes.sort_by_key(|change| change.number);
        let is_next = changes.first().is_some_and(|first| first.number == next);
        if !is_sorted && !is_next && !rows.is_empty() {
            // The next change was trimmed, or it was written when the scan had passed its place.
            let key = Key::new(partition.as_str(), change_row(next))?;
            if let Some(row) = self.store.get(&self.table, &key, None).await? {
                return Ok((vec![Change::read(&row)?], None));
            }
        }
        Ok((changes, damage))
    }

    /// A consumer of the changes. Consumers of different names each get every change. No request.
    pub fn consumer(&self, name: impl Into<String>) -> Consumer {
        Consumer {
            changes: self.clone(),
            name: name.into(),
            batch: 100,
        }
    }

    /// Deletes the changes of a partition that all of these consumers have handled. Returns the number that this call has deleted.
    ///
    /// # Errors
    /// No consumer was given; a cursor is after the last change; errors of the store. Changes that were deleted before stay deleted.
    pub async fn trim(&self, partition: &PartitionKey, consumers: &[&str]) -> Result<u64> {
        if consumers.is_empty() {
            return Err(Error::invalid_argument(
                "give the names of all consumers of the feed: a trim removes what they have handled",
            ));
        }
        let Some(counter) = self.counter(partition).await? else {
            return Ok(0);
        };
        let mut handled_by_all = i64::MAX;
        for consumer in consumers {
            let consumer = self.consumer(*consumer);
            let cursor = consumer.cursor(partition, counter).await?;
            handled_by_all = handled_by_all.min(cursor.done);
        }
        let mut trimmed = 0;
        loop {
            let rows = self.rows(partition, 0, handled_by_all, Some(PAGE)).await?;
            if rows.is_empty() {
                return Ok(trimmed);
            }
            let profile = self.store.profile();
            // From the oldest on: after a crash the rest has no gap, and the next call removes it.
            for part in rows.chunks(profile.group_operations.max(1)) {
                let mut group = GroupTransaction::new(partition.clone(), profile);
                for row in part {
                    group.push(Operation::Delete(row.key().clone(), IfMatch::Any))?;
                }
                match self.store.transact(&self.table, group).await {
                    Ok(_) => trimmed += part.len() as u64,
                    // Another trim has deleted some of them: the rest is read again.
                    Err(error) if error.is_certainly_missing() => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// The rows of the changes with the numbers from `from` to `to`, both included; at most `top` rows.
    async fn rows(
        &self,
        partition: &PartitionKey,
        from: i64,
        to: i64,
        top: Option<usize>,
    ) -> Result<Vec<Entity>> {
        let filter = Filter::eq(Filter::PARTITION_KEY, partition.as_str())
            .and(Filter::ge(Filter::ROW_KEY, change_row(from)))
            .and(Filter::le(Filter::ROW_KEY, change_row(to)));
        let query = Query {
            top,
            ..Query::new().with_filter(filter)
        };
        self.store.query_all(&self.table, &query).await
    }
}

/// The feeds of a table.
fn feeds(manifest: &Manifest) -> impl Iterator<Item = &StoredIndex> {
    manifest
        .indexes
        .iter()
        .filter(|stored| stored.shape == Some(Shape::Feed))
}

/// Handles changes.
#[async_trait]
pub trait ChangeHandler: Send + Sync {
    /// Handles a change. It may get a change again after a crash.
    ///
    /// # Errors
    /// The change was not handled. The consumer stops in this partition, and gets the change again in the next run.
    async fn handle(&self, change: &Change) -> Result<()>;
}

/// Sends changes to a queue as JSON: `{"table": …, "partition": …, "row": …, "type": …, "number": 1, "kind": "inserted"}`.
#[derive(Clone, Debug)]
pub struct ToQueue {
    table: TableName,
    queue: Arc<dyn WorkQueue>,
}

impl ToQueue {
    /// Sends the changes of a table to a queue.
    pub fn new(table: TableName, queue: Arc<dyn WorkQueue>) -> Self {
        Self { table, queue }
    }
}

/// The JSON of a change in a queue.
#[derive(Serialize)]
struct Body<'a> {
    table: &'a str,
    partition: &'a str,
    row: &'a str,
    #[serde(rename = "type")]
    entity_type: &'a str,
    number: i64,
    kind: ChangeKind,
}

#[async_trait]
impl ChangeHandler for ToQueue {
    async fn handle(&self, change: &Change) -> Result<()> {
        let (partition, row) = (change.key.partition(), change.key.row());
        let body = Body {
            table: self.table.as_str(),
            partition,
            row,
            entity_type: &change.entity_type,
            number: change.number,
            kind: change.kind,
        };
        let body = serde_json::to_string(&body);
        let body = body
            .map_err(|error| Error::invalid_argument(format!("a change has no JSON: {error}")))?;
        self.queue.send(&body, Duration::ZERO).await.map(drop)
    }
}

/// The result of a run of a consumer.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Delivered {
    /// The number of changes that were handled.
    pub changes: u64,
    /// The partitions in which the run stopped, with the reason: the handler's error, or the store's.
    pub failed: Vec<(PartitionKey, Error)>,
}

/// A consumer of the changes of a table, with a cursor in each partition. Run each consumer in one process at a time: two
/// processes both get the changes.
#[derive(Clone, Debug)]
pub struct Consumer {
    changes: Changes,
    name: String,
    batch: usize,
}

impl Consumer {
    /// Saves the cursor after this number of changes, at least 1; the default is 100. After a crash, at most this number of
    /// changes of a partition is delivered again.
    #[must_use]
    pub fn with_batch(mut self, changes: usize) -> Self {
        self.batch = changes.max(1);
        self
    }

    /// Delivers the changes of a partition to a handler, in order, from the cursor to the last change. Returns the number of
    /// changes handled.
    ///
    /// # Errors
    /// No feed of the table is readable. The first error of the handler, after the cursor was saved before the change that failed; errors of the store; another
    /// process has moved the cursor.
    pub async fn deliver(
        &self,
        partition: &PartitionKey,
        handler: &dyn ChangeHandler,
    ) -> Result<u64> {
        self.changes.check_readable().await?;
        match self.changes.counter(partition).await? {
            None => Ok(0),
            Some(counter) => self.deliver_by(partition, counter, handler).await,
        }
    }

    /// Delivers the changes of a partition whose counter was read.
    async fn deliver_by(
        &self,
        partition: &PartitionKey,
        counter: Counter,
        handler: &dyn ChangeHandler,
    ) -> Result<u64> {
        let mut saved = self.cursor(partition, counter).await?;
        let (mut handled, mut count) = (saved.done, 0);
        loop {
            let page = match self.changes.page(partition, handled).await {
                // The numbers of a feed that has begun again mean other changes. The drop has removed the cursor, too.
                Ok((_, Some(now))) if now.feed != saved.feed => return Err(begun_again(partition)),
                Ok((page, _)) => page,
                Err(error) => {
                    self.save(partition, handled, &mut saved).await?;
                    return Err(error);
                }
            };
            if page.is_empty() {
                break;
            }
            for change in &page {
                if let Err(error) = handler.handle(change).await {
                    // The changes before the failure are handled: they are not delivered again.
                    self.save(partition, handled, &mut saved).await?;
                    return Err(error);
                }
                (handled, count) = (change.number, count + 1);
                if (handled - saved.done).unsigned_abs() >= self.batch as u64 {
                    self.save(partition, handled, &mut saved).await?;
                }
            }
        }
        self.save(partition, handled, &mut saved).await?;
        Ok(count)
    }

    /// Delivers the changes of all partitions, 16 at once. A failure ends the run in its partition only. A cursor after the last change
    /// of its partition is a failure.
    ///
    /// # Errors
    /// No feed of the table is readable; errors of the scan for the partitions.
    pub async fn run_once(&self, handler: &dyn ChangeHandler) -> Result<Delivered> {
        self.changes.check_readable().await?;
        let counters = self.changes.counters().await?;
        let runs = stream::iter(counters).map(|counter| async move {
            let partition = counter.key().partition_key();
            let done = match Counter::read(&counter) {
                Ok(counter) => self.deliver_by(&partition, counter, handler).await,
                Err(error) => Err(error),
            };
            (partition, done)
        });
        let mut runs = runs.buffer_unordered(CONCURRENCY).boxed();
        let mut delivered = Delivered::default();
        while let Some((partition, done)) = runs.next().await {
            match done {
                Ok(count) => delivered.changes += count,
                Err(error) => delivered.failed.push((partition, error)),
            }
        }
        Ok(delivered)
    }

    /// Delivers changes until `stop` ends, with a pause of `idle` after each run. Returns the failures of the last run.
    ///
    /// # Errors
    /// As [`run_once`](Self::run_once).
    pub async fn run(
        &self,
        handler: &dyn ChangeHandler,
        idle: Duration,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Delivered> {
        let mut stop = Box::pin(stop);
        loop {
            let delivered = self.run_once(handler).await?;
            let pause = Box::pin(tokio::time::sleep(idle));
            if let Either::Left(_) = select(&mut stop, pause).await {
                return Ok(delivered);
            }
        }
    }

    /// The position of the consumer in a partition whose counter was read. A cursor of an earlier feed does not count: the consumer begins with
    /// the first change.
    ///
    /// # Errors
    /// The cursor is after the last change: the consumer would miss the changes that come.
    async fn cursor(&self, partition: &PartitionKey, counter: Counter) -> Result<Cursor> {
        let key = cursor_key(&self.name, partition)?;
        let Changes { store, table } = &self.changes;
        let row = store.get(table, &key, None).await?;
        let stored = row.as_ref().map(Cursor::read).transpose()?;
        let Some(stored) = stored.filter(|stored| stored.feed == counter.feed) else {
            return Ok(Cursor {
                done: 0,
                feed: counter.feed,
                version: row.and_then(|row| row.etag().cloned()),
            });
        };
        if stored.done < counter.next {
            return Ok(stored);
        }
        // Another run of the consumer may have moved it past the counter that was read, so the counter is read again first.
        match self.changes.counter(partition).await? {
            Some(now) if now.feed != stored.feed => Err(begun_again(partition)),
            Some(now) if stored.done < now.next => Ok(stored),
            now => {
                let next = now.map_or(1, |now| now.next);
                Err(foreign_cursor(&self.name, partition, stored.done, next))
            }
        }
    }

    /// Saves the cursor if the consumer has handled more, unless another process has moved it.
    async fn save(&self, partition: &PartitionKey, done: i64, saved: &mut Cursor) -> Result<()> {
        if done <= saved.done {
            return Ok(());
        }
        let moved = Cursor {
            done,
            ..saved.clone()
        };
        let row = moved.row(&self.name, partition)?;
        let save = match moved.version {
            Some(version) => Operation::Replace(row, version.into()),
            None => Operation::Insert(row),
        };
        let Changes { store, table } = &self.changes;
        let version = store.write(table, save).await?.etag;
        *saved = Cursor {
            done,
            feed: saved.feed,
            version,
        };
        Ok(())
    }
}
