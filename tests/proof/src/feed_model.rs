//! The model of a table with a change feed: its writers and moves, a consumer that trims, a build or a drop of the feed, and workers.
//! The changes are compared with the [history](super::history) of the entities.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::manifest::{Discriminator, IndexDefinition};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, FEED_COUNTER, Key, PartitionKey};
use table_core::query::Query;
use table_core::store::{
    Error, ErrorKind, Result, ServiceProfile, StoreContext, TableStore, TableStoreExt,
};
use tokio::time::sleep;

use super::Invariant;
use super::acknowledgements::Acknowledgements;
use super::chooser::Choose;
use super::explorer::{Explored, Schedule, explore};
use super::final_state::{FinalState, Phase, Verdict};
use super::history::Effect;
use super::ids::CURRENT_TASK;
use super::index_model::{VALUE, changes, index, table};
use super::index_scene::EntryKind;
use super::journal_model::{CLIENT, LEASE, SERVER};
use super::journal_scene::Write;
use super::scheduled_queue::{Messages, ScheduledQueue, run_workers};
use super::scheduled_store::{MARK, ScheduledStore, UNWATCHED, mark_of_move};
use super::scheduler::Scheduler;
use crate::patterns::changes::{Change, ChangeHandler, ChangeKind, Changes};
use crate::patterns::consistency::entry::shared::feed::Counter;
use crate::patterns::index::{Index, IndexOptions, IndexState, IndexedEntities};
use crate::patterns::journal::{Clearing, Recovery, Timing};

/// The work on the feed while writers continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedUpkeep {
    Nothing,
    /// A consumer handles changes, and they are trimmed.
    Trim,
    /// The feed is absent and is built.
    Build,
    Drop,
    /// One process drops the feed, and another one builds it after this time.
    Rebuild(Duration),
}

/// Writers, moves, work on the feed, and workers of a table with a feed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FeedScene {
    /// The remote entries of the entities. With them, a write has a journal row.
    pub(super) remote: Option<EntryKind>,
    pub(super) start: &'static [(&'static str, &'static str)],
    /// The writes of each writer, one after the other.
    pub(super) writers: &'static [&'static [Write]],
    /// The moves: source and target.
    pub(super) moves: &'static [(&'static str, &'static str)],
    /// The process of each writer, mover, task of the upkeep and worker, in this order. A task without a number is a process of its own.
    pub(super) processes: &'static [usize],
    /// The start of the writers.
    pub(super) writers_start: Duration,
    pub(super) upkeep: FeedUpkeep,
    pub(super) workers: usize,
    /// Whether no writer may fail: each entity has one writer, and there are no faults.
    pub(super) succeeds: bool,
    pub(super) omitted: Option<Invariant>,
}

