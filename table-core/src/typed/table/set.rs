//! Set operations: writes of all entities that a query finds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{BoxFuture, ready};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _, stream};

use super::{LoadedRow, PlainTable, RowLoader, TableQuery};
use crate::model::{Entity, Key, PartitionKey, TableName, WRITE_ID_PROPERTY};
use crate::query::Filter;
use crate::store::{
    BulkOutcome, BulkSummary, Conflicts, Error, ErrorKind, Operation, Outcome, Result, Written,
};
use crate::typed::TableEntity;

/// The number of rows of a window. Groups are formed within a window.
const WINDOW: usize = 1000;
/// The size of the properties after which a window ends, in bytes.
const WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// A write of one row of a set.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// The row as it was read, with its ETag.
    pub old: Entity,
    /// The row that replaces it; `None` deletes it.
    pub new: Option<Entity>,
}

impl RowChange {
    /// Returns the operation that writes the row, in the version that was read.
    ///
    /// # Errors
    /// Fails if the row was read without an ETag.
    pub fn operation(&self) -> Result<Operation> {
        let version = self.old.version()?;
        Ok(match &self.new {
            Some(new) => Operation::Replace(new.clone(), version),
            None => Operation::Delete(self.old.key().clone(), version),
        })
    }
}

/// What to do with a row that a set operation has read.
#[derive(Clone, Debug)]
pub enum Decision {
    /// The row is not in the set.
    Ignore,
    /// The row is in the set, and stays as it is.
    Keep,
    /// Writes the row.
    Write(Box<RowChange>),
}

impl Decision {
    /// Replaces the row, or keeps it if the new row has the same properties.
    pub fn replace(old: Entity, new: Entity) -> Self {
        if has_properties_of(&old, &new) {
            Self::Keep
        } else {
            Self::write(old, Some(new))
        }
    }

    /// Deletes the row.
    pub fn delete(old: Entity) -> Self {
        Self::write(old, None)
    }

    /// Replaces the row, or deletes it.
    pub fn write(old: Entity, new: Option<Entity>) -> Self {
        Self::Write(Box::new(RowChange { old, new }))
    }
}

/// Whether a stored row has exactly the properties of the row that is to replace it.
fn has_properties_of(old: &Entity, new: &Entity) -> bool {
    let written = |row: &Entity| {
        row.properties()
            .iter()
            .filter(|p| p.name() != WRITE_ID_PROPERTY)
            .count()
    };
    let is_stored = |name: &str, value, encrypted| {
        old.properties()
            .find(name)
            .is_some_and(|p| p.value() == value && p.is_encrypted() == encrypted)
    };
    written(old) == written(new)
        && new
            .properties()
            .iter()
            .all(|p| is_stored(p.name(), p.value(), p.is_encrypted()))
}

/// How a set operation writes rows: the write path of a handle, with everything that follows from a write of a row, such
/// as index entries and blobs.
pub trait SetWriter: fmt::Debug + Send + Sync + 'static {
    /// Refuses the set operation before anything is written. `key` is the key of the first row.
    fn check<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<()>>;

    /// Returns the row as readers of the handle get it.
    fn as_read(&self, row: Entity) -> Entity {
        row
    }

    /// Returns the number of operations that the change takes in an entity group transaction.
    fn operations(&self, change: &RowChange) -> usize {
        let _ = change;
        1
    }

    /// Returns the number of operations that an entity group transaction may have.
    fn most_operations(&self) -> usize;

    /// Writes changes of one partition, all or none. Returns the answers in the order of the changes, and whether a worker
    /// will apply index entries.
    fn write<'a>(&'a self, changes: &'a [RowChange])
    -> BoxFuture<'a, Result<(Vec<Written>, bool)>>;

    /// Returns whether the rows of a refused group can be written now in another way: another program has changed what their table keeps, and
    /// the writer has taken note of it.
    fn continues_after<'a>(&'a self, refused: &'a Error) -> BoxFuture<'a, bool> {
        let _ = refused;
        ready(false).boxed()
    }

    /// Reads a row again, after another writer has changed it.
    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>>;

    /// Returns the index of the change that made a group fail, if the error tells.
    fn failed(&self, error: &Error) -> Option<usize> {
        let _ = error;
        None
    }
}

