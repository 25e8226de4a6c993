//! Writes streams of operations in group transactions.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use table_core::adapter::Retrying;
use table_core::manifest::{Manifest, WriteTarget};
use table_core::model::{Entity, Key, TableName};
use table_core::store::{
    BulkOutcome, BulkSummary, Error, ErrorKind, Operation, Outcome, PlainWrite, Result,
    ServiceProfile, TableStore, TableStoreExt as _,
};
use table_core::typed::TableEntity;
use tokio::time::{Instant, sleep_until};

use super::BulkOptions;
use super::open_groups::{Batch, OpenGroups};
use crate::rows::in_order::InOrder;
use crate::rows::{existing_keys, write_together};

/// Writes a stream of operations on any tables and partitions in few requests. See the [module](super) for the
/// guarantees.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use futures_util::stream;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::bulk::BulkWriter;
///
/// let (store, table) = (Arc::new(MemoryStore::new()), TableName::new("Readings")?);
/// store.create_table(&table).await?;
/// let readings = (0..1000).map(move |n| {
///     let reading = Entity::new(format!("sensor{}", n % 4), format!("{n:06}"))?.with("Celsius", 21.5);
///     Ok((table.clone(), Operation::Insert(reading)))
/// });
/// let summary = BulkWriter::new(store).write(stream::iter(readings)).await?;
/// assert_eq!((summary.written, summary.requests), (1000, 12));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BulkWriter {
    store: Arc<dyn TableStore>,
    options: BulkOptions,
}

impl BulkWriter {
    /// Makes a writer with the default options. No request.
    pub fn new(store: impl TableStore) -> Self {
        Self::with_options(store, BulkOptions::default())
    }

    /// Makes a writer with these options. No request.
    pub fn with_options(store: impl TableStore, options: BulkOptions) -> Self {
        Self {
            store: store.into_shared(),
            options,
        }
    }

    /// Writes all operations and counts their outcomes.
    ///
    /// # Errors
    /// The input's error, or an operation on an entity that an index covers. Operations read before are written
    /// nonetheless. Errors of single operations are in the summary.
    pub async fn write<S>(&self, operations: S) -> Result<BulkSummary>
    where
        S: Stream<Item = Result<(TableName, Operation)>> + Send + 'static,
    {
        BulkSummary::of(self.outcomes(operations)).await
    }

    /// Writes while the stream is polled; yields an outcome for every operation, in the order of the answers.
    ///
    /// An error of the input is the last item, after the outcomes of all operations read before. If the stream is
    /// dropped, each request in flight may or may not take effect, and the rest of the input is not written.
    pub fn outcomes<S>(
        &self,
        operations: S,
    ) -> impl Stream<Item = Result<BulkOutcome>> + Send + use<S>
    where
        S: Stream<Item = Result<(TableName, Operation)>> + Send + 'static,
    {
        let run = Run::new(operations, self.sender(), self.options.clone());
        let answers = stream::unfold(run, |mut run| async {
            let outcomes = run.next().await?;
            Some((outcomes, run))
        });
        answers.flat_map(stream::iter)
    }

    fn sender(&self) -> Sender {
        let store = Arc::clone(&self.store);
        let store = match &self.options.retry {
            None => store,
            Some(policy) => Arc::new(Retrying::new(store, policy.clone())),
        };
        Sender::new(store, self.options.writes_indexed)
    }
}

/// Converts typed entities to operations for a [`BulkWriter`].
///
/// # Errors
/// An entity that cannot be stored, as an item of the stream.
///
/// ```
/// use futures_util::stream;
/// use table_core::prelude::*;
/// use table_patterns::bulk::operations;
/// # #[derive(TableEntity)]
/// # struct Reading { #[partition_key] sensor: String, #[row_key] number: u32 }
/// let readings = stream::iter((0..10).map(|number| Reading { sensor: "roof".to_owned(), number }));
/// let upserts = operations(&TableName::new("Readings")?, readings, Operation::InsertOrReplace);
/// # drop(upserts);
/// # Ok::<(), table_core::Error>(())
/// ```
pub fn operations<T: TableEntity, S: Stream<Item = T>>(
    table: &TableName,
    entities: S,
    operation: fn(Entity) -> Operation,
) -> impl Stream<Item = Result<(TableName, Operation)>> + use<T, S> {
    let table = table.clone();
    entities.map(move |entity| Ok((table.clone(), operation(entity.to_entity()?))))
}

