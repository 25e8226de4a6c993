//! A table with an index of any shape, its writers, some of them tasks of one process, and those who work for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, ValueRef};
use table_core::store::{Result, TableStore};
use tokio::time::sleep;

use super::choose::Choose;
use super::explore::{Explored, Play, explore};
use super::ids::ACTING;
use super::library::Kind;
use super::queue::{Messages, StagedQueue};
use super::rest::{Phase, Rest, Verdict};
use super::scene::Write;
use super::shelf::{self, INDEX, VALUE, table};
use super::stage::Stage;
use super::staged_blobs::StagedBlobs;
use super::store::{MARK, StagedStore, UNWATCHED};
use super::told::Told;
use super::world::{CLIENT, LEASE, SERVER};
use crate::index::shared::{ListRow, is_chunk};
use crate::index::{
    Entry, Index, IndexOptions, IndexState, IndexedEntities, Overflow, Placement, ScrubMode, Shape, Stored,
};
use crate::journal::{Acknowledge, Change, Recovery, Rule, Timing};

/// How the entries of the index are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Rows of another table.
    Rows,
    /// The same, and no two entities have one value.
    Unique,
    /// A list in one row.
    List,
    /// A list in chunks, as soon as it has three references.
    Chunks,
    /// A list in a blob.
    Blob,
    /// A list that goes into a blob with the third reference.
    Spilled,
    /// How many, and the sum of their ages.
    Summary,
    /// Into another entity.
    Copy,
}

/// What is done with the index beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upkeep {
    Nothing,
    /// It is absent, and built.
    Build,
    Scrub,
    Sweep,
    /// Blobs that no row names are collected.
    Collect,
}

/// What goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shapes {
    pub(super) form: Form,
    /// Whether the entries are in the partition of the entities.
    pub(super) here: bool,
    pub(super) start: &'static [(&'static str, &'static str)],
    /// The group that each writer writes.
    pub(super) groups: &'static [&'static [Write]],
    /// The process of each writer, of the upkeep and of each worker, in this order; each is its own where none is given.
    pub(super) processes: &'static [usize],
    /// When the writers begin.
    pub(super) after: Duration,
    pub(super) acknowledge: Acknowledge,
    pub(super) upkeep: Upkeep,
    pub(super) workers: usize,
    pub(super) queued: bool,
    /// How long states of the index are relied upon.
    pub(super) cache: Duration,
    pub(super) broken: Option<Rule>,
}