/// Makes the write path of a set operation from the path that writes rows alone.
pub(crate) type WritePath = dyn Fn(Arc<dyn SetWriter>) -> Arc<dyn SetWriter> + Send + Sync;

/// A set operation that is to be run on rows.
pub struct SetWrite<'a, D, S> {
    /// The table of the outcomes.
    pub table: &'a TableName,
    /// How to write.
    pub writer: &'a dyn SetWriter,
    /// Decides what happens to a row.
    pub decide: D,
    /// Whether a row that another writer has changed is still in the set.
    pub is_in_set: S,
    /// The number of groups in flight, and of decisions at once.
    pub concurrency: usize,
    /// The number of attempts for one entity when other writers change it.
    pub attempts: u32,
}

impl<'d, D, S> SetWrite<'_, D, S>
where
    D: Fn(Entity) -> BoxFuture<'d, Result<Decision>> + Send + Sync,
    S: Fn(&Entity) -> bool + Send + Sync,
{
    /// Reads the rows in windows of 1,000, decides about each, and writes the changes in groups of one partition, each row in
    /// the version that was read.
    ///
    /// If a group fails because of one row, the other rows are written without it. A row that another writer has changed is
    /// read again, and written if it is still in the set.
    ///
    /// # Errors
    /// Returns the errors of reading, and of the check of the first row. Errors of single rows are in the summary.
    pub async fn run(
        &self,
        rows: impl Stream<Item = Result<Entity>> + Send,
    ) -> Result<BulkSummary> {
        let (requests, concurrency) = (AtomicU64::new(0), self.concurrency.max(1));
        let mut summary = BulkSummary::default();
        let steps = self
            .steps(rows.boxed())
            .map(|step| self.run_step(step, &requests));
        let mut done = steps.buffer_unordered(concurrency);
        while let Some(results) = done.try_next().await? {
            for result in results {
                match result {
                    Some(outcome) => summary.add(outcome),
                    None => summary.unchanged += 1,
                }
            }
        }
        summary.requests = requests.load(Ordering::Relaxed);
        Ok(summary)
    }

    /// The rows of each window, as groups to write and as results that need no request.
    fn steps<'s>(&'s self, rows: BoxStream<'s, Result<Entity>>) -> BoxStream<'s, Result<Step>> {
        let windows = stream::unfold((Some(rows), false), move |(rows, checked)| async move {
            let mut rows = rows?;
            let window = match self.window(&mut rows).await {
                Ok(window) if window.is_empty() => return None,
                Ok(window) => window,
                Err(error) => return Some((vec![Err(error)], (None, checked))),
            };
            let steps = match self.planned(window, checked).await {
                Ok(steps) => steps.into_iter().map(Ok).collect(),
                Err(error) => return Some((vec![Err(error)], (None, checked))),
            };
            Some((steps, (Some(rows), true)))
        });
        windows.flat_map(stream::iter).boxed()
    }

    async fn window(&self, rows: &mut BoxStream<'_, Result<Entity>>) -> Result<Vec<Entity>> {
        // A window bounds the memory: all of its rows are there while their groups are formed.
        let (mut window, mut bytes) = (Vec::new(), 0);
        while window.len() < WINDOW && bytes < WINDOW_BYTES {
            let Some(row) = rows.try_next().await? else {
                break;
            };
            bytes += row.properties().as_packed().len();
            window.push(self.writer.as_read(row));
        }
        Ok(window)
    }

    async fn planned(&self, window: Vec<Entity>, checked: bool) -> Result<Vec<Step>> {
        if let Some(first) = window.first().filter(|_| !checked) {
            self.writer.check(first.key()).await?;
        }
        let decisions = stream::iter(window).map(|row| {
            let key = row.key().clone();
            (self.decide)(row).map(move |decision| (key, decision))
        });
        let decisions: Vec<_> = decisions.buffered(self.concurrency.max(1)).collect().await;
        let (mut results, mut partitions) =
            (Vec::new(), BTreeMap::<PartitionKey, Vec<RowChange>>::new());
        for (key, decision) in decisions {
            match decision {
                Ok(Decision::Ignore) => {}
                Ok(Decision::Keep) => results.push(None),
                Ok(Decision::Write(change)) => {
                    partitions
                        .entry(key.partition_key())
                        .or_default()
                        .push(*change);
                }
                Err(error) => results.push(Some(self.refused(&key, error))),
            }
        }
        let groups = partitions
            .into_values()
            .flat_map(|changes| self.groups(changes));
        Ok(groups
            .map(Step::Write)
            .chain((!results.is_empty()).then_some(Step::Done(results)))
            .collect())
    }

    /// Divides changes of one partition into groups.
    fn groups(&self, changes: Vec<RowChange>) -> Vec<Vec<RowChange>> {
        let (mut groups, mut group, mut operations) = (Vec::new(), Vec::new(), 0);
        for change in changes {
            let more = self.writer.operations(&change);
            if operations + more > self.writer.most_operations() && !group.is_empty() {
                groups.push(std::mem::take(&mut group));
                operations = 0;
            }
            operations += more;
            group.push(change);
        }
        groups.extend((!group.is_empty()).then_some(group));
        groups
    }

    async fn run_step(&self, step: Result<Step>, requests: &AtomicU64) -> Result<Vec<RowOutcome>> {
        match step? {
            Step::Done(results) => Ok(results),
            Step::Write(group) => Ok(self.write_group(group, requests).await),
        }
    }

    async fn write_group(&self, group: Vec<RowChange>, requests: &AtomicU64) -> Vec<RowOutcome> {
        // Each with whether it may be written in another way after a refusal: once.
        let (mut results, mut left) = (Vec::new(), vec![(group, true)]);
        while let Some((mut group, continues)) = left.pop() {
            let number = requests.fetch_add(1, Ordering::Relaxed);
            let error = match self.writer.write(&group).await {
                Ok((written, pending)) => {
                    let each = group.iter().zip(written);
                    results.extend(each.map(|(change, written)| {
                        Some(self.outcome(change.old.key(), number, Ok(written), pending))
                    }));
                    continue;
                }
                // The groups may have fewer rows than before.
                Err(error) if continues && self.writer.continues_after(&error).await => {
                    left.extend(self.groups(group).into_iter().map(|group| (group, false)));
                    continue;
                }
                Err(error) => error,
            };
            // One row must not keep the other 99 from being written. If the error names the row, it is written by
            // itself; otherwise halves of the group find it, with at most 2 log2(n) more requests.
            let failed = match group.len() {
                1 => Some(0),
                rows if is_of_one_row(&error) => {
                    self.writer.failed(&error).filter(|index| *index < rows)
                }
                _ => {
                    let outcome = |row: &RowChange| {
                        Some(self.outcome(row.old.key(), number, Err(error.clone()), false))
                    };
                    results.extend(group.iter().map(outcome));
                    continue;
                }
            };
            match failed {
                Some(index) => {
                    let row = group.remove(index);
                    results.extend(
                        self.write_again(row, error.root().clone(), number, requests)
                            .await,
                    );
                    left.extend((!group.is_empty()).then_some((group, continues)));
                }
                None => {
                    let second = group.split_off(group.len() / 2);
                    left.extend([(second, continues), (group, continues)]);
                }
            }
        }
        results
    }

    /// Writes one row after its write has failed, if another writer has changed the row and it is still in the set. Returns
    /// nothing for a row that is not in the set any more.
    async fn write_again(
        &self,
        change: RowChange,
        mut error: Error,
        mut number: u64,
        requests: &AtomicU64,
    ) -> Option<RowOutcome> {
        let (key, mut conflicts) = (change.old.key().clone(), Conflicts::new(self.attempts));
        let mut continues = true;
        loop {
            // Another writer has deleted the row, so it is not in the set any more.
            if error.is_entity_not_found() && error.outcome() == Outcome::NotApplied {
                return None;
            }
            if let Err(error) = conflicts.wait(error).await {
                return Some(Some(self.outcome(&key, number, Err(error), false)));
            }
            let row = match self.writer.read(&key).await {
                Err(failed) => return Some(Some(self.outcome(&key, number, Err(failed), false))),
                Ok(row) => row.filter(|row| (self.is_in_set)(row))?,
            };
            let change = match (self.decide)(row).await {
                Ok(Decision::Ignore) => return None,
                Ok(Decision::Keep) => return Some(None),
                Ok(Decision::Write(change)) => *change,
                Err(failed) => return Some(Some(self.refused(&key, failed))),
            };
            number = requests.fetch_add(1, Ordering::Relaxed);
            error = match self.writer.write(&[change]).await {
                Ok((written, pending)) => {
                    let written = written.into_iter().next().unwrap_or_default();
                    return Some(Some(self.outcome(&key, number, Ok(written), pending)));
                }
                // As after a conflict, the row is read and written again: once, so that another refusal is reported as it is.
                Err(failed) if continues && self.writer.continues_after(&failed).await => {
                    continues = false;
                    Error::precondition_failed(self.table, &key)
                }
                Err(failed) => failed.root().clone(),
            };
        }
    }

    fn outcome(
        &self,
        key: &Key,
        number: u64,
        result: Result<Written>,
        pending: bool,
    ) -> BulkOutcome {
        let outcome = BulkOutcome::of_request(self.table.clone(), key.clone(), number, result);
        BulkOutcome { pending, ..outcome }
    }

    fn refused(&self, key: &Key, error: Error) -> BulkOutcome {
        BulkOutcome::refused(self.table.clone(), key.clone(), error)
    }
}