type Item = (TableName, Operation);
type Outcomes = Vec<Result<BulkOutcome>>;

/// A bulk write in progress: all operations that were read and not answered.
///
/// Order of operations on one entity: a group has at most one of them, `closed` is sent in order, and `groups` sends a group when every
/// earlier group with one of its keys is answered.
struct Run<S> {
    /// `None` at the end of the input.
    input: Option<Pin<Box<S>>>,
    /// The error that ended the input.
    failure: Option<Error>,
    /// The operation that was read last, and the read of its table's manifest.
    awaits_manifest: Option<(Item, BoxFuture<'static, Result<PlainWrite>>)>,
    /// One spelling of the name of each table: the store may ignore the case, and the order is that of the table.
    names: TableNames,
    open: OpenGroups,
    closed: VecDeque<Batch>,
    groups: InOrder<'static, (TableName, Key), Vec<BulkOutcome>>,
    profile: ServiceProfile,
    sender: Sender,
    options: BulkOptions,
}

/// The names of tables, each in the spelling that came first.
#[derive(Debug, Default)]
struct TableNames {
    by_identity: HashMap<String, TableName>,
    by_name: HashMap<TableName, TableName>,
}

impl TableNames {
    fn of(&mut self, profile: &ServiceProfile, table: TableName) -> TableName {
        if let Some(known) = self.by_name.get(&table) {
            return known.clone();
        }
        let first = self
            .by_identity
            .entry(profile.table_identity(&table))
            .or_insert_with(|| table.clone());
        self.by_name.insert(table, first.clone());
        first.clone()
    }
}

/// Each method returns outcomes as soon as one request is answered, and `None` if the run should continue.
impl<S: Stream<Item = Result<Item>>> Run<S> {
    fn new(input: S, sender: Sender, options: BulkOptions) -> Self {
        Self {
            input: Some(Box::pin(input)),
            failure: None,
            awaits_manifest: None,
            names: TableNames::default(),
            open: OpenGroups::default(),
            closed: VecDeque::new(),
            groups: InOrder::new(options.concurrency),
            profile: sender.store.profile().clone(),
            sender,
            options,
        }
    }

    /// The outcomes of the next answer; `None` when every operation is answered.
    async fn next(&mut self) -> Option<Outcomes> {
        loop {
            // The order of these cases bounds the memory: nothing is read while all permits are taken, while as many groups wait for their keys
            // as may be in flight, while a closed group waits to be sent, or while the operation that was read last waits for its manifest. Each
            // case makes progress or waits for an answer.
            if self.groups.is_full() {
                return self.next_answer().await;
            }
            if let Some(batch) = self.closed.pop_front() {
                let keys = batch
                    .keys
                    .iter()
                    .map(|key| (batch.table.clone(), key.clone()))
                    .collect();
                self.groups
                    .push(keys, self.sender.clone().write_batch(batch).boxed());
            } else if self.awaits_manifest.is_some() {
                if let Some(outcomes) = self.await_manifest().await {
                    return Some(outcomes);
                }
            } else if self.input.is_none() {
                match self.open.close_oldest() {
                    Some(batch) => self.closed.push_back(batch),
                    None => return self.finish().await,
                }
            } else if let Some(outcomes) = self.read_input().await {
                return Some(outcomes);
            }
        }
    }

    /// Reads one operation, unless a request is answered first or the oldest group reaches its time.
    async fn read_input(&mut self) -> Option<Outcomes> {
        let deadline = self.deadline();
        let input = self.input.as_mut()?;
        let item = tokio::select! {
            // In this order: input fills the groups, an answer frees a permit, and the oldest group is sent
            // in time. `next` of a stream holds nothing, so dropping it, when another branch is ready, loses
            // no operation.
            biased;
            item = input.next() => item,
            Some(outcomes) = self.groups.next() => return Some(self.report(outcomes)),
            () = wait_until(deadline) => return self.close_oldest(),
        };
        match item {
            Some(Ok((table, operation))) => {
                let table = self.names.of(&self.profile, table);
                self.admit((table, operation))
            }
            Some(Err(error)) => self.end_input(Some(error)),
            None => self.end_input(None),
        }
    }

