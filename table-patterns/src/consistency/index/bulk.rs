//! New entities in bulk, with their entries.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, Key, PartitionKey};
use table_core::store::{Error, ErrorKind, Outcome, Result, Written};

use super::entry::{Entry, Location, Maintainer as _};
use super::indexed::IndexedEntities;
use crate::bulk::WINDOW_BYTES;
use crate::journal::{Change, Entries};

/// How much a bulk insert does at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkInsert {
    /// Groups being written.
    pub parallelism: usize,
    /// Entities that are read before their groups are formed; fewer once they have 16 MiB of properties. More of them make fuller groups where many
    /// partitions come mixed, and fewer requests where entries elsewhere share partitions.
    pub window: usize,
}

impl Default for BulkInsert {
    /// 16 groups at once, from 10,000 entities.
    fn default() -> Self {
        Self { parallelism: 16, window: 10_000 }
    }
}

impl BulkInsert {
    /// Other groups at once; at least 1.
    #[must_use]
    pub fn with_parallelism(mut self, groups: usize) -> Self {
        self.parallelism = groups.max(1);
        self
    }

    /// Another window; at least 1.
    #[must_use]
    pub fn with_window(mut self, entities: usize) -> Self {
        self.window = entities.max(1);
        self
    }
}

/// What became of one entity of a bulk insert.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inserted {
    /// The entity.
    pub key: Key,
    /// The number of its group, from 0: what shares it was written atomically, with all entries in the
    /// partition. Nothing else was.
    pub group: u64,
    /// Its version, and whether its entries elsewhere are in step; or the error, whose
    /// [`outcome`](Error::outcome) says whether it may have been written all the same.
    pub result: Result<(Written, Entries)>,
}

/// What became of all of them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InsertSummary {
    /// Entities written.
    pub written: u64,
    /// Those of them whose entries elsewhere a worker or sweep will bring into step.
    pub pending: u64,
    /// Entities certainly not written.
    pub failed: u64,
    /// Entities whose answer was lost.
    pub ambiguous: u64,
    /// Groups sent, refused ones included.
    pub groups: u64,
    /// The first 100 that were not simply written.
    pub failures: Vec<Inserted>,
}

impl InsertSummary {
    /// Failures that are kept.
    const KEPT: usize = 100;

    /// Drives a bulk insert to its end, and counts.
    ///
    /// # Errors
    /// Of the input. What was read before is written nonetheless.
    pub async fn of(outcomes: impl Stream<Item = Result<Inserted>>) -> Result<Self> {
        let add = |mut summary: Self, outcome| async move {
            summary.add(outcome);
            Ok(summary)
        };
        outcomes.try_fold(Self::default(), add).await
    }

    /// Counts one more.
    pub fn add(&mut self, outcome: Inserted) {
        self.groups = self.groups.max(outcome.group + 1);
        match outcome.result.as_ref().map_err(Error::outcome) {
            Ok((_, Entries::Applied)) | Err(Outcome::Applied) => self.written += 1,
            Ok((_, Entries::Pending)) => (self.written, self.pending) = (self.written + 1, self.pending + 1),
            Err(Outcome::NotApplied) => self.failed += 1,
            Err(Outcome::Ambiguous) => self.ambiguous += 1,
        }
        if outcome.result.is_err() && self.failures.len() < Self::KEPT {
            self.failures.push(outcome);
        }
    }

    /// The entities written, if all were.
    ///
    /// # Errors
    /// The first failure.
    pub fn into_result(self) -> Result<u64> {
        match self.failures.into_iter().next().map(|failure| failure.result) {
            Some(Err(error)) => Err(error),
            _ => Ok(self.written),
        }
    }
}