impl<D, S> fmt::Debug for SetWrite<'_, D, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetWrite")
            .field("table", self.table)
            .field("writer", &self.writer)
            .finish_non_exhaustive()
    }
}

/// The outcome of a row of the set; `None` for a row that stays as it is.
type RowOutcome = Option<BulkOutcome>;

enum Step {
    Write(Vec<RowChange>),
    /// Rows that need no write.
    Done(Vec<RowOutcome>),
}

/// Whether one row made the group fail, so that the others can be written without it.
fn is_of_one_row(error: &Error) -> bool {
    let of_all = matches!(
        error.root().kind(),
        ErrorKind::Unauthorized(_) | ErrorKind::Forbidden(_)
    );
    error.outcome() == Outcome::NotApplied
        && !error.is_transient()
        && !error.is_table_not_found()
        && !of_all
}

/// The write path of a [`PlainTable`].
struct PlainWriter<T> {
    table: PlainTable<T>,
}

impl<T> fmt::Debug for PlainWriter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainWriter")
            .field("table", &self.table)
            .finish()
    }
}

impl<T: TableEntity> SetWriter for PlainWriter<T> {
    fn check<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<()>> {
        async move {
            self.table
                .permit_write(key, "a set operation")
                .await
                .map(drop)
        }
        .boxed()
    }