    /// Adds the operation if its table's manifest is in the cache; otherwise starts to read the manifest.
    fn admit(&mut self, item: Item) -> Option<Outcomes> {
        if self.options.writes_indexed {
            return self.add(item);
        }
        let store = Arc::clone(&self.sender.store);
        if let Some(manifest) = store.known_manifest(&item.0) {
            return self.add_plain(item, &manifest);
        }
        let table = item.0.clone();
        let read = async move { store.plain_write(&table).await };
        self.awaits_manifest = Some((item, read.boxed()));
        None
    }

    /// Adds the operation; ends the input instead if an index covers its entity.
    fn add_plain(&mut self, item: Item, manifest: &Manifest) -> Option<Outcomes> {
        match check_plain(manifest, &item.0, &item.1) {
            Ok(()) => self.add(item),
            Err(refused) => self.end_input(Some(refused)),
        }
    }

    /// Waits for the manifest, unless a write is answered first or the oldest group reaches its time.
    async fn await_manifest(&mut self) -> Option<Outcomes> {
        let deadline = self.deadline();
        let (_, read) = self.awaits_manifest.as_mut()?;
        let permission = tokio::select! {
            biased;
            permission = read => permission,
            Some(outcomes) = self.groups.next() => return Some(self.report(outcomes)),
            () = wait_until(deadline) => return self.close_oldest(),
        };
        let (item, _) = self.awaits_manifest.take()?;
        match permission {
            Ok(permission) => self.add_plain(item, permission.manifest()),
            Err(error) => self.end_input(Some(error)),
        }
    }

    /// The time at which the oldest open group is sent although it is not full.
    fn deadline(&self) -> Option<Instant> {
        self.open.oldest()?.checked_add(self.options.max_wait)
    }

    fn close_oldest(&mut self) -> Option<Outcomes> {
        self.closed.extend(self.open.close_oldest());
        None
    }

    fn end_input(&mut self, failure: Option<Error>) -> Option<Outcomes> {
        (self.input, self.failure) = (None, failure);
        None
    }

    /// Adds an operation to the group of its partition.
    fn add(&mut self, (table, operation): Item) -> Option<Outcomes> {
        let key = operation.key().clone();
        // A group is closed before its successor is opened, so each partition has one open group.
        self.closed.extend(self.open.make_room(&table, &operation));
        if let Err(error) = self.open.add(&table, operation, &self.profile) {
            return Some(self.report(vec![BulkOutcome::refused(table, key, error)]));
        }
        if self.open.exceeds(
            self.options.max_waiting_operations,
            self.options.max_waiting_bytes,
        ) {
            self.closed.extend(self.open.close_oldest());
        }
        None
    }

    /// The next answer; `None` if no request is in flight.
    async fn next_answer(&mut self) -> Option<Outcomes> {
        let outcomes = self.groups.next().await?;
        Some(self.report(outcomes))
    }

    /// The remaining answers, then the input's error.
    async fn finish(&mut self) -> Option<Outcomes> {
        match self.next_answer().await {
            None => self.failure.take().map(|error| vec![Err(error)]),
            answered => answered,
        }
    }

    /// Returns outcomes. A failure may end the input.
    fn report(&mut self, outcomes: Vec<BulkOutcome>) -> Outcomes {
        if self.options.stops_at_failure && outcomes.iter().any(|outcome| outcome.result.is_err()) {
            // Nothing more is read; the requests under way are still answered and reported.
            self.input = None;
        }
        outcomes.into_iter().map(Ok).collect()
    }
}

/// Waits until the time; for ever without a time.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Sends groups and finds the outcome of each operation.
#[derive(Clone, Debug)]
struct Sender {
    store: Arc<dyn TableStore>,
    writes_indexed: bool,
    /// The number of the next request.
    requests: Arc<AtomicU64>,
}

/// Which operations a failed group failed for.
enum GroupFailure {
    /// The operation at this index; the others can be sent again.
    OneOperation(usize),
    /// None: the encoded request is too large, and a part of the group may fit.
    RequestTooLarge,
    /// All, or it is unknown.
    AllOperations,
}

impl Sender {
    fn new(store: Arc<dyn TableStore>, writes_indexed: bool) -> Self {
        Self {
            store,
            writes_indexed,
            requests: Arc::default(),
        }
    }

