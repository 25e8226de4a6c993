use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::Pin;

use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use table_core::model::{Key, TableName};
use table_core::store::{Error, Operation, Result, ServiceProfile};

use super::open::{Batch, OpenGroups};
use super::send::Sender;
use super::{BulkOptions, BulkOutcome};
use crate::index;

type Item = (TableName, Operation);
type Outcomes = Vec<Result<BulkOutcome>>;

/// A bulk write under way: what was read and not yet answered.
pub(super) struct Run<S> {
    /// `None` at the end of the input.
    input: Option<Pin<Box<S>>>,
    /// Why the input ended early.
    failure: Option<Error>,
    /// Read, and on an entity that another operation is about to write.
    held: Option<Item>,
    open: OpenGroups,
    closed: VecDeque<Batch>,
    in_flight: FuturesUnordered<BoxFuture<'static, Vec<BulkOutcome>>>,
    /// The entities of operations that are read and not answered: one operation each.
    busy: HashMap<TableName, HashSet<Key>>,
    profile: ServiceProfile,
    sender: Sender,
    options: BulkOptions,
}

impl<S: Stream<Item = Result<Item>>> Run<S> {
    pub(super) fn new(input: S, sender: Sender, options: BulkOptions) -> Self {
        Self {
            input: Some(Box::pin(input)),
            failure: None,
            held: None,
            open: OpenGroups::default(),
            closed: VecDeque::new(),
            in_flight: FuturesUnordered::new(),
            busy: HashMap::new(),
            profile: sender.store().profile().clone(),
            sender,
            options,
        }
    }

    /// The outcomes of the next answer; `None` when everything is answered.
    pub(super) async fn next(&mut self) -> Option<Outcomes> {
        loop {
            if self.in_flight.len() >= self.options.parallelism.max(1) {
                return self.answer().await;
            }
            if let Some(batch) = self.closed.pop_front() {
                self.in_flight.push(Box::pin(self.sender.clone().settle(batch)));
            } else if let Some(item) = self.held.take() {
                if let Some(outcomes) = self.retake(item).await {
                    return Some(outcomes);
                }
            } else if self.input.is_none() {
                match self.open.close_oldest() {
                    Some(batch) => self.closed.push_back(batch),
                    None => return self.end().await,
                }
            } else if let Some(outcomes) = self.read().await {
                return Some(outcomes);
            }
        }
    }

    /// Waits for the operation before, if it is not answered yet.
    async fn retake(&mut self, item: Item) -> Option<Outcomes> {
        if !self.is_busy(&item.0, item.1.key()) {
            return self.take(item);
        }
        self.held = Some(item);
        self.answer().await
    }

    /// Reads on, unless an answer comes first.
    async fn read(&mut self) -> Option<Outcomes> {
        let input = self.input.as_mut()?;
        let item = if self.in_flight.is_empty() {
            input.next().await
        } else {
            match select(input.next(), self.in_flight.next()).await {
                Either::Left((item, _)) => item,
                Either::Right((answered, _)) => return answered.map(|outcomes| self.free(outcomes)),
            }
        };
        match item {
            Some(Ok(item)) => match self.admit(&item.0).await {
                Ok(()) => self.take(item),
                Err(error) => self.stop(Some(error)),
            },
            Some(Err(error)) => self.stop(Some(error)),
            None => self.stop(None),
        }
    }

    /// Refuses a table whose indexes would go stale.
    async fn admit(&mut self, table: &TableName) -> Result<()> {
        if self.busy.contains_key(table) {
            return Ok(());
        }
        if !self.options.writes_indexed && index::is_indexed(&**self.sender.store(), table).await? {
            return Err(Error::invalid_request(format!(
                "the table '{table}' holds indexes, which a bulk write would leave stale: write it through \
                 `IndexedTable`, or bring their entries along (`write_indexed`)"
            )));
        }
        self.busy.insert(table.clone(), HashSet::new());
        Ok(())
    }

    fn stop(&mut self, failure: Option<Error>) -> Option<Outcomes> {
        (self.input, self.failure) = (None, failure);
        None
    }

    fn take(&mut self, (table, operation): Item) -> Option<Outcomes> {
        let key = operation.key().clone();
        if self.is_busy(&table, &key) {
            self.closed.extend(self.open.close_partition(&table, key.partition()));
            self.held = Some((table, operation));
            return None;
        }
        self.closed.extend(self.open.close_for(&table, &operation));
        if let Err(error) = self.open.add(&table, operation, &self.profile) {
            return Some(self.free(vec![Sender::refused(table, key, error)]));
        }
        if let Some(keys) = self.busy.get_mut(&table) {
            keys.insert(key);
        }
        if self.open.exceeds(self.options.waiting_operations, self.options.waiting_bytes) {
            self.closed.extend(self.open.close_oldest());
        }
        None
    }

    fn is_busy(&self, table: &TableName, key: &Key) -> bool {
        self.busy.get(table).is_some_and(|keys| keys.contains(key))
    }

    /// The next answer; `None` if nothing is in flight.
    async fn answer(&mut self) -> Option<Outcomes> {
        let outcomes = self.in_flight.next().await?;
        Some(self.free(outcomes))
    }

    /// The last answers, then the input's error.
    async fn end(&mut self) -> Option<Outcomes> {
        match self.answer().await {
            None => self.failure.take().map(|error| vec![Err(error)]),
            answered => answered,
        }
    }

    /// Lets the entities be written again.
    fn free(&mut self, outcomes: Vec<BulkOutcome>) -> Outcomes {
        for outcome in &outcomes {
            if let Some(keys) = self.busy.get_mut(&outcome.table) {
                keys.remove(&outcome.key);
            }
        }
        if self.options.stops_at_failure && outcomes.iter().any(|outcome| outcome.result.is_err()) {
            self.input = None;
        }
        outcomes.into_iter().map(Ok).collect()
    }
}
