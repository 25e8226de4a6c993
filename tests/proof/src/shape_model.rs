//! The model of a table with an index of any shape: its writers (some of them tasks of one process), its maintenance
//! and its workers.

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
use table_core::store::{Result, ServiceProfile, StoreContext, TableStore};
use tokio::time::sleep;

use super::Invariant;
use super::acknowledgements::Acknowledgements;
use super::chooser::Choose;
use super::explorer::{Explored, Schedule, explore};
use super::final_state::{FinalState, Phase, Verdict};
use super::ids::CURRENT_TASK;
use super::index_model::{INDEX, VALUE, changes, table};
use super::index_scene::EntryKind;
use super::journal_model::{CLIENT, LEASE, SERVER};
use super::journal_scene::Write;
use super::scheduled_blobs::ScheduledBlobs;
use super::scheduled_queue::{Messages, ScheduledQueue, run_workers};
use super::scheduled_store::{MARK, ScheduledStore, UNWATCHED};
use super::scheduler::Scheduler;
use crate::patterns::consistency::entry::shared::{ListRow, is_chunk};
use crate::patterns::index::{
    Entry, Index, IndexOptions, IndexState, IndexedEntities, Overflow, Placement, ScrubMode, Shape,
};
use crate::patterns::journal::{Acknowledge, Recovery, Timing};

/// The shapes of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Rows in another table.
    Rows,
    /// Rows in another table, with unique values.
    Unique,
    /// A list in one row.
    List,
    /// A list that is split into chunks at the third reference.
    Chunks,
    /// A list in a blob.
    Blob,
    /// A list that moves into a blob at the third reference.
    Spilled,
    /// The number of entities, and the sum of their ages.
    Summary,
    /// A copy in another entity.
    Copy,
}

/// The maintenance of the index while writers continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upkeep {
    Nothing,
    /// The index is absent and is built.
    Build,
    Scrub,
    Sweep,
    /// Blobs that no row names are removed.
    Collect,
}

/// Writers, maintenance and workers of a table with an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShapeScene {
    pub(super) form: Form,
    /// Whether the entries are local: in the partition of the entities.
    pub(super) local: bool,
    pub(super) start: &'static [(&'static str, &'static str)],
    /// The group of each writer.
    pub(super) groups: &'static [&'static [Write]],
    /// The process of each writer, of the maintenance and of each worker, in this order. A task without a number is a
    /// process of its own.
    pub(super) processes: &'static [usize],
    /// The start of the writers.
    pub(super) writers_start: Duration,
    pub(super) acknowledge: Acknowledge,
    pub(super) upkeep: Upkeep,
    pub(super) workers: usize,
    pub(super) queued: bool,
    /// The time for which processes cache index states.
    pub(super) cache: Duration,
    pub(super) omitted: Option<Invariant>,
}