impl Shapes {
    pub(super) const fn new(
        form: Form,
        here: bool,
        start: &'static [(&'static str, &'static str)],
        groups: &'static [&'static [Write]],
    ) -> Self {
        Self {
            form,
            here,
            start,
            groups,
            processes: &[],
            after: Duration::ZERO,
            acknowledge: Acknowledge::Applied,
            upkeep: Upkeep::Nothing,
            workers: 0,
            queued: false,
            cache: Duration::from_millis(100),
            broken: None,
        }
    }

    /// Says which writers are tasks of one process.
    pub(super) const fn in_processes(self, processes: &'static [usize]) -> Self {
        Self { processes, ..self }
    }

    pub(super) const fn with(self, upkeep: Upkeep) -> Self {
        Self { upkeep, ..self }
    }

    pub(super) const fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// States of the index are relied upon for longer than a lease.
    pub(super) const fn with_long_caches(self) -> Self {
        Self { cache: Duration::from_secs(5), ..self }
    }

    /// With a queue, and so many who work on its tickets.
    pub(super) const fn with_workers(self, workers: usize) -> Self {
        Self { workers, queued: true, ..self }
    }

    /// Committed writes are left to workers.
    pub(super) const fn handed_over(self) -> Self {
        Self { acknowledge: Acknowledge::Committed, queued: true, ..self }
    }

    pub(super) const fn breaking(self, rule: Rule) -> Self {
        Self { broken: Some(rule), ..self }
    }

    pub(super) fn explore(&self, chooser: impl Choose) -> Explored {
        explore(chooser, &async |stage: &Stage| {
            let town = Town::new(stage, *self).await?;
            let upkeep = usize::from(self.upkeep != Upkeep::Nothing);
            let tasks = self.groups.len() + upkeep + self.workers;
            let own = |task: usize| self.processes.get(task).copied().unwrap_or(1_000 + task);
            let processes: Vec<_> = (0..tasks).map(own).collect();
            stage.share(processes.clone());
            let mut handles = BTreeMap::new();
            for process in &processes {
                if !handles.contains_key(process) {
                    handles.insert(*process, town.process().await?);
                }
            }
            let handle = |task: usize| handles[&processes[task]].clone();
            let mut all: Vec<BoxFuture<'static, ()>> = Vec::with_capacity(tasks);
            for group in self.groups {
                all.push(town.writer(all.len(), handle(all.len()), group));
            }
            if upkeep > 0 {
                all.push(town.keeper(handle(all.len())));
            }
            for _ in 0..self.workers {
                all.push(town.worker(handle(all.len())));
            }
            Ok(Play { tasks: all, verdict: town.verdict() })
        })
    }

    fn index(&self) -> Result<Index> {
        let kind = match self.form {
            Form::Rows => Some(Kind::Rows),
            Form::Unique => Some(Kind::Unique),
            _ => None,
        };
        if let Some(kind) = kind {
            return Ok(shelf::index(kind));
        }
        let small = |overflow| Shape::List { bytes: 256, overflow };
        let (shape, row) = match self.form {
            Form::Chunks => (small(Overflow::Entities), "late_{Value}"),
            Form::Blob => (Shape::Blob, "late_{Value}"),
            Form::Spilled => (small(Overflow::Blob), "late_{Value}"),
            Form::Summary => (Shape::summary([AGE]), "late_{Value}"),
            Form::Copy => (Shape::copy(COPIED, [VALUE, MARK]), "late_{Value}_{RowKey}"),
            Form::List | Form::Rows | Form::Unique => (Shape::LIST, "late_{Value}"),
        };
        let (placement, partition) = match self.here {
            true => (Placement::SamePartition, ""),
            false => (Placement::OtherPartition, ELSEWHERE),
        };
        Ok(Index::keyed(INDEX, placement, partition, row)?.with_shape(shape))
    }

    /// Where a list, summary or copy is.
    fn at(&self, row: String) -> Result<Key> {
        Key::new(if self.here { "p" } else { ELSEWHERE }, row)
    }
}

const AGE: &str = "Age";
/// What the names of copied properties begin with.
const COPIED: &str = "Of";
/// The partition of entries that are not beside their entities.
const ELSEWHERE: &str = "elsewhere";
/// How often a writer tries.
const ATTEMPTS: usize = 2;
/// Every value, and every entity.
const VALUES: [&str; 4] = ["a", "b", "c", "d"];
const IDS: [&str; 5] = ["v", "w", "x", "y", "z"];

/// Long, so that three references make a long list. Entities share a partition, so that groups can be written.
fn key(id: &str) -> Key {
    Key::new("p", format!("{id}{}", "_".repeat(100))).unwrap()
}

/// The age tells the versions of an entity apart, so that a sum of another version is another sum.
fn entity(id: &str, value: &str, mark: &str) -> Entity {
    let age = mark.bytes().fold(1, |age: i32, byte| age * 7 + i32::from(byte - b'.'));
    Entity::from(key(id)).with(VALUE, value).with(MARK, mark).with(AGE, age)
}

/// The table, its index and the queue.
#[derive(Clone)]
struct Town {
    of: Shapes,
    stage: Stage,
    store: MemoryStore,
    blobs: Arc<InMemory>,
    messages: Messages,
    told: Told,
}

/// What one process has.
#[derive(Clone)]
struct Process {
    people: IndexedEntities,
    queue: Arc<StagedQueue>,
}