    fn most_operations(&self) -> usize {
        self.table.store().profile().group_operations
    }

    fn write<'a>(
        &'a self,
        changes: &'a [RowChange],
    ) -> BoxFuture<'a, Result<(Vec<Written>, bool)>> {
        async move {
            if let [one] = changes {
                return Ok((vec![self.table.write(one.operation()?).await?], false));
            }
            let Some(first) = changes.first() else {
                return Ok((Vec::new(), false));
            };
            let mut group = self.table.group(first.old.key().partition_key());
            for change in changes {
                group.add_typed::<T>(change.operation())?;
            }
            Ok((group.commit().await?, false))
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        async move { self.table.store().get(self.table.name(), key, None).await }.boxed()
    }

    fn failed(&self, error: &Error) -> Option<usize> {
        error.failed_index()
    }
}

/// Set operations: one call changes or deletes every entity of the query.
///
/// They write in the version that was read, in entity group transactions of up to 100 entities of a partition, several at
/// once (`with_concurrency` of the table). If another writer changes an entity, it is read again, and written if it still
/// matches. A group is atomic; the set as a whole is not: readers see it change, and after an interruption a part of it is
/// written. Run it again then. A query of `table_patterns::Table` maintains index
/// entries.
///
/// The result counts what was written, unchanged, failed and ambiguous, with the first 100 failures.
impl<T: TableEntity> TableQuery<T> {
    /// Deletes the entities.
    ///
    /// 1 request per page of the query, whole entities are read, and 1 per group of up to 100 entities of a partition. 2
    /// more per entity that another writer changes.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::typed::{PlainTable, TableEntity};
    /// # #[derive(TableEntity)]
    /// # struct Session { #[partition_key] user: String, #[row_key] id: u32, age: i32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let sessions = PlainTable::<Session>::new(MemoryStore::new(), "Sessions")?;
    /// # sessions.create_if_missing().await?;
    /// # for id in 0..150 { sessions.insert(&Session { user: "ann".into(), id, age: id as i32 }).await?; }
    /// let old = sessions.query().partition(Session::partition("ann")?).filter(Session::AGE.ge(40));
    /// let summary = old.delete().await?; // 1 query and 2 group transactions
    /// assert_eq!((summary.written, summary.requests, summary.failed), (110, 2, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the query also returns index entries or system rows, or if the handle may not write the entities; nothing is
    /// written then. Returns the errors of reading. Errors of single entities are in the summary: for example a row that
    /// is not a `T`, which is not deleted.
    pub async fn delete(&self) -> Result<BulkSummary> {
        let loader = self.table.shared().loader_of::<T>();
        self.write_set(|old| {
            T::from_entity(match loader {
                // The values outside of the row are not necessary to know that the row is a `T`.
                Some(loader) => loader.with_placeholders(old.clone()),
                None => old.clone(),
            })?;
            Ok(Decision::delete(old))
        })
        .await
    }