impl ShapeScene {
    pub(super) const fn new(
        form: Form,
        local: bool,
        start: &'static [(&'static str, &'static str)],
        groups: &'static [&'static [Write]],
    ) -> Self {
        Self {
            form,
            local,
            start,
            groups,
            processes: &[],
            writers_start: Duration::ZERO,
            acknowledge: Acknowledge::Applied,
            upkeep: Upkeep::Nothing,
            workers: 0,
            queued: false,
            cache: Duration::from_millis(100),
            omitted: None,
        }
    }

    /// Sets the processes of the tasks.
    pub(super) const fn in_processes(self, processes: &'static [usize]) -> Self {
        Self { processes, ..self }
    }

    pub(super) const fn with(self, upkeep: Upkeep) -> Self {
        Self { upkeep, ..self }
    }

    pub(super) const fn writers_start_at(self, writers_start: Duration) -> Self {
        Self {
            writers_start,
            ..self
        }
    }

    /// Index states are cached for longer than a lease.
    pub(super) const fn with_long_caches(self) -> Self {
        Self {
            cache: Duration::from_secs(5),
            ..self
        }
    }

    /// Adds a queue, and this number of workers.
    pub(super) const fn with_workers(self, workers: usize) -> Self {
        Self {
            workers,
            queued: true,
            ..self
        }
    }

    /// Writers return after the commit; workers apply the writes.
    pub(super) const fn left_to_workers(self) -> Self {
        Self {
            acknowledge: Acknowledge::Committed,
            queued: true,
            ..self
        }
    }

    pub(super) const fn without_invariant(self, invariant: Invariant) -> Self {
        Self {
            omitted: Some(invariant),
            ..self
        }
    }

    pub(super) fn explore(&self, chooser: impl Choose) -> Explored {
        explore(chooser, self.omitted, &async |scheduler: &Scheduler| {
            let model = ShapeModel::new(scheduler, *self).await?;
            let upkeep = usize::from(self.upkeep != Upkeep::Nothing);
            let tasks = self.groups.len() + upkeep + self.workers;
            let own = |task: usize| self.processes.get(task).copied().unwrap_or(1_000 + task);
            let processes: Vec<_> = (0..tasks).map(own).collect();
            scheduler.share(processes.clone());
            let mut handles = BTreeMap::new();
            for process in &processes {
                if !handles.contains_key(process) {
                    handles.insert(*process, model.process().await?);
                }
            }
            let handle = |task: usize| handles[&processes[task]].clone();
            let mut all: Vec<BoxFuture<'static, ()>> = Vec::with_capacity(tasks);
            for group in self.groups {
                all.push(model.writer(all.len(), handle(all.len()), group));
            }
            if upkeep > 0 {
                all.push(model.maintainer(handle(all.len())));
            }
            for _ in 0..self.workers {
                all.push(model.worker(handle(all.len())));
            }
            Ok(Schedule {
                tasks: all,
                verdict: model.verdict(),
            })
        })
    }

    fn index(&self) -> Result<Index> {
        let kind = match self.form {
            Form::Rows => Some(EntryKind::Rows),
            Form::Unique => Some(EntryKind::Unique),
            _ => None,
        };
        if let Some(kind) = kind {
            return Ok(super::index_model::index(kind));
        }
        let small = |overflow| Shape::List {
            bytes: 256,
            overflow,
        };
        let (shape, row) = match self.form {
            Form::Chunks => (small(Overflow::Entities), "late_{Value}"),
            Form::Blob => (Shape::Blob, "late_{Value}"),
            Form::Spilled => (small(Overflow::Blob), "late_{Value}"),
            Form::Summary => (Shape::summary([AGE]), "late_{Value}"),
            Form::Copy => (Shape::copy(COPIED, [VALUE, MARK]), "late_{Value}_{RowKey}"),
            Form::List | Form::Rows | Form::Unique => (Shape::LIST, "late_{Value}"),
        };
        let (placement, partition) = match self.local {
            true => (Placement::SamePartition, ""),
            false => (Placement::OtherPartition, ELSEWHERE),
        };
        Ok(Index::keyed(INDEX, placement, partition, row)?.with_shape(shape))
    }

    /// The key of a list, summary or copy.
    fn at(&self, row: String) -> Result<Key> {
        Key::new(if self.local { "p" } else { ELSEWHERE }, row)
    }
}

const AGE: &str = "Age";
/// The prefix of the names of copied properties.
const COPIED: &str = "Of";
/// The partition of remote entries.
const ELSEWHERE: &str = "elsewhere";
/// The number of attempts of a writer.
const ATTEMPTS: usize = 2;
/// All values, and all entities.
const VALUES: [&str; 4] = ["a", "b", "c", "d"];
const IDS: [&str; 5] = ["v", "w", "x", "y", "z"];

/// The key of an entity. It is long: three references exceed a row's list. All entities are in one partition, so that
/// a group can write several.
fn key(id: &str) -> Key {
    Key::new("p", format!("{id}{}", "_".repeat(100))).unwrap()
}

/// The age depends on the mark: the sum of another version is another sum.
fn entity(id: &str, value: &str, mark: &str) -> Entity {
    let age = mark
        .bytes()
        .fold(1, |age: i32, byte| age * 7 + i32::from(byte - b'.'));
    Entity::from(key(id))
        .with(VALUE, value)
        .with(MARK, mark)
        .with(AGE, age)
}