impl Town {
    async fn new(stage: &Stage, of: Shapes) -> Result<Self> {
        let (store, stage) = (MemoryStore::new(), stage.clone());
        store.create_table(&table("People")).await?;
        store.create_table(&table("Late")).await?;
        let (blobs, messages, told) = (Arc::default(), Messages::default(), Told::default());
        let town = Self { of, stage, store, blobs, messages, told };
        let indexes = if of.upkeep == Upkeep::Build { Vec::new() } else { vec![of.index()?] };
        let founder = town.founder(indexes).await?;
        if of.form == Form::Copy {
            for (id, value) in IDS.into_iter().flat_map(|id| VALUES.map(|value| (id, value))) {
                founder.insert(Entity::from(town.target(id, value)?)).await?;
            }
        }
        for (id, value) in of.start {
            founder.insert(entity(id, value, "0.0")).await?;
        }
        Ok(town)
    }

    fn target(&self, id: &str, value: &str) -> Result<Key> {
        self.of.at(format!("late_{value}_{}", key(id).row()))
    }

    fn options(&self) -> Result<IndexOptions> {
        let timing = Timing::new(LEASE, CLIENT, SERVER)?;
        Ok(IndexOptions {
            timing,
            cache: self.of.cache,
            acknowledge: self.of.acknowledge,
            ..IndexOptions::local()
        })
    }

    /// A process whose requests pass at once.
    async fn founder(&self, indexes: Vec<Index>) -> Result<IndexedEntities> {
        let mut options = self.options()?;
        options.acknowledge = Acknowledge::Applied;
        options.blobs = Some(self.blobs.clone());
        IndexedEntities::open(Arc::new(self.store.clone()), table("People"), indexes, options).await
    }

    /// A process whose requests wait for their turn, of whichever of its tasks they are.
    async fn process(&self) -> Result<Process> {
        let live = Arc::new(AtomicBool::new(false));
        let (stage, blobs) = (self.stage.clone(), self.blobs.clone());
        let mut options = self.options()?;
        options.blobs = Some(Arc::new(StagedBlobs { blobs, stage: stage.clone(), live: live.clone() }));
        let queue = Arc::new(StagedQueue::new(self.messages.clone(), Some(stage.clone()), ACTING, true));
        options.queue = self.of.queued.then(|| queue.clone() as _);
        let watched = if self.of.form == Form::Unique { VALUE } else { UNWATCHED };
        let watched = (table("People"), watched);
        let store = self.store.clone();
        let store =
            StagedStore { store, stage, task: ACTING, watched, live: live.clone(), reads_only: false };
        let indexes = vec![self.of.index()?];
        let people = IndexedEntities::open(Arc::new(store), table("People"), indexes, options).await?;
        live.store(true, Ordering::SeqCst);
        Ok(Process { people: people.breaking(self.of.broken), queue })
    }

    /// Reads a group's entities and writes the group. Tries again where others are quicker.
    fn writer(&self, task: usize, process: Process, group: &'static [Write]) -> BoxFuture<'static, ()> {
        let town = self.clone();
        Box::pin(async move {
            if town.of.after > Duration::ZERO {
                sleep(town.of.after).await;
            }
            for attempt in 0..ATTEMPTS {
                let mark = format!("{}.{attempt}", task + 1);
                let Ok(changes) = changes(&process.people, group, &mark).await else { return };
                if changes.is_empty() {
                    return;
                }
                let answer = process.people.write(&changes).await;
                town.told.add(&town.stage, mark, &answer);
                if answer.is_ok() {
                    return;
                }
            }
        })
    }

    fn keeper(&self, process: Process) -> BoxFuture<'static, ()> {
        let town = self.clone();
        Box::pin(async move {
            let done = town.keep(&process.people).await;
            town.stage.note(|| format!("the upkeep ends with {done:?}"));
        })
    }

