//! [`TableQueue`]: a work queue in one partition.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use table_core::model::{ETag, Entity, IfMatch, Key, PartitionKey, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::queue::{MESSAGE_BYTES, Message, MessageId, Receipt, WorkQueue};
use table_core::store::{
    CycleDetector, Error, ErrorKind, GroupTransaction, Operation, Result, TableStore,
    TableStoreExt, Written,
};
use uuid::Uuid;

use super::rows::{
    MESSAGE, POISON, Row, TICK, as_invalid_receipt, make_receipt, parse_receipt, row_key,
    row_key_from,
};
use crate::clock::{Clock, SystemClock, after};
use crate::rows::was_changed_by_another;

/// The number of messages that one group transaction moves: each needs a delete and an insert, and a group has at most
/// 100 operations.
const MAX_MOVES: usize = 50;
/// The number of rows in a page.
const PAGE: usize = 1000;

/// The options of a [`TableQueue`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueOptions {
    /// A message that was received more often than this becomes a poison message.
    pub max_dequeues: u32,
    /// The clock that decides which messages are visible.
    pub clock: Arc<dyn Clock>,
}

impl Default for QueueOptions {
    /// Poison after 5 receives; the system's clock.
    fn default() -> Self {
        Self {
            max_dequeues: 5,
            clock: Arc::new(SystemClock),
        }
    }
}

/// A [`WorkQueue`] in one partition of a table. See the [module](super).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::{sync::Arc, time::Duration};
/// use table_core::{memory::MemoryStore, queue::WorkQueue};
/// use table_patterns::queue::TableQueue;
///
/// let queue = TableQueue::open(Arc::new(MemoryStore::new()), "Work", "thumbnails").await?;
/// queue.send("photo 17", Duration::ZERO).await?;
/// let message = queue.receive(1, Duration::from_secs(30)).await?.remove(0);
/// assert_eq!((message.body.as_str(), message.dequeue_count), ("photo 17", 1));
/// queue.delete(message.receipt.as_ref().unwrap()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TableQueue {
    store: Arc<dyn TableStore>,
    table: TableName,
    partition: PartitionKey,
    options: QueueOptions,
}

impl TableQueue {
    /// Opens a queue. Creates its table if the table is missing. One request.
    ///
    /// # Errors
    /// The name of the table or of the queue is not legal, or the store's error.
    pub async fn open(store: impl TableStore, table: &str, queue: &str) -> Result<Self> {
        Self::open_with(store, table, queue, QueueOptions::default()).await
    }