impl IndexedEntities {
    /// Adds entities while it is polled; an outcome for each, in the order of the answers.
    ///
    /// Entities of one partition are written together: a group holds each with all its entries of the
    /// partition, up to 100 operations. In a partition they are taken in the order of their entries
    /// elsewhere, so that a group touches few partitions. The groups of several partitions are written in turn. What
    /// a group adds to a summary or list of its partition is one write of that, in the group; groups at once
    /// wait for each other there.
    ///
    /// Requests: one for each group; with entries elsewhere those of one write (see the
    /// [`journal`](crate::journal)) and a read for each entity. A group that cannot be written is halved until
    /// the entity that fails is alone: about 2 more for each halving.
    ///
    /// # Errors
    /// As items: of the input, last, and of reading the states of indexes.
    pub fn insert_all<'a, S>(
        &'a self,
        entities: S,
        options: BulkInsert,
    ) -> impl Stream<Item = Result<Inserted>> + Send + use<'a, S>
    where
        S: Stream<Item = Result<Entity>> + Send + 'a,
    {
        let numbers = Arc::new(AtomicU64::new(0));
        windows(entities, options.window).flat_map(move |(entities, error)| {
            let numbers = Arc::clone(&numbers);
            let written = stream::once(self.grouped(entities)).map_ok(move |groups| {
                let numbers = Arc::clone(&numbers);
                let settle = move |group| self.settle(group, Arc::clone(&numbers));
                let settled = stream::iter(groups).map(settle).buffer_unordered(options.parallelism);
                settled.flat_map(|outcomes| stream::iter(outcomes.into_iter().map(Ok)))
            });
            written.try_flatten().chain(stream::iter(error.map(Err)))
        })
    }

    /// The groups of a window.
    async fn grouped(&self, entities: Vec<Entity>) -> Result<Vec<Group>> {
        self.prepare().await?;
        let mut partitions: BTreeMap<PartitionKey, Vec<Weighed>> = BTreeMap::new();
        let mut unsound = Vec::new();
        for entity in entities {
            match self.set.entries(&entity) {
                Ok(entries) => {
                    let partition = entity.key().partition_key();
                    partitions.entry(partition).or_default().push(self.weighed(entity, entries));
                }
                Err(error) => unsound.push(Group::Unsound(entity.key().clone(), error)),
            }
        }
        let most = self.store().profile().group_operations;
        let sound = partitions.into_values().map(|weighed| fill(weighed, most)).collect();
        Ok(unsound.into_iter().chain(in_turn(sound)).collect())
    }

    fn weighed(&self, entity: Entity, entries: Vec<Entry>) -> Weighed {
        let partition = entity.key().partition();
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|e| e.location.is_within(self.table(), partition));
        let elsewhere = elsewhere.into_iter().map(|e| e.location).next();
        let (shared, own): (Vec<_>, Vec<_>) = here.into_iter().partition(|e| e.shape.is_shared());
        let shared = shared.into_iter().map(|e| e.location).collect();
        Weighed { elsewhere, operations: 1 + own.len(), shared, entity }
    }

    async fn settle(&self, group: Group, numbers: Arc<AtomicU64>) -> Vec<Inserted> {
        let mut settled = Vec::new();
        let mut left = vec![group];
        while let Some(group) = left.pop() {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            let mut changes = match group {
                Group::Unsound(key, error) => {
                    settled.push(Inserted { key, group: number, result: Err(error) });
                    continue;
                }
                Group::Sound(changes) => changes,
            };
            let wanted: Vec<Change> = changes.iter().map(|(_, change)| change.clone()).collect();
            match self.write(&wanted).await {
                Err(error) if changes.len() > 1 && is_of_one(&error) => {
                    let second = changes.split_off(changes.len() / 2);
                    left.extend([Group::Sound(second), Group::Sound(changes)]);
                }
                Err(error) => settled.extend(changes.into_iter().map(|(key, _)| Inserted {
                    key,
                    group: number,
                    result: Err(error.clone()),
                })),
                Ok(done) => {
                    let each = changes.into_iter().zip(done.written);
                    settled.extend(each.map(|((key, _), written)| Inserted {
                        key,
                        group: number,
                        result: Ok((written, done.entries)),
                    }));
                }
            }
        }
        settled
    }
}

/// Entities together, so many or of so many bytes. An error of the input ends them, after what came before it.
pub(super) fn windows(
    entities: impl Stream<Item = Result<Entity>> + Send,
    most: usize,
) -> impl Stream<Item = (Vec<Entity>, Option<Error>)> + Send {
    stream::unfold(Some(Box::pin(entities)), move |entities| async move {
        let mut entities = entities?;
        let (mut window, mut bytes) = (Vec::new(), 0);
        while window.len() < most && bytes < WINDOW_BYTES {
            match entities.next().await {
                Some(Ok(entity)) => {
                    bytes += entity.properties().as_packed().len();
                    window.push(entity);
                }
                Some(Err(error)) => return Some(((window, Some(error)), None)),
                None => return (!window.is_empty()).then_some(((window, None), None)),
            }
        }
        Some(((window, None), Some(entities)))
    })
}

/// An entity with what it takes in a group, and where its first entry elsewhere goes.
struct Weighed {
    elsewhere: Option<Location>,
    operations: usize,
    /// Rows of the partition that entities of a group change together, once.
    shared: Vec<Location>,
    entity: Entity,
}

enum Group {
    Sound(Vec<(Key, Change)>),
    /// An entity whose entries cannot be made.
    Unsound(Key, Error),
}

/// Fills groups of one partition, with a place for a journal row where entries go elsewhere.
fn fill(mut weighed: Vec<Weighed>, most: usize) -> Vec<Group> {
    weighed.sort_by(|a, b| a.elsewhere.cmp(&b.elsewhere));
    let (mut groups, mut group, mut operations) = (Vec::new(), Vec::new(), 0);
    let mut rows: BTreeSet<Location> = BTreeSet::new();
    for Weighed { operations: own, shared, entity, elsewhere } in weighed {
        let more = own + shared.iter().filter(|row| !rows.contains(row)).count();
        // Those without come first, so that the last of a group tells.
        let journal = usize::from(elsewhere.is_some());
        if operations + more + journal > most && !group.is_empty() {
            groups.push(Group::Sound(std::mem::take(&mut group)));
            operations = 0;
            rows.clear();
        }
        operations += own + shared.iter().filter(|row| !rows.contains(row)).count();
        rows.extend(shared);
        group.push((entity.key().clone(), Change::insert(entity)));
    }
    groups.extend(Some(group).filter(|group| !group.is_empty()).map(Group::Sound));
    groups
}

/// The first group of each partition, then the second of each: neighbours do not meet at shared rows.
fn in_turn(partitions: Vec<Vec<Group>>) -> Vec<Group> {
    let mut partitions: VecDeque<_> = partitions.into_iter().map(Vec::into_iter).collect();
    let mut groups = Vec::new();
    while let Some(mut partition) = partitions.pop_front() {
        if let Some(group) = partition.next() {
            groups.push(group);
            partitions.push_back(partition);
        }
    }
    groups
}

/// Whether a group failed for one of its entities, so that the others are written without it. What a caller may not do at
/// all is refused of each.
fn is_of_one(error: &Error) -> bool {
    let of_all = matches!(error.kind(), ErrorKind::Unauthorized(_) | ErrorKind::Forbidden(_));
    error.outcome() == Outcome::NotApplied && !error.is_transient() && !error.is_table_not_found() && !of_all
}