impl FeedScene {
    pub(super) const fn new(
        remote: Option<EntryKind>,
        start: &'static [(&'static str, &'static str)],
        writers: &'static [&'static [Write]],
    ) -> Self {
        Self {
            remote,
            start,
            writers,
            moves: &[],
            processes: &[],
            writers_start: Duration::ZERO,
            upkeep: FeedUpkeep::Nothing,
            workers: 0,
            succeeds: false,
            omitted: None,
        }
    }

    pub(super) const fn moving(self, moves: &'static [(&'static str, &'static str)]) -> Self {
        Self { moves, ..self }
    }

    /// Sets the processes of the tasks.
    pub(super) const fn in_processes(self, processes: &'static [usize]) -> Self {
        Self { processes, ..self }
    }

    pub(super) const fn with(self, upkeep: FeedUpkeep) -> Self {
        Self { upkeep, ..self }
    }

    pub(super) const fn writers_start_at(self, writers_start: Duration) -> Self {
        Self {
            writers_start,
            ..self
        }
    }

    /// Adds a queue, and this number of workers.
    pub(super) const fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// An error of a writer is a violation.
    pub(super) const fn succeeding(self) -> Self {
        Self {
            succeeds: true,
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
            let model = FeedModel::new(scheduler, *self).await?;
            let upkeep = match self.upkeep {
                FeedUpkeep::Nothing => 0,
                FeedUpkeep::Rebuild(_) => 2,
                _ => 1,
            };
            let tasks = self.writers.len() + self.moves.len() + upkeep + self.workers;
            let own = |task: usize| self.processes.get(task).copied().unwrap_or(1_000 + task);
            let processes: Vec<_> = (0..tasks).map(own).collect();
            scheduler.share(processes.clone());
            let mut handles = BTreeMap::new();
            for process in &processes {
                if !handles.contains_key(process) {
                    handles.insert(*process, model.process(true).await?);
                }
            }
            let handle = |task: usize| handles[&processes[task]].clone();
            let mut all: Vec<BoxFuture<'static, ()>> = Vec::with_capacity(tasks);
            for writes in self.writers {
                all.push(model.writer(all.len(), handle(all.len()), writes));
            }
            for (from, to) in self.moves {
                all.push(model.mover(all.len(), handle(all.len()), from, to));
            }
            for number in 0..upkeep {
                all.push(model.maintainer(handle(all.len()), number));
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

    const fn is_queued(&self) -> bool {
        self.workers > 0
    }
}

/// The name of the feed.
const FEED: &str = "changes";
/// The partitions of the entities.
const PARTITIONS: [&str; 2] = ["p", "q"];
/// The number of attempts of a writer.
const ATTEMPTS: usize = 2;
/// The entity that is written last of all.
const LAST: &str = "last";

/// The key of an entity. The entity `d` is in another partition than all others.
fn key(id: &str) -> Key {
    let partition = if id == "d" { "q" } else { "p" };
    Key::new(partition, id).unwrap()
}

fn entity(id: &str, value: &str, mark: &str) -> Entity {
    Entity::from(key(id)).with(VALUE, value).with(MARK, mark)
}

pub(super) fn feed() -> Index {
    Index::without_entries(IndexDefinition::feed("Person".into(), Discriminator::None))
}

/// The changes that a consumer got.
#[derive(Clone, Debug, Default)]
struct Handled(Arc<Mutex<Vec<Change>>>);

#[async_trait]
impl ChangeHandler for Handled {
    async fn handle(&self, change: &Change) -> Result<()> {
        self.0.lock().unwrap().push(change.clone());
        Ok(())
    }
}

/// The table, the queue, and the answers of the writers.
#[derive(Clone)]
struct FeedModel {
    scene: FeedScene,
    scheduler: Scheduler,
    store: MemoryStore,
    messages: Messages,
    acknowledgements: Acknowledgements,
    handled: Handled,
}

/// The handles that the tasks of one process share.
#[derive(Clone)]
struct Process {
    store: Arc<ScheduledStore>,
    people: IndexedEntities,
    queue: Arc<ScheduledQueue>,
}

impl FeedModel {
    async fn new(scheduler: &Scheduler, scene: FeedScene) -> Result<Self> {
        let (store, scheduler) = (MemoryStore::new(), scheduler.clone());
        store.create_table(&table("People")).await?;
        store.create_table(&table("Late")).await?;
        scheduler.keep_history();
        let model = Self {
            scene,
            scheduler,
            store,
            messages: Messages::default(),
            acknowledgements: Acknowledgements::default(),
            handled: Handled::default(),
        };
        let founder = match scene.upkeep {
            FeedUpkeep::Build => model.opened(model.indexes(), None, false).await?,
            _ => model.process(false).await?,
        };
        for (id, value) in scene.start {
            founder.people.insert(entity(id, value, "0.0")).await?;
        }
        if matches!(scene.upkeep, FeedUpkeep::Rebuild(_)) {
            model.deliver(&founder).await?;
        }
        Ok(model)
    }

    /// The indexes without the feed.
    fn indexes(&self) -> Vec<Index> {
        self.scene.remote.map(index).into_iter().collect()
    }

    /// A process that declares the feed, except while it is built or dropped: then it knows the feed by the manifest.
    async fn process(&self, is_scheduled: bool) -> Result<Process> {
        let is_known = match self.scene.upkeep {
            FeedUpkeep::Nothing | FeedUpkeep::Trim => true,
            FeedUpkeep::Build | FeedUpkeep::Drop | FeedUpkeep::Rebuild(_) => !is_scheduled,
        };
        let feed = is_known.then(feed);
        self.opened(self.indexes(), feed, is_scheduled).await
    }

    async fn opened(
        &self,
        mut indexes: Vec<Index>,
        feed: Option<Index>,
        is_scheduled: bool,
    ) -> Result<Process> {
        indexes.extend(feed);
        let live = Arc::new(AtomicBool::new(false));
        let scheduler = self.scheduler.clone();
        let queue = Arc::new(ScheduledQueue::new(
            self.messages.clone(),
            is_scheduled.then(|| scheduler.clone()),
            if is_scheduled {
                CURRENT_TASK
            } else {
                usize::MAX
            },
            is_scheduled,
        ));
        let options = IndexOptions {
            timing: Timing::new(LEASE, CLIENT, SERVER)?,
            cache: Duration::from_millis(100),
            queue: self.scene.is_queued().then(|| queue.clone() as _),
            ..IndexOptions::local().with_clearing(Clearing::BeforeAnswer)
        };
        let watched = match self.scene.remote {
            Some(EntryKind::Unique) => VALUE,
            _ => UNWATCHED,
        };
        let store = Arc::new(ScheduledStore {
            context: StoreContext::new(&ServiceProfile::LOCAL),
            store: self.store.clone(),
            scheduler,
            task: CURRENT_TASK,
            watched: (table("People"), watched),
            live: live.clone(),
            reads_only: false,
        });
        let shared: Arc<dyn TableStore> = store.clone();
        let people = IndexedEntities::open(shared, table("People"), indexes, options).await?;
        live.store(is_scheduled, Ordering::SeqCst);
        Ok(Process {
            store,
            people,
            queue,
        })
    }

    /// Reads and writes entities, one after the other. Repeats a write after an error.
    fn writer(
        &self,
        task: usize,
        process: Process,
        writes: &'static [Write],
    ) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            if model.scene.writers_start > Duration::ZERO {
                sleep(model.scene.writers_start).await;
            }
            for (n, write) in writes.iter().enumerate() {
                for attempt in 0..ATTEMPTS {
                    let mark = format!("{}.{n}.{attempt}", task + 1);
                    let Ok(changes) = changes(&process.people, &[*write], &key, |id, value| {
                        entity(id, value, &mark)
                    })
                    .await
                    else {
                        return;
                    };
                    if changes.is_empty() {
                        break;
                    }
                    let answer = process.people.write(&changes).await;
                    model.acknowledgements.add(&model.scheduler, mark, &answer);
                    match answer {
                        Ok(_) => break,
                        Err(error) => model.check_error(&error),
                    }
                }
            }
        })
    }

    /// Reports an error that no other process and no fault explains.
    fn check_error(&self, error: &Error) {
        let is_explained = error.is_conflict()
            || error.is_ambiguous()
            || error.is_transient()
            || matches!(error.kind(), ErrorKind::Service(_))
            || error.is_unique_violation();
        if self.scene.succeeds || !is_explained {
            self.scheduler
                .report_violation(format!("a write fails: {error}"));
        }
    }

    fn mover(
        &self,
        task: usize,
        process: Process,
        from: &'static str,
        to: &'static str,
    ) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let check =
                |there: &Entity| Err(Error::application(format!("{} is there", there.key())));
            let mover = process.people.journal().mover();
            let moved = mover.move_entity(&key(from), &key(to), &check).await;
            model
                .acknowledgements
                .add_move(&model.scheduler, mark_of_move(task), &moved);
        })
    }

    fn maintainer(&self, process: Process, number: usize) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let done = model.maintain(&process, number).await;
            model
                .scheduler
                .note(|| format!("the upkeep ends with {done:?}"));
        })
    }

    async fn maintain(&self, process: &Process, number: usize) -> Result<()> {
        match self.scene.upkeep {
            FeedUpkeep::Nothing => Ok(()),
            FeedUpkeep::Trim => {
                self.deliver(process).await?;
                let partition = PartitionKey::new(PARTITIONS[0])?;
                let trimmed = self.consumed(process).trim(&partition, &[CONSUMER]).await;
                trimmed.map(drop)
            }
            FeedUpkeep::Rebuild(after) if number > 0 => {
                sleep(after).await;
                self.build().await
            }
            FeedUpkeep::Build => self.build().await,
            FeedUpkeep::Drop | FeedUpkeep::Rebuild(_) => process.people.drop_index(FEED).await,
        }
    }

    /// Builds the feed, in the process of the current task.
    async fn build(&self) -> Result<()> {
        let process = self.opened(self.indexes(), Some(feed()), true).await?;
        process.people.build(FEED)?.run().await.map(drop)
    }

    fn consumed(&self, process: &Process) -> Changes {
        let store: Arc<dyn TableStore> = process.store.clone();
        Changes::new(store, table("People"))
    }

    /// Delivers the changes of the first partition.
    async fn deliver(&self, process: &Process) -> Result<()> {
        let consumer = self.consumed(process).consumer(CONSUMER);
        let partition = PartitionKey::new(PARTITIONS[0])?;
        consumer.deliver(&partition, &self.handled).await.map(drop)
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
        let judge = self.process(false).await?;
        if self.scene.is_queued() {
            run_workers(&self.messages, judge.people.journal()).await?;
            if let Err(wrong) = self.check_entries(Phase::Worked).await? {
                return Ok(Err(format!("after the workers: {wrong}")));
            }
        }
        // The first sweep inserts abort rows to release reservations. The second one removes them.
        for _ in 0..2 {
            judge
                .people
                .journal()
                .sweep(&[table("Late")], Duration::ZERO)
                .await?;
        }
        if let Err(wrong) = self.check_entries(Phase::Swept).await? {
            return Ok(Err(wrong));
        }
        if let Err(wrong) = self
            .check_moves()
            .and_then(|()| self.acknowledgements.check(&self.scheduler))
        {
            return Ok(Err(wrong));
        }
        judge.people.refresh().await?;
        if self.scene.upkeep == FeedUpkeep::Drop {
            return self.judge_drop(&judge).await;
        }
        let is_readable = judge.people.state(FEED) == IndexState::Readable;
        if is_readable && let Err(wrong) = self.check_feed(&judge).await? {
            return Ok(Err(format!("{wrong}, and the feed is readable")));
        }
        if !is_readable {
            if let FeedUpkeep::Rebuild(_) = self.scene.upkeep {
                judge.people.drop_index(FEED).await?;
            }
            judge.people.build(FEED)?.run().await?;
        }
        // After all that has happened, the feed goes on.
        judge.people.insert(entity(LAST, LAST, LAST)).await?;
        self.check_feed(&judge).await
    }

    async fn judge_drop(&self, judge: &Process) -> Result<Verdict> {
        if judge.people.state(FEED) != IndexState::Absent {
            judge.people.drop_index(FEED).await?;
        }
        judge.people.insert(entity(LAST, LAST, LAST)).await?;
        let rows = self
            .store
            .query_all(&table("People"), &Query::new())
            .await?;
        let left = rows.iter().find(|row| {
            let key = row.key();
            key.row().starts_with(FEED_COUNTER) || key.partition() == FEED_COUNTER
        });
        Ok(left.map_or(Ok(()), |row| {
            Err(format!("the row {} of a dropped feed is left", row.key()))
        }))
    }

    async fn check_entries(&self, phase: Phase) -> Result<Verdict> {
        let people = table("People");
        let final_state =
            FinalState::read(&self.store, &people, &["Late"], &self.messages, phase).await?;
        if let Err(wrong) = final_state.check_evidence() {
            return Ok(Err(wrong));
        }
        let index = self.scene.remote.map(index);
        let derive = |entity: &Entity| match &index {
            Some(index) => index.entries(&people, entity),
            None => Ok(Vec::new()),
        };
        final_state
            .check_entries(&self.store, &people, derive)
            .await
    }

    /// Checks the effects of one move without writers: one deletion and one insertion, or none.
    fn check_moves(&self) -> Verdict {
        let (&[(from, to)], []) = (self.scene.moves, self.scene.writers) else {
            return Ok(());
        };
        let effects_of = |id| {
            let effects = self.scheduler.effects_in(key(id).partition());
            let of_entity = effects.into_iter().filter(|effect| effect.key == key(id));
            of_entity.map(|effect| effect.kind).collect::<Vec<_>>()
        };
        let effects = (effects_of(from), effects_of(to));
        let inserted = ChangeKind::Inserted;
        let moved = (vec![inserted, ChangeKind::Deleted], vec![inserted]);
        let stayed = (vec![inserted], Vec::new());
        if effects == moved || effects == stayed {
            return Ok(());
        }
        Err(format!(
            "the source and the target of a move had {effects:?}"
        ))
    }

    /// Checks the changes of all partitions, and what the consumer gets.
    async fn check_feed(&self, judge: &Process) -> Result<Verdict> {
        let beginning = match self.scene.upkeep {
            FeedUpkeep::Nothing | FeedUpkeep::Drop => Beginning::Table,
            FeedUpkeep::Trim => Beginning::Trimmed,
            FeedUpkeep::Build | FeedUpkeep::Rebuild(_) => Beginning::Built,
        };
        for partition in PARTITIONS {
            let checked = check_changes(&self.store, &self.scheduler, partition, beginning);
            if let Err(wrong) = checked.await? {
                return Ok(Err(wrong));
            }
        }
        if let Err(error) = self.deliver(judge).await {
            return Ok(Err(format!("the consumer fails: {error}")));
        }
        Ok(self.check_handled())
    }

    /// Checks that the consumer got every change that the feed owes, in order. A handler can get a change again.
    fn check_handled(&self) -> Verdict {
        let handled = self.handled.0.lock().unwrap();
        let effects = self.scheduler.effects_in(PARTITIONS[0]);
        let mut left = handled.iter();
        let owed = effects.iter().filter(|effect| effect.is_owed);
        for effect in owed {
            if !left.any(|change| says(change, effect)) {
                let handled: Vec<_> = handled.iter().map(in_short).collect();
                return Err(format!(
                    "the consumer got {handled:?}, and misses {effect:?}"
                ));
            }
        }
        Ok(())
    }
}