    /// [`open`](Self::open) with options.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn open_with(
        store: impl TableStore,
        table: &str,
        queue: &str,
        options: QueueOptions,
    ) -> Result<Self> {
        let (table, partition) = (TableName::new(table)?, PartitionKey::new(queue)?);
        let store = store.into_shared();
        store.profile().check_reads("a queue")?;
        store.create_table_if_missing(&table).await?;
        Ok(Self {
            store,
            table,
            partition,
            options,
        })
    }

    fn row_of(&self, message: &Message, key: Key, etag: ETag, count: u32) -> Row {
        let (id, body) = (message.id.clone(), message.body.clone());
        Row {
            key,
            etag: Some(etag),
            id,
            body,
            count,
            inserted: message.inserted,
        }
    }

    fn message(&self, row: &Row) -> Message {
        let message = row.to_message();
        match &row.etag {
            Some(etag) => message.with_receipt(make_receipt(row.id.clone(), &row.key, etag)),
            None => message,
        }
    }

    /// Reads up to `max` messages of a state that are visible at `until`, oldest first if the store sorts. If rows of other programs
    /// take up the first page, the next pages are read; these rows are traced and skipped.
    async fn read_rows(&self, state: &str, until: Option<Ticks>, max: usize) -> Result<Vec<Row>> {
        let end = until.map_or_else(
            || Filter::starts_with(Filter::ROW_KEY, state),
            |until| {
                let next = after(until, TICK);
                Filter::ge(Filter::ROW_KEY, state)
                    .and(Filter::lt(Filter::ROW_KEY, row_key_from(state, next)))
            },
        );
        let filter = Filter::eq(Filter::PARTITION_KEY, self.partition.as_str()).and(end);
        let query = Query::new().with_filter(filter);
        let (mut rows, mut from, mut cycles) = (Vec::new(), None, CycleDetector::default());
        let mut top = max.min(PAGE);
        loop {
            let page = self
                .store
                .query(&self.table, &query.clone().with_top(top), from.as_ref())
                .await?
                .into_page()?;
            let read = page.items.len();
            let missing = max - rows.len();
            rows.extend(page.items.iter().filter_map(message_row).take(missing));
            let Some(next) = page.continuation.filter(|_| rows.len() < max) else {
                return Ok(rows);
            };
            cycles.add(&next, read)?;
            from = Some(next);
            // Large pages from now on: another program may have written any number of rows.
            top = PAGE;
        }
    }

    /// Moves rows in one group transaction. Returns `None` if another worker has moved one of them first.
    async fn move_group(&self, moves: &[(Row, Row)]) -> Result<Option<Vec<Written>>> {
        let mut group = GroupTransaction::new(self.partition.clone(), self.store.profile());
        for (from, to) in moves {
            let etag = from
                .etag
                .clone()
                .ok_or_else(|| Error::missing_etag(&from.key))?;
            group.push(Operation::Delete(from.key.clone(), IfMatch::Exactly(etag)))?;
            group.push(Operation::Insert(to.to_entity()))?;
        }
        // One group: with two requests, a crash between them would lose the message, or leave it twice.
        match self.store.transact(&self.table, group).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if was_changed_by_another(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves one row to another state and time. Returns the new receipt.
    async fn move_row(&self, from: &Row, state: &str, delay: Duration) -> Result<Receipt> {
        let at = after(self.options.clock.now(), delay);
        let to = from.moved(&self.partition, state, at)?;
        let lost = || Error::precondition_failed(&self.table, &from.key);
        let written = self
            .move_group(&[(from.clone(), to.clone())])
            .await?
            .ok_or_else(lost)?;
        receipt_of(&to, written.get(1))
    }

    /// Hides rows for their receiver: in one group, or row by row if another worker has taken one of them.
    async fn take(
        &self,
        rows: &[Row],
        visibility: Duration,
        taken: &mut Vec<Message>,
    ) -> Result<()> {
        let at = after(self.options.clock.now(), visibility);
        let moves = rows
            .iter()
            .map(|row| self.move_of_receive(row, at))
            .collect::<Result<Vec<_>>>()?;
        if let Some(written) = self.move_group(&moves).await? {
            taken.extend(received_messages(&moves, &written)?);
            return Ok(());
        }
        for one in moves.chunks(1) {
            if let Some(written) = self.move_group(one).await? {
                taken.extend(received_messages(one, &written)?);
            }
        }
        Ok(())
    }

    /// The row, and its received form: hidden until `at`, or a poison message after too many receives.
    fn move_of_receive(&self, row: &Row, at: Ticks) -> Result<(Row, Row)> {
        let state = if row.count >= self.options.max_dequeues {
            POISON
        } else {
            MESSAGE
        };
        let mut to = row.moved(&self.partition, state, at)?;
        to.count = row.count.saturating_add(1);
        Ok((row.clone(), to))
    }
}

/// Reads a row as a message; `None` for a row of another program, which must not stop the workers.
fn message_row(entity: &Entity) -> Option<Row> {
    let row = Row::read(entity);
    row.inspect_err(
        |error| tracing::warn!(%error, "a row in the partition of a queue is not a message: it is skipped"),
    )
    .ok()
}

/// The received messages of finished moves. Poison messages are not received.
fn received_messages(moves: &[(Row, Row)], written: &[Written]) -> Result<Vec<Message>> {
    // The answers are in the order of the operations: for each row a deletion, then an insert.
    let inserts = written.iter().skip(1).step_by(2);
    let live = moves
        .iter()
        .zip(inserts)
        .filter(|((_, to), _)| to.key.row().starts_with(MESSAGE));
    live.map(|((_, to), w)| Ok(to.to_message().with_receipt(receipt_of(to, Some(w))?)))
        .collect()
}

/// The receipt of a row that was written.
fn receipt_of(row: &Row, written: Option<&Written>) -> Result<Receipt> {
    let etag = written.and_then(|w| w.etag.as_ref());
    let etag = etag.ok_or_else(|| {
        Error::from(ErrorKind::Service(
            "the store answered an insert without an ETag".to_owned(),
        ))
    })?;
    Ok(make_receipt(row.id.clone(), &row.key, etag))
}

#[async_trait]
impl WorkQueue for TableQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        if body.len() > MESSAGE_BYTES {
            return Err(Error::limit(
                "bytes of a message",
                MESSAGE_BYTES,
                body.len(),
            ));
        }
        let now = self.options.clock.now();
        let id = MessageId::new(Uuid::new_v4().simple().to_string());
        let key = Key::new(&self.partition, row_key(MESSAGE, after(now, delay), &id))?;
        let row = Row {
            key,
            etag: None,
            id,
            body: body.to_owned(),
            count: 0,
            inserted: now,
        };
        let written = self
            .store
            .write(&self.table, Operation::Insert(row.to_entity()))
            .await?;
        receipt_of(&row, Some(&written))
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let rows = self
            .read_rows(MESSAGE, Some(self.options.clock.now()), max)
            .await?;
        let mut messages = Vec::with_capacity(rows.len());
        for rows in rows.chunks(MAX_MOVES) {
            match self.take(rows, visibility, &mut messages).await {
                // The messages taken so far are hidden and counted: without this they would be lost for a visibility timeout.
                Err(error) if !messages.is_empty() => {
                    tracing::warn!(%error, queue = self.partition.as_str(), "a receive failed after some messages: those are returned");
                    break;
                }
                taken => taken?,
            }
        }
        Ok(messages)
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        let (key, etag) = parse_receipt(&self.partition, receipt)?;
        if key.row().starts_with(POISON) {
            return Err(Error::misuse(
                "a poison message cannot be renewed: put it back by `requeue`",
            ));
        }
        // The body is in the row; the receipt names only a version of it.
        let entity = self
            .store
            .get_existing(&self.table, &key)
            .await
            .map_err(as_invalid_receipt)?;
        let row = Row {
            etag: Some(etag),
            ..Row::read(&entity)?
        };
        self.move_row(&row, MESSAGE, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        let (key, etag) = parse_receipt(&self.partition, receipt)?;
        let operation = Operation::Delete(key, IfMatch::Exactly(etag));
        self.store
            .write(&self.table, operation)
            .await
            .map(drop)
            .map_err(as_invalid_receipt)
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        let rows = self
            .read_rows(MESSAGE, Some(self.options.clock.now()), max.max(1))
            .await?;
        Ok(rows.iter().take(max).map(Row::to_message).collect())
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        let rows = self.read_rows(POISON, None, max.max(1)).await?;
        Ok(rows.iter().take(max).map(|row| self.message(row)).collect())
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        let opened = message
            .receipt
            .as_ref()
            .map(|receipt| parse_receipt(&self.partition, receipt))
            .transpose()?;
        let Some((key, etag)) = opened.filter(|(key, _)| key.row().starts_with(POISON)) else {
            return Err(Error::misuse(
                "only a message returned by `poison` can be requeued",
            ));
        };
        let row = self.row_of(message, key, etag, 0);
        self.move_row(&row, MESSAGE, Duration::ZERO).await
    }
}