    /// Sends requests until every operation of the batch has an outcome.
    async fn write_batch(self, batch: Batch) -> Vec<BulkOutcome> {
        let Batch { table, group, .. } = batch;
        let mut outcomes = Vec::with_capacity(group.len());
        let (mut unsent, mut has_looked) = (vec![group.into_operations()], false);
        while let Some(mut operations) = unsent.pop() {
            let refused = |operation: &Operation, error| {
                BulkOutcome::refused(table.clone(), operation.key().clone(), error)
            };
            // An index may have been declared while the operations waited: check them against the manifest again. The
            // permission lives until the request is answered; a state change of an index waits for it.
            let permission = match self.permission(&table).await {
                Ok(permission) => permission,
                Err(error) => {
                    outcomes.extend(
                        operations
                            .iter()
                            .map(|operation| refused(operation, error.clone())),
                    );
                    continue;
                }
            };
            if let Some(permission) = &permission {
                operations.retain(|operation| {
                    let error = check_plain(permission.manifest(), &table, operation).err();
                    let is_permitted = error.is_none();
                    outcomes.extend(error.map(|error| refused(operation, error)));
                    is_permitted
                });
                if operations.is_empty() {
                    continue;
                }
            }
            let request = self.requests.fetch_add(1, Ordering::Relaxed);
            let outcome = |operation: &Operation, result| {
                let (table, key) = (table.clone(), operation.key().clone());
                BulkOutcome::of_request(table, key, request, result)
            };
            let error = match write_together(&*self.store, &table, &operations).await {
                Ok(written) => {
                    outcomes.extend(
                        operations
                            .iter()
                            .zip(written)
                            .map(|(o, w)| outcome(o, Ok(w))),
                    );
                    continue;
                }
                Err(error) => error,
            };
            match group_failure(&error, operations.len()) {
                GroupFailure::OneOperation(index) => {
                    let failed = operations.remove(index);
                    outcomes.push(outcome(&failed, Err(error.root().clone())));
                    // A file that is imported again has more such rows. One request finds them; a group without one of them at a
                    // time would need a request for each.
                    if error.is_already_exists() && !has_looked && operations.len() > 1 {
                        has_looked = true;
                        let keys = operations.iter().map(Operation::key);
                        let existing = existing_keys(&*self.store, &table, keys).await;
                        operations.retain(|operation| {
                            let exists = matches!(operation, Operation::Insert(_))
                                && existing.contains(operation.key());
                            if exists {
                                let (table, key) = (table.clone(), operation.key().clone());
                                let error = Error::entity_already_exists(&table, &key);
                                outcomes.push(BulkOutcome::of_request(
                                    table,
                                    key,
                                    request,
                                    Err(error),
                                ));
                            }
                            !exists
                        });
                    }
                    if !operations.is_empty() {
                        unsent.push(operations);
                    }
                }
                GroupFailure::RequestTooLarge => {
                    // The first half on top, so that operations are sent in the order of the input.
                    unsent.push(operations.split_off(operations.len() / 2));
                    unsent.push(operations);
                }
                GroupFailure::AllOperations => {
                    outcomes.extend(operations.iter().map(|o| outcome(o, Err(error.clone()))));
                }
            }
        }
        outcomes
    }

    /// The permission to write plain rows to the table; `None` if entities with an index are written too.
    async fn permission(&self, table: &TableName) -> Result<Option<PlainWrite>> {
        if self.writes_indexed {
            return Ok(None);
        }
        self.store.plain_write(table).await.map(Some)
    }
}

/// Refuses an operation on an entity that an index of the manifest covers.
fn check_plain(manifest: &Manifest, table: &TableName, operation: &Operation) -> Result<()> {
    const ADVICE: &str =
        "write it through `Table`, or bring the index entries along (`BulkOptions::write_indexed`)";
    manifest.check_plain(
        table,
        WriteTarget::of(operation),
        operation.kind().name(),
        ADVICE,
    )
}

fn group_failure(error: &Error, operations: usize) -> GroupFailure {
    // A request that may have taken effect must not be sent again in parts.
    if operations < 2 || error.outcome() != Outcome::NotApplied {
        return GroupFailure::AllOperations;
    }
    match (error.failed_index(), error.kind()) {
        (Some(index), _) if index < operations && !error.is_transient() => {
            GroupFailure::OneOperation(index)
        }
        (None, ErrorKind::LimitExceeded { .. }) => GroupFailure::RequestTooLarge,
        _ => GroupFailure::AllOperations,
    }
}