/// The table, its index, the queue, and the answers of the writers.
#[derive(Clone)]
struct ShapeModel {
    scene: ShapeScene,
    scheduler: Scheduler,
    store: MemoryStore,
    blobs: Arc<InMemory>,
    messages: Messages,
    acknowledgements: Acknowledgements,
}

/// The handles that the tasks of one process share.
#[derive(Clone)]
struct Process {
    people: IndexedEntities,
    queue: Arc<ScheduledQueue>,
}

impl ShapeModel {
    async fn new(scheduler: &Scheduler, scene: ShapeScene) -> Result<Self> {
        let (store, scheduler) = (MemoryStore::new(), scheduler.clone());
        store.create_table(&table("People")).await?;
        store.create_table(&table("Late")).await?;
        let (blobs, messages, acknowledgements) = (
            Arc::default(),
            Messages::default(),
            Acknowledgements::default(),
        );
        let model = Self {
            scene,
            scheduler,
            store,
            blobs,
            messages,
            acknowledgements,
        };
        let indexes = if scene.upkeep == Upkeep::Build {
            Vec::new()
        } else {
            vec![scene.index()?]
        };
        let unscheduled_process = model.unscheduled_process(indexes).await?;
        if scene.form == Form::Copy {
            for (id, value) in IDS
                .into_iter()
                .flat_map(|id| VALUES.map(|value| (id, value)))
            {
                unscheduled_process
                    .insert(Entity::from(model.target(id, value)?))
                    .await?;
            }
        }
        for (id, value) in scene.start {
            unscheduled_process.insert(entity(id, value, "0.0")).await?;
        }
        Ok(model)
    }

    fn target(&self, id: &str, value: &str) -> Result<Key> {
        self.scene.at(format!("late_{value}_{}", key(id).row()))
    }

    fn options(&self) -> Result<IndexOptions> {
        let timing = Timing::new(LEASE, CLIENT, SERVER)?;
        Ok(IndexOptions {
            timing,
            cache: self.scene.cache,
            acknowledge: self.scene.acknowledge,
            ..IndexOptions::local().with_clearing(crate::patterns::journal::Clearing::BeforeAnswer)
        })
    }

    /// A process whose requests run at once.
    async fn unscheduled_process(&self, indexes: Vec<Index>) -> Result<IndexedEntities> {
        let mut options = self.options()?;
        options.acknowledge = Acknowledge::Applied;
        options.blobs = Some(self.blobs.clone());
        IndexedEntities::open(
            Arc::new(self.store.clone()),
            table("People"),
            indexes,
            options,
        )
        .await
    }

    /// A process whose requests wait for the scheduler; the current task is their sender.
    async fn process(&self) -> Result<Process> {
        let live = Arc::new(AtomicBool::new(false));
        let (scheduler, blobs) = (self.scheduler.clone(), self.blobs.clone());
        let mut options = self.options()?;
        options.blobs = Some(Arc::new(ScheduledBlobs {
            blobs,
            scheduler: scheduler.clone(),
            live: live.clone(),
        }));
        let queue = Arc::new(ScheduledQueue::new(
            self.messages.clone(),
            Some(scheduler.clone()),
            CURRENT_TASK,
            true,
        ));
        options.queue = self.scene.queued.then(|| queue.clone() as _);
        let watched = if self.scene.form == Form::Unique {
            VALUE
        } else {
            UNWATCHED
        };
        let watched = (table("People"), watched);
        let store = self.store.clone();
        let store = ScheduledStore {
            context: StoreContext::new(&ServiceProfile::LOCAL),
            store,
            scheduler,
            task: CURRENT_TASK,
            watched,
            live: live.clone(),
            reads_only: false,
        };
        let indexes = vec![self.scene.index()?];
        let people =
            IndexedEntities::open(Arc::new(store), table("People"), indexes, options).await?;
        live.store(true, Ordering::SeqCst);
        Ok(Process { people, queue })
    }

