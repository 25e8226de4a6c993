use std::collections::{HashMap, HashSet, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream, StreamExt};
use table_core::manifest::Manifest;
use table_core::model::{Key, TableName};
use table_core::store::{Error, Operation, PlainWrite, Result, ServiceProfile};
use tokio::time::{Instant, sleep_until};

use super::open::{Batch, OpenGroups};
use super::send::{Sender, check_plain};
use super::{BulkOptions, BulkOutcome};

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
    /// Read, and of a table whose manifest is asked for.
    asked: Option<(Item, BoxFuture<'static, Result<PlainWrite>>)>,
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
            asked: None,
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
            } else if self.asked.is_some() {
                if let Some(outcomes) = self.ask().await {
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

    /// Reads on, unless an answer comes first, or the oldest group has waited long enough.
    async fn read(&mut self) -> Option<Outcomes> {
        let age = self.age();
        let input = self.input.as_mut()?;
        let item = tokio::select! {
            biased;
            item = input.next() => item,
            Some(outcomes) = self.in_flight.next() => return Some(self.free(outcomes)),
            () = reached(age) => return self.close_oldest(),
        };
        match item {
            Some(Ok(item)) => self.admit(item),
            Some(Err(error)) => self.stop(Some(error)),
            None => self.stop(None),
        }
    }

    /// Takes what goes to a table whose manifest is known; else asks for it.
    fn admit(&mut self, item: Item) -> Option<Outcomes> {
        if self.options.writes_indexed {
            return self.take(item);
        }
        let (store, manifests) = (Arc::clone(self.sender.store()), Arc::clone(self.sender.manifests()));
        if let Some(manifest) = manifests.known(&*store, &item.0) {
            return self.take_plain(item, &manifest);
        }
        let table = item.0.clone();
        self.asked = Some((item, async move { manifests.plain_write(&*store, &table).await }.boxed()));
        None
    }

    /// Ends the input before what an index of the manifest is of.
    fn take_plain(&mut self, item: Item, manifest: &Manifest) -> Option<Outcomes> {
        match check_plain(manifest, &item.0, &item.1) {
            Ok(()) => self.take(item),
            Err(refused) => self.stop(Some(refused)),
        }
    }

    /// Waits for the answer of that, unless one to a write comes first.
    async fn ask(&mut self) -> Option<Outcomes> {
        let age = self.age();
        let (_, question) = self.asked.as_mut()?;
        let rests_on = tokio::select! {
            biased;
            answer = question => answer,
            Some(outcomes) = self.in_flight.next() => return Some(self.free(outcomes)),
            () = reached(age) => return self.close_oldest(),
        };
        let (item, _) = self.asked.take()?;
        match rests_on {
            Ok(rests_on) => self.take_plain(item, rests_on.manifest()),
            Err(error) => self.stop(Some(error)),
        }
    }

    /// When the oldest group has waited long enough.
    fn age(&self) -> Option<Instant> {
        self.open.oldest()?.checked_add(self.options.waiting_for)
    }

    fn close_oldest(&mut self) -> Option<Outcomes> {
        self.closed.extend(self.open.close_oldest());
        None
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
        self.busy.entry(table).or_default().insert(key);
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

/// When that time has come; never without one.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