/// The changes with which a feed begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// All changes of the table.
    Table,
    /// The first change that was not trimmed.
    Trimmed,
    /// The first change after the build: earlier effects may have no change.
    Built,
}

/// Compares the changes of a partition with the effects on its entities: their numbers have no gap, and they have the kinds, the keys and
/// the order of the effects.
pub(super) async fn check_changes(
    store: &MemoryStore,
    scheduler: &Scheduler,
    partition: &str,
    beginning: Beginning,
) -> Result<Verdict> {
    let effects = scheduler.effects_in(partition);
    let (mut changes, mut next) = (Vec::new(), 1);
    for row in store.query_all(&table("People"), &Query::new()).await? {
        let key = row.key();
        if key.partition() != partition || !key.row().starts_with(FEED_COUNTER) {
            continue;
        }
        match key.row() == FEED_COUNTER {
            true => next = Counter::read(&row).map(|counter| counter.next)?,
            false => changes.push(Change::read(&row)?),
        }
    }
    changes.sort_by_key(|change| change.number);
    Ok(compare(&effects, &changes, next, beginning).map_err(|wrong| {
        let changes: Vec<_> = changes.iter().map(in_short).collect();
        format!(
            "{wrong}: the partition {partition} has the changes {changes:?}, the next number {next}, and the effects {effects:?}"
        )
    }))
}

