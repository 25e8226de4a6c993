//! Writes of many entities, with their entries. Entities of one key are written in the order of the input.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::future::ready;
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use table_core::model::{Entity, Key, PartitionKey};
use table_core::store::{BulkOutcome, Error, ErrorKind, Outcome, Result, Written};

use super::changes::EntityChanges;
use crate::entry::shared::feed;
use crate::entry::{Entry, Location, Maintainer as _};
use crate::journal::{Change, Entries};
use crate::rows::WINDOW_BYTES;
use crate::rows::in_order::run_in_order;

/// Options of a bulk insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkInsert {
    /// The number of groups that are written at the same time.
    pub concurrency: usize,
    /// Entities that are read before their groups are formed; a window ends early at 16 MiB of properties. A larger window makes fuller
    /// groups for input with mixed partitions, and fewer requests for remote entries that share partitions.
    pub window: usize,
}

impl Default for BulkInsert {
    /// 16 groups in parallel, from windows of 10,000 entities.
    fn default() -> Self {
        Self {
            concurrency: 16,
            window: 10_000,
        }
    }
}

impl BulkInsert {
    /// Sets the number of groups that are written at the same time; at least 1.
    #[must_use]
    pub fn with_concurrency(mut self, groups: usize) -> Self {
        self.concurrency = groups.max(1);
        self
    }

    /// Sets the entities of a window; at least 1.
    #[must_use]
    pub fn with_window(mut self, entities: usize) -> Self {
        self.window = entities.max(1);
        self
    }
}

/// Inserts entities in groups of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupedInserts<'a> {
    pub(super) changes: EntityChanges<'a>,
}

impl<'a> GroupedInserts<'a> {
    /// See [`IndexedEntities::insert_all`](super::IndexedEntities::insert_all).
    pub(super) fn run<S>(
        self,
        entities: S,
        options: BulkInsert,
    ) -> impl Stream<Item = Result<BulkOutcome>> + Send + use<'a, S>
    where
        S: Stream<Item = Result<Entity>> + Send + 'a,
    {
        let numbers = Arc::new(AtomicU64::new(0));
        // An error of the input, or of reading the states of indexes, ends the input. It is reported after the groups before it.
        let failure = Arc::new(OnceLock::new());
        let failed = Arc::clone(&failure);
        let windows = windows(entities, options.window).take_while({
            let failure = Arc::clone(&failure);
            move |_| ready(failure.get().is_none())
        });
        let groups = windows.then(move |(entities, error)| {
            let failed = Arc::clone(&failed);
            async move {
                let (groups, error) = match self.grouped(entities).await {
                    Ok(groups) => (groups, error),
                    Err(error) => (Vec::new(), Some(error)),
                };
                error.map(|error| failed.set(error));
                stream::iter(groups)
            }
        });
        let pieces = groups.flatten().map(move |group: Group| {
            let keys = group.keys();
            (keys, self.write_group(group, Arc::clone(&numbers)).boxed())
        });
        let results = run_in_order(pieces, options.concurrency);
        let results = results.flat_map(|outcomes| stream::iter(outcomes.into_iter().map(Ok)));
        let end = async move {
            self.changes.journal.flush().await;
            stream::iter(failure.get().cloned().map(Err))
        };
        results.chain(end.flatten_stream())
    }

    /// The groups of a window.
    async fn grouped(self, entities: Vec<Entity>) -> Result<Vec<Group>> {
        // Fresh states, to form groups by the entries of the present indexes. Each write checks the states
        // again.
        drop(self.changes.set.prepare_write().await?);
        // The second entity of a key is in the second round, whose groups come after the groups of the first: a group has a key once, and
        // groups come in the order of the entities of each key.
        let mut rounds: Vec<BTreeMap<PartitionKey, Vec<Candidate>>> = Vec::new();
        let mut seen: HashMap<Key, usize> = HashMap::new();
        let mut groups = Vec::new();
        for entity in entities {
            match self.changes.set.entries(&entity) {
                Ok(entries) => {
                    let partition = entity.key().partition_key();
                    let earlier = seen.entry(entity.key().clone()).or_default();
                    if rounds.len() == *earlier {
                        rounds.push(BTreeMap::new());
                    }
                    let candidate = self.candidate(entity, entries);
                    rounds[*earlier]
                        .entry(partition)
                        .or_default()
                        .push(candidate);
                    *earlier += 1;
                }
                Err(error) => groups.push(Group::Invalid(entity.key().clone(), error)),
            }
        }
        let most = self.changes.rows.store.profile().group_operations;
        for partitions in rounds {
            let filled = partitions
                .into_values()
                .map(|candidates| fill_groups(candidates, most));
            groups.extend(interleave(filled.collect()));
        }
        Ok(groups)
    }