    /// Reads the entities of a group and writes the group. Repeats that after a conflict.
    fn writer(
        &self,
        task: usize,
        process: Process,
        group: &'static [Write],
    ) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            if model.scene.writers_start > Duration::ZERO {
                sleep(model.scene.writers_start).await;
            }
            for attempt in 0..ATTEMPTS {
                let mark = format!("{}.{attempt}", task + 1);
                let Ok(changes) = changes(&process.people, group, &key, |id, value| {
                    entity(id, value, &mark)
                })
                .await
                else {
                    return;
                };
                if changes.is_empty() {
                    return;
                }
                let answer = process.people.write(&changes).await;
                model.acknowledgements.add(&model.scheduler, mark, &answer);
                if answer.is_ok() {
                    return;
                }
            }
        })
    }

    fn maintainer(&self, process: Process) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let done = model.maintain(&process.people).await;
            model
                .scheduler
                .note(|| format!("the maintenance ends with {done:?}"));
        })
    }

    async fn maintain(&self, people: &IndexedEntities) -> Result<()> {
        match self.scene.upkeep {
            Upkeep::Nothing => Ok(()),
            Upkeep::Build => people.build(INDEX)?.run().await.map(drop),
            Upkeep::Scrub => people.scrub(INDEX, ScrubMode::Repair).await.map(drop),
            Upkeep::Sweep => people
                .journal()
                .sweep(&[table("Late")], Duration::ZERO)
                .await
                .map(drop),
            Upkeep::Collect => people.collect_blobs(INDEX).await.map(drop),
        }
    }

    /// Processes tickets twice, a lease apart.
    fn worker(&self, process: Process) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for round in 0..2 {
                if round > 0 {
                    sleep(LEASE).await;
                }
                let _lost = Recovery::new(&*process.queue, vec![process.people.journal()])
                    .run_once(8)
                    .await;
            }
        })
    }

    /// Runs workers and sweeps. Returns the violation, if there is one.
    fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let model = self.clone();
        Box::pin(async move { Ok(model.judge().await?.err()) })
    }

    async fn judge(&self) -> Result<Verdict> {
        let people = self.unscheduled_process(vec![self.scene.index()?]).await?;
        people.refresh().await?;
        if people.state(INDEX) != IndexState::Readable {
            people.build(INDEX)?.run().await?;
        }
        if self.scene.queued {
            run_workers(&self.messages, people.journal()).await?;
            if let Err(wrong) = self.check(&people, Phase::Worked).await? {
                return Ok(Err(format!("after the workers: {wrong}")));
            }
        }
        // The first sweep inserts abort rows to release reservations. The second one removes them.
        for _ in 0..2 {
            people
                .journal()
                .sweep(&[table("Late")], Duration::ZERO)
                .await?;
        }
        people.collect_blobs(INDEX).await?;
        if let Err(wrong) = self.check(&people, Phase::Swept).await? {
            return Ok(Err(wrong));
        }
        Ok(self.acknowledgements.check(&self.scheduler))
    }

    async fn check(&self, people: &IndexedEntities, phase: Phase) -> Result<Verdict> {
        let mut final_state = FinalState::read(
            &self.store,
            &table("People"),
            &["Late"],
            &self.messages,
            phase,
        )
        .await?;
        if let Err(wrong) = final_state.check_evidence() {
            return Ok(Err(wrong));
        }
        if matches!(self.scene.form, Form::Rows | Form::Unique) {
            let index = self.scene.index()?;
            let derive = |entity: &Entity| index.entries(&table("People"), entity);
            return final_state
                .check_entries(&self.store, &table("People"), derive)
                .await;
        }
        let targets: Vec<_> = final_state
            .entities
            .extract_if(.., |e| e.get(VALUE).is_none())
            .collect();
        let mut wanted: BTreeMap<&str, Vec<&Entity>> = BTreeMap::new();
        for entity in &final_state.entities {
            if let Some(ValueRef::String(value)) = entity.get(VALUE) {
                wanted.entry(value).or_default().push(entity);
            }
        }
        if self.scene.form == Form::Copy {
            return self.check_copies(&targets, &wanted);
        }
        for value in VALUES {
            let wanted = wanted.get(value).cloned().unwrap_or_default();
            if let Err(wrong) = self.check_value(people, value, &wanted).await? {
                return Ok(Err(wrong));
            }
        }
        if let Err(wrong) = self.check_rows(final_state.rows(), wanted.len()) {
            return Ok(Err(wrong));
        }
        if phase == Phase::Swept {
            self.check_blobs(final_state.rows()).await
        } else {
            Ok(Ok(()))
        }
    }

    /// Checks the list or the summary of a value.
    async fn check_value(
        &self,
        people: &IndexedEntities,
        value: &str,
        wanted: &[&Entity],
    ) -> Result<Verdict> {
        let at = self.scene.at(format!("late_{value}"))?;
        if self.scene.form == Form::Summary {
            let ages = wanted.iter().map(|entity| match entity.get(AGE) {
                Some(ValueRef::Int32(age)) => i64::from(age),
                _ => 0,
            });
            let (count, sum) = (wanted.len() as i64, ages.sum::<i64>());
            let found = people.summary(INDEX, &at).await?;
            let held = (
                found.count,
                found.sums.get(AGE).copied().unwrap_or_default(),
            );
            let right = held == (count, sum);
            return Ok(if right {
                Ok(())
            } else {
                Err(format!(
                    "the summary of {value} is {held:?}, expected ({count}, {sum})"
                ))
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
            Err(format!(
                "the list of {value} has {found:?}, expected {keys:?}"
            ))
        })
    }

    /// Checks that there is one row for each value, and that every chunk is in a list.
    fn check_rows(
        &self,
        rows: &[(crate::patterns::index::Location, Entity)],
        values: usize,
    ) -> Verdict {
        let (chunks, heads): (Vec<_>, Vec<_>) = rows
            .iter()
            .map(|(_, row)| row)
            .partition(|row| is_chunk(row));
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

    /// Checks that the blob store has exactly the blobs that rows name.
    async fn check_blobs(
        &self,
        rows: &[(crate::patterns::index::Location, Entity)],
    ) -> Result<Verdict> {
        let named = rows.iter().filter_map(|(_, row)| match ListRow::read(row) {
            Ok(ListRow::Blob(name)) => Some(name),
            _ => None,
        });
        let named: BTreeSet<_> = named.collect();
        let blobs: Vec<_> = self
            .blobs
            .list(None)
            .try_collect()
            .await
            .expect("blobs in memory");
        let there: BTreeSet<_> = blobs
            .into_iter()
            .map(|blob| blob.location.to_string())
            .collect();
        Ok(if named == there {
            Ok(())
        } else {
            Err(format!(
                "rows name the blobs {named:?}, and the blob store has {there:?}"
            ))
        })
    }

    fn check_copies(
        &self,
        targets: &[Entity],
        wanted: &BTreeMap<&str, Vec<&Entity>>,
    ) -> Result<Verdict> {
        let mut copied = BTreeMap::new();
        for (value, entities) in wanted {
            for entity in entities {
                let at = self
                    .scene
                    .at(format!("late_{value}_{}", entity.key().row()))?;
                copied.insert(at, *entity);
            }
        }
        for target in targets {
            let owner = copied.remove(target.key());
            for name in [VALUE, MARK] {
                let (found, held) = (
                    target.get(&format!("{COPIED}{name}")),
                    owner.and_then(|e| e.get(name)),
                );
                if found != held {
                    return Ok(Err(format!(
                        "{} has the copy {found:?}, expected {held:?}",
                        target.key()
                    )));
                }
            }
            let stray = format!("{COPIED}{}", Entry::OWNER_ROW);
            if owner.is_none() && target.get(&stray).is_some() {
                return Ok(Err(format!(
                    "{} has no copy and names an owner",
                    target.key()
                )));
            }
        }
        Ok(copied.pop_first().map_or(Ok(()), |(at, _)| {
            Err(format!("the target {at} of a copy is missing"))
        }))
    }
}