fn compare(effects: &[Effect], changes: &[Change], next: i64, beginning: Beginning) -> Verdict {
    let first = changes.first().map_or(next, |change| change.number);
    if !changes.iter().map(|change| change.number).eq(first..next) {
        return Err("the numbers have a gap".to_owned());
    }
    if beginning != Beginning::Trimmed && first != 1 {
        return Err("the first change is missing".to_owned());
    }
    let is_built = beginning == Beginning::Built;
    if !is_built && next != effects.len() as i64 + 1 {
        return Err(format!("there were {} effects", effects.len()));
    }
    // The changes end with those that the feed owes. Before them, there may be effects without a change.
    let owed = effects.iter().filter(|effect| effect.is_owed).count();
    let least = if is_built { owed } else { changes.len() };
    let mut last = changes.iter().rev().zip(effects.iter().rev()).take(least);
    if changes.len() < least || !last.all(|(change, effect)| says(change, effect)) {
        return Err("a change is missing, or differs from its effect".to_owned());
    }
    let mut earlier = effects[..effects.len() - least].iter();
    let mut unowed = changes[..changes.len() - least].iter();
    if !unowed.all(|change| earlier.any(|effect| says(change, effect))) {
        return Err("a change had no effect".to_owned());
    }
    Ok(())
}

/// The name of the consumer.
const CONSUMER: &str = "c";

fn says(change: &Change, effect: &Effect) -> bool {
    (&change.key, change.kind) == (&effect.key, effect.kind)
}

fn in_short(change: &Change) -> String {
    format!("{} {:?} {}", change.number, change.kind, change.key)
}