    fn candidate(&self, entity: Entity, entries: Vec<Entry>) -> Candidate {
        let partition = entity.key().partition();
        let (local, remote): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .partition(|e| e.location.is_within(self.changes.rows.table, partition));
        let remote = remote.into_iter().map(|e| e.location).next();
        let (shared, own): (Vec<_>, Vec<_>) = local.into_iter().partition(|e| e.shape.is_shared());
        let mut shared: Vec<_> = shared.into_iter().map(|e| e.location).collect();
        let is_recorded = self
            .changes
            .set
            .recorded(&entity)
            .is_ok_and(|of| of.is_some());
        if is_recorded {
            shared.extend(self.counter_of(&entity));
        }
        Candidate {
            remote,
            operations: 1 + own.len() + usize::from(is_recorded),
            shared,
            entity,
        }
    }

    /// The counter of the changes in the partition of an entity.
    fn counter_of(&self, entity: &Entity) -> Option<Location> {
        let key = feed::counter_key(&entity.key().partition_key()).ok()?;
        let table = self.changes.rows.table.clone();
        Some(Location { table, key })
    }

    fn expires(&self) -> bool {
        self.changes
            .set
            .schema()
            .is_some_and(|schema| schema.expiry.is_some())
    }

    /// Writes a group. Halves it while it fails because of one entity, so that the other entities are written.
    async fn write_group(self, group: Group, numbers: Arc<AtomicU64>) -> Vec<BulkOutcome> {
        let table = self.changes.rows.table;
        let first = match group {
            Group::Invalid(key, error) => {
                return vec![BulkOutcome::refused(table.clone(), key, error)];
            }
            Group::Writable(changes) => changes,
        };
        let (mut outcomes, mut left, mut has_looked) = (Vec::new(), vec![first], false);
        while let Some(mut changes) = left.pop() {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            let outcome = |key, result: Result<Written>, pending| {
                let outcome = BulkOutcome::of_request(table.clone(), key, number, result);
                outcome.with_pending(pending)
            };
            let wanted: Vec<Change> = changes.iter().map(|(_, change)| change.clone()).collect();
            match self.changes.write(&wanted).await {
                // One request finds the entities that exist, as of a file that is imported again. Not for a type whose entities expire: an
                // insert takes the place of an expired one.
                Err(error)
                    if changes.len() > 1
                        && error.is_already_exists()
                        && !has_looked
                        && !self.expires() =>
                {
                    has_looked = true;
                    let keys = changes.iter().map(|(key, _)| key);
                    let existing = self.changes.rows.entities().taken(keys).await;
                    let (exist, new): (Vec<_>, Vec<_>) = changes
                        .into_iter()
                        .partition(|(key, _)| existing.contains(key));
                    let refused = exist.into_iter().map(|(key, _)| {
                        let error = Error::entity_already_exists(table, &key);
                        outcome(key, Err(error), false)
                    });
                    outcomes.extend(refused);
                    left.extend(Some(new).filter(|new| !new.is_empty()));
                }
                Err(error) if changes.len() > 1 && is_failure_of_one_entity(&error) => {
                    let second = changes.split_off(changes.len() / 2);
                    // The first half comes last, because the last group is written next.
                    left.extend([second, changes]);
                }
                Err(error) => {
                    let all = changes
                        .into_iter()
                        .map(|(key, _)| outcome(key, Err(error.clone()), false));
                    outcomes.extend(all);
                }
                Ok(done) => {
                    let pending = done.entries == Entries::Pending;
                    let each = changes.into_iter().zip(done.written);
                    outcomes
                        .extend(each.map(|((key, _), written)| outcome(key, Ok(written), pending)));
                }
            }
        }
        outcomes
    }
}