    /// Calls `change` with each entity and replaces the entity, as `update` of the table does. An entity that `change` leaves as
    /// it was is not written, and counted as unchanged. Properties that `T` does not know are kept; an entity in an older
    /// schema version is converted.
    ///
    /// Requests as for [`delete`](Self::delete). `change` is called again for an entity that another writer changes.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::typed::{PlainTable, TableEntity};
    /// # #[derive(TableEntity)]
    /// # struct Session { #[partition_key] user: String, #[row_key] id: u32, open: bool }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let sessions = PlainTable::<Session>::new(MemoryStore::new(), "Sessions")?;
    /// # sessions.create_if_missing().await?;
    /// # for id in 0..3 { sessions.insert(&Session { user: "ann".into(), id, open: id > 0 }).await?; }
    /// let close = |session: &mut Session| {
    ///     session.open = false;
    ///     Ok(())
    /// };
    /// let summary = sessions.query().partition(Session::partition("ann")?).update(close).await?;
    /// assert_eq!((summary.written, summary.unchanged), (2, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`delete`](Self::delete). In the summary: an error of `change`, or a change of a key; such an entity is not written.
    pub async fn update(
        &self,
        change: impl Fn(&mut T) -> Result<()> + Send + Sync,
    ) -> Result<BulkSummary> {
        if let Some(loader) = self.table.shared().loader_of::<T>() {
            return self.update_loaded(loader, change).await;
        }
        self.write_set(|old| {
            let new = changed(&old, &change)?;
            Ok(Decision::replace(old, new))
        })
        .await
    }