    async fn keep(&self, people: &IndexedEntities) -> Result<()> {
        match self.of.upkeep {
            Upkeep::Nothing => Ok(()),
            Upkeep::Build => people.build(INDEX)?.run().await.map(drop),
            Upkeep::Scrub => people.scrub(INDEX, ScrubMode::Repair).await.map(drop),
            Upkeep::Sweep => people.journal().sweep(&[table("Late")], Duration::ZERO).await.map(drop),
            Upkeep::Collect => people.collect_blobs(INDEX).await.map(drop),
        }
    }

    /// Works on tickets twice: at once, and a lease later.
    fn worker(&self, process: Process) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for round in 0..2 {
                if round > 0 {
                    sleep(LEASE).await;
                }
                let _lost = Recovery::new(&*process.queue, vec![process.people.journal()]).run_once(8).await;
            }
        })
    }

    /// Lets others finish what is left; what is wrong then.
    fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let town = self.clone();
        Box::pin(async move { Ok(town.judge().await?.err()) })
    }

    async fn judge(&self) -> Result<Verdict> {
        let people = self.founder(vec![self.of.index()?]).await?;
        people.refresh().await?;
        if people.state(INDEX) != IndexState::Readable {
            people.build(INDEX)?.run().await?;
        }
        if self.of.queued {
            self.work(&people).await?;
            if let Err(wrong) = self.check(&people, Phase::Worked).await? {
                return Ok(Err(format!("after the workers: {wrong}")));
            }
        }
        // The second removes the abort rows that the first put in the way of reservations.
        for _ in 0..2 {
            people.journal().sweep(&[table("Late")], Duration::ZERO).await?;
        }
        people.collect_blobs(INDEX).await?;
        if let Err(wrong) = self.check(&people, Phase::Swept).await? {
            return Ok(Err(wrong));
        }
        Ok(self.told.check(&self.stage))
    }

    async fn work(&self, people: &IndexedEntities) -> Result<()> {
        let queue = StagedQueue::new(self.messages.clone(), None, usize::MAX, true);
        for _ in 0..12 {
            if self.messages.len() == 0 {
                break;
            }
            sleep(LEASE * 3).await;
            Recovery::new(&queue, vec![people.journal()]).run_once(32).await?;
        }
        Ok(())
    }

    async fn check(&self, people: &IndexedEntities, phase: Phase) -> Result<Verdict> {
        let mut rest = Rest::read(&self.store, &table("People"), &["Late"], &self.messages, phase).await?;
        if let Err(wrong) = rest.check_evidence() {
            return Ok(Err(wrong));
        }
        if matches!(self.of.form, Form::Rows | Form::Unique) {
            let index = self.of.index()?;
            let derive = |entity: &Entity| index.entries(&table("People"), entity);
            return rest.check_entries(&self.store, &table("People"), derive).await;
        }
        let targets: Vec<_> = rest.entities.extract_if(.., |e| e.get(VALUE).is_none()).collect();
        let mut wanted: BTreeMap<&str, Vec<&Entity>> = BTreeMap::new();
        for entity in &rest.entities {
            if let Some(ValueRef::String(value)) = entity.get(VALUE) {
                wanted.entry(value).or_default().push(entity);
            }
        }
        if self.of.form == Form::Copy {
            return self.check_copies(&targets, &wanted);
        }
        for value in VALUES {
            let wanted = wanted.get(value).cloned().unwrap_or_default();
            if let Err(wrong) = self.check_value(people, value, &wanted).await? {
                return Ok(Err(wrong));
            }
        }
        if let Err(wrong) = self.check_rows(rest.rows(), wanted.len()) {
            return Ok(Err(wrong));
        }
        if phase == Phase::Swept { self.check_blobs(rest.rows()).await } else { Ok(Ok(())) }
    }

    /// What readers find of a value.
    async fn check_value(
        &self,
        people: &IndexedEntities,
        value: &str,
        wanted: &[&Entity],
    ) -> Result<Verdict> {
        let at = self.of.at(format!("late_{value}"))?;
        if self.of.form == Form::Summary {
            let ages = wanted.iter().map(|entity| match entity.get(AGE) {
                Some(ValueRef::Int32(age)) => i64::from(age),
                _ => 0,
            });
            let (count, sum) = (wanted.len() as i64, ages.sum::<i64>());
            let found = people.summary(INDEX, &at).await?;
            let held = (found.count, found.sums.get(AGE).copied().unwrap_or_default());
            let right = held == (count, sum);
            return Ok(if right {
                Ok(())
            } else {
                Err(format!("of {value} {held:?} is summed, not {count}, {sum}"))
            });
        }
        let keys: Vec<_> = wanted.iter().map(|entity| entity.key().clone()).collect();
        let found = match people.references(INDEX, &at).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(format!("the list of {value} cannot be read: {error}"))),
        };
        Ok(if found == keys {
            Ok(())
        } else {
            Err(format!("the list of {value} has {found:?}, not {keys:?}"))
        })
    }

    /// A row for each value, and the chunks that these name, and no more.
    fn check_rows(&self, rows: &[(crate::index::Location, Entity)], values: usize) -> Verdict {
        let (chunks, heads): (Vec<_>, Vec<_>) =
            rows.iter().map(|(_, row)| row).partition(|row| is_chunk(row));
        if heads.len() != values {
            return Err(format!("{} rows for {values} values", heads.len()));
        }
        let named = |chunk: &Entity| {
            heads.iter().any(|head| match ListRow::read(head) {
                Ok(ListRow::Chunks(directory)) => directory.names(chunk.key()),
                _ => false,
            })
        };
        match chunks.into_iter().find(|chunk| !named(chunk)) {
            Some(chunk) => Err(format!("no list names the chunk {}", chunk.key())),
            None => Ok(()),
        }
    }

    /// The blobs are those that rows name.
    async fn check_blobs(&self, rows: &[(crate::index::Location, Entity)]) -> Result<Verdict> {
        let named = rows.iter().filter_map(|(_, row)| match ListRow::read(row) {
            Ok(ListRow::Blob(name)) => Some(name),
            _ => None,
        });
        let named: BTreeSet<_> = named.collect();
        let blobs: Vec<_> = self.blobs.list(None).try_collect().await.expect("blobs in memory");
        let there: BTreeSet<_> = blobs.into_iter().map(|blob| blob.location.to_string()).collect();
        Ok(if named == there {
            Ok(())
        } else {
            Err(format!("rows name the blobs {named:?}, and there are {there:?}"))
        })
    }

    fn check_copies(&self, targets: &[Entity], wanted: &BTreeMap<&str, Vec<&Entity>>) -> Result<Verdict> {
        let mut copied = BTreeMap::new();
        for (value, entities) in wanted {
            for entity in entities {
                let at = self.of.at(format!("late_{value}_{}", entity.key().row()))?;
                copied.insert(at, *entity);
            }
        }
        for target in targets {
            let owner = copied.remove(target.key());
            for name in [VALUE, MARK] {
                let (found, held) = (target.get(&format!("{COPIED}{name}")), owner.and_then(|e| e.get(name)));
                if found != held {
                    return Ok(Err(format!("{} has the copy {found:?}, not {held:?}", target.key())));
                }
            }
            let stray = format!("{COPIED}{}", Entry::OWNER_ROW);
            if owner.is_none() && target.get(&stray).is_some() {
                return Ok(Err(format!("{} names an owner", target.key())));
            }
        }
        Ok(copied.pop_first().map_or(Ok(()), |(at, _)| Err(format!("the target {at} is gone"))))
    }
}

/// What brings a group's entities to their values; nothing where that changes nothing.
async fn changes(people: &IndexedEntities, group: &[Write], mark: &str) -> Result<Vec<Change>> {
    let mut changes = Vec::with_capacity(group.len());
    for (id, value) in group {
        let old = people.get(&key(id)).await?.map(Stored::into_inner);
        let new = value.map(|value| entity(id, value, mark));
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => changes.push(Change::insert(new)),
            (Some(old), None) => changes.push(Change::delete(old)),
            (Some(old), Some(new)) => changes.push(Change::replace(old, new)),
        }
    }
    Ok(changes)
}