/// Divides the input into windows of `most` entities or `WINDOW_BYTES` of properties. An error of the input
/// ends the last window; the entities before the error are in it.
pub(crate) fn windows(
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

/// An entity with its size in a group, and its first remote entry.
struct Candidate {
    remote: Option<Location>,
    operations: usize,
    /// Local rows that the entities of a group share; the group writes each once.
    shared: Vec<Location>,
    entity: Entity,
}

enum Group {
    Writable(Vec<(Key, Change)>),
    /// An entity whose entries cannot be derived.
    Invalid(Key, Error),
}

impl Group {
    /// The keys that the group writes.
    fn keys(&self) -> Vec<Key> {
        match self {
            Self::Writable(changes) => changes.iter().map(|(key, _)| key.clone()).collect(),
            Self::Invalid(..) => Vec::new(),
        }
    }
}

/// Changes entities one by one, several at once: see [`IndexedEntities::modify_all`](super::IndexedEntities::modify_all).
pub(super) fn modify_all<'a, S, F>(
    changes: EntityChanges<'a>,
    rows: S,
    concurrency: usize,
    combine: F,
) -> impl Stream<Item = Result<BulkOutcome>> + Send + use<'a, S, F>
where
    S: Stream<Item = Result<Entity>> + Send + 'a,
    F: Fn(Option<&Entity>, &Entity) -> Result<Entity> + Send + Sync + 'a,
{
    let (combine, failure) = (Arc::new(combine), Arc::new(OnceLock::new()));
    let ending = Arc::clone(&failure);
    let rows = rows.scan((), move |(), row| {
        ready(row.map_err(|error| ending.set(error)).ok())
    });
    let pieces = rows.enumerate().map(move |(number, row)| {
        let combine = Arc::clone(&combine);
        let keys = vec![row.key().clone()];
        let work = async move {
            let key = row.key().clone();
            let done = changes
                .modify(&key, |old| combine(old, &row).map(Some))
                .await;
            let pending = done
                .as_ref()
                .is_ok_and(|done| done.entries == Entries::Pending);
            let written = done.map(|done| done.written.into_iter().next().unwrap_or_default());
            let table = changes.rows.table.clone();
            BulkOutcome::of_request(table, key, number as u64, written).with_pending(pending)
        };
        (keys, work.boxed())
    });
    let end = async move {
        changes.journal.flush().await;
        stream::iter(failure.get().cloned().map(Err))
    };
    run_in_order(pieces, concurrency)
        .map(Ok)
        .chain(end.flatten_stream())
}

/// Fills groups of one partition, with space for a journal row in a group with remote entries.
fn fill_groups(mut candidates: Vec<Candidate>, most: usize) -> Vec<Group> {
    // Entities with remote entries in one partition come into one group, whose writer then sends these
    // entries together.
    candidates.sort_by(|a, b| a.remote.cmp(&b.remote));
    let (mut groups, mut group, mut operations) = (Vec::new(), Vec::new(), 0);
    let mut rows: BTreeSet<Location> = BTreeSet::new();
    for Candidate {
        operations: own,
        shared,
        entity,
        remote,
    } in candidates
    {
        let more = own + shared.iter().filter(|row| !rows.contains(row)).count();
        // Entities without remote entries come first, so the last entity of a group decides.
        let journal = usize::from(remote.is_some());
        if operations + more + journal > most && !group.is_empty() {
            groups.push(Group::Writable(std::mem::take(&mut group)));
            operations = 0;
            rows.clear();
        }
        // Counted again: in a new group the shared rows are not there yet.
        operations += own + shared.iter().filter(|row| !rows.contains(row)).count();
        rows.extend(shared);
        group.push((entity.key().clone(), Change::insert(entity)));
    }
    groups.extend(
        Some(group)
            .filter(|group| !group.is_empty())
            .map(Group::Writable),
    );
    groups
}

/// The first group of each partition, then the second of each, and so on: groups in parallel rarely share rows.
fn interleave(partitions: Vec<Vec<Group>>) -> Vec<Group> {
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

/// Whether one entity made the group fail, so that the others can be written without it. A missing permission
/// affects every entity.
fn is_failure_of_one_entity(error: &Error) -> bool {
    let of_all = matches!(
        error.kind(),
        ErrorKind::Unauthorized(_) | ErrorKind::Forbidden(_)
    );
    error.outcome() == Outcome::NotApplied
        && !error.is_transient()
        && !error.is_table_not_found()
        && !of_all
}