    /// Updates entities that have values outside of their rows.
    async fn update_loaded(
        &self,
        loader: &Arc<dyn RowLoader>,
        change: impl Fn(&mut T) -> Result<()> + Send + Sync,
    ) -> Result<BulkSummary> {
        let (loads, change) = (self.clone().project::<Entity>().loads_by(loader)?, &change);
        self.write_set_by(|old| {
            let loads = loads.clone();
            async move {
                // The row was replaced, and the query does not find it any more.
                let Some(LoadedRow { stored, whole }) = loads.row(old).await? else {
                    return Ok(Decision::Ignore);
                };
                let mut value = T::from_entity(whole.clone())?;
                change(&mut value)?;
                let new = T::SCHEMA.updated(&stored, value.to_logical()?)?;
                Ok(if has_properties_of(&whole, &new) {
                    Decision::Keep
                } else {
                    Decision::write(stored, Some(new))
                })
            }
            .boxed()
        })
        .await
    }

    /// Calls `decide` for each entity and writes the changes. For handles that add further conditions to the decision.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    #[doc(hidden)]
    pub async fn write_set(
        &self,
        decide: impl Fn(Entity) -> Result<Decision> + Send + Sync,
    ) -> Result<BulkSummary> {
        self.write_set_by(|row| ready(decide(row)).boxed()).await
    }

    async fn write_set_by<'d>(
        &self,
        decide: impl Fn(Entity) -> BoxFuture<'d, Result<Decision>> + Send + Sync,
    ) -> Result<BulkSummary> {
        if self.options.extra_rows.index_entries || self.options.extra_rows.system_rows {
            return Err(Error::misuse(
                "a set operation writes entities, and the query also returns index entries or system rows: leave out \
                 `with_index_entries` and `with_system_rows`",
            ));
        }
        let whole = self.clone().project::<Entity>();
        let (filter, row_filter) = (whole.to_query()?.filter, whole.row_filter());
        let plain: Arc<dyn SetWriter> = Arc::new(PlainWriter {
            table: self.table.clone(),
        });
        let writer = match &self.writer {
            Some(path) => path(plain),
            None => plain,
        };
        let shared = self.table.shared();
        let write = SetWrite {
            table: self.table.name(),
            writer: &*writer,
            decide,
            is_in_set: |row: &Entity| {
                !row_filter.removes(row)
                    && filter
                        .as_ref()
                        .is_none_or(|filter: &Filter| filter.matches(row))
            },
            concurrency: shared.concurrency,
            attempts: shared.attempts,
        };
        write.run(whole.stream()).await
    }
}

impl<T, R> TableQuery<T, R> {
    /// Sets the number of groups that a set operation has in flight.
    #[doc(hidden)]
    pub fn with_concurrency(mut self, requests: usize) -> Self {
        self.table = self.table.with_concurrency(requests);
        self
    }

    /// Sets the write path of set operations, for a handle that writes more than the rows. The path is made for each operation, from the
    /// one that writes the rows alone.
    #[doc(hidden)]
    pub fn written_by(
        mut self,
        path: impl Fn(Arc<dyn SetWriter>) -> Arc<dyn SetWriter> + Send + Sync + 'static,
    ) -> Self {
        self.writer = Some(Arc::new(path));
        self
    }
}

/// Returns the row of an entity after a change.
///
/// # Errors
/// Fails if the row is not a `T`, if `change` fails or changes the key, or if a value cannot be stored.
#[doc(hidden)]
pub fn changed<T: TableEntity>(
    old: &Entity,
    change: impl Fn(&mut T) -> Result<()>,
) -> Result<Entity> {
    let mut value = T::from_entity(old.clone())?;
    change(&mut value)?;
    T::SCHEMA.updated(old, value.to_logical()?)
}
