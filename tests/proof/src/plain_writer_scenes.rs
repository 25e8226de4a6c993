//! Scenes of a build of the first index of a table and a program that writes plain rows. That program is not registered. It learns that
//! there is an index when it reads the manifest again. Then its writes are refused; those of a [`Table`](crate::patterns::Table) register
//! the program, read the manifest once more, and maintain the index. The first index may be a change feed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::{Result, ServiceProfile, StoreContext};
use table_core::typed::PlainTable;
use tokio::time::sleep;

use super::Invariant;
use super::chooser::{Bounds, Systematic};
use super::explorer::{Explored, Schedule, explore};
use super::feed_model::{Beginning, check_changes, feed};
use super::final_state::{FinalState, Phase, Verdict};
use super::ids::allow_plain_writers;
use super::journal_model::{CLIENT, LEASE, SERVER};
use super::scheduled_queue::Messages;
use super::scheduled_store::{ScheduledStore, UNWATCHED};
use super::scheduler::{Action, Scheduler};
use crate::patterns::Database;
use crate::patterns::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
use crate::patterns::journal::Timing;

const VALUE: &str = "Value";

/// The entities as the program of plain rows knows them.
#[derive(Clone, Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Person {
    #[partition_key]
    place: String,
    #[row_key]
    id: String,
    value: String,
}

#[derive(Clone, Copy, Debug)]
struct PlainWriterScene {
    /// The time between the two writes of the plain writer. It reads the manifest for the first.
    second_write_after: Duration,
    /// Whether the index is a change feed.
    feed: bool,
    /// Whether the plain writer maintains the index when it knows it.
    maintains: bool,
    /// Whether the writer may die: sweeps then finish its writes before the index is judged.
    sweeps: bool,
    omitted: Option<Invariant>,
}

fn people() -> TableName {
    TableName::new("People").unwrap()
}

fn first_index(is_feed: bool) -> Index {
    if is_feed {
        return feed();
    }
    let placement = Placement::OtherTable(TableName::new("More").unwrap());
    Index::keyed("more", placement, "{Value}", "{RowKey}").unwrap()
}

fn person(id: &str, value: &str) -> Entity {
    Entity::from(Key::new("p", id).unwrap()).with(VALUE, value)
}

#[derive(Clone)]
struct PlainWriterModel {
    scene: PlainWriterScene,
    scheduler: Scheduler,
    store: MemoryStore,
}

impl PlainWriterModel {
    async fn new(scheduler: &Scheduler, scene: PlainWriterScene) -> Result<Self> {
        allow_plain_writers();
        let model = Self {
            scene,
            scheduler: scheduler.clone(),
            store: MemoryStore::new(),
        };
        for name in ["People", "More"] {
            model.store.create_table(&TableName::new(name)?).await?;
        }
        for id in ["x", "y"] {
            model
                .store
                .write(&people(), Operation::Insert(person(id, "a")))
                .await?;
        }
        if scene.feed {
            scheduler.keep_history();
            scheduler.observe(&model.store.query_all(&people(), &Query::new()).await?);
        }
        Ok(model)
    }

    fn connect(&self, task: usize, live: bool) -> ScheduledStore {
        ScheduledStore {
            context: StoreContext::new(&ServiceProfile::LOCAL),
            store: self.store.clone(),
            scheduler: self.scheduler.clone(),
            task,
            watched: (people(), UNWATCHED),
            live: Arc::new(AtomicBool::new(live)),
            reads_only: false,
        }
    }

    fn index(&self) -> Index {
        first_index(self.scene.feed)
    }

    fn options() -> Result<IndexOptions> {
        let mut options =
            IndexOptions::local().with_clearing(crate::patterns::journal::Clearing::BeforeAnswer);
        options.timing = Timing::new(LEASE, CLIENT, SERVER)?;
        Ok(options)
    }

    async fn open(&self, task: usize, live: bool) -> Result<IndexedEntities> {
        let store = Arc::new(self.connect(task, live));
        let indexes = vec![self.index()];
        IndexedEntities::open(store, people(), indexes, Self::options()?).await
    }

    fn writer(&self, task: usize) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let store = Arc::new(model.connect(task, true));
            let plain = PlainTable::<Person>::new(store.clone(), people()).unwrap();
            let db = Database::with_options(store, Self::options().unwrap());
            let table = db.table::<Person>(people()).unwrap();
            for (id, pause) in [("x", Duration::ZERO), ("y", model.scene.second_write_after)] {
                if pause > Duration::ZERO {
                    sleep(pause).await;
                }
                let person = Person {
                    place: "p".to_owned(),
                    id: id.to_owned(),
                    value: "b".to_owned(),
                };
                let written = if model.scene.maintains {
                    table.upsert(&person).await
                } else {
                    plain.upsert(&person).await
                };
                model
                    .scheduler
                    .note(|| format!("task {task} ends the write of {id} with {written:?}"));
            }
        })
    }

    fn builder(&self, task: usize) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let Ok(people) = model.open(task, true).await else {
                return;
            };
            let index = model.index();
            let built = async { people.build(index.name())?.run().await };
            let built = built.await;
            model
                .scheduler
                .note(|| format!("task {task} ends with {built:?}"));
        })
    }

    fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let model = self.clone();
        Box::pin(async move { Ok(model.judge().await?.err()) })
    }

    /// Checks that the index is complete as soon as it is readable.
    async fn judge(&self) -> Result<Verdict> {
        let judge = self.open(0, false).await?;
        // The first sweep finishes the writes, the second removes abort rows.
        for _ in 0..if self.scene.sweeps { 2 } else { 0 } {
            judge.journal().sweep(&[], Duration::ZERO).await?;
        }
        judge.refresh().await?;
        let index = self.index();
        if judge.state(index.name()) == IndexState::Readable
            && let Err(wrong) = self.check_entries().await?
        {
            return Ok(Err(format!("{wrong}, and the index is readable")));
        }
        judge.build(index.name())?.run().await?;
        self.check_entries().await
    }

    async fn check_entries(&self) -> Result<Verdict> {
        let messages = Messages::default();
        let final_state =
            FinalState::read(&self.store, &people(), &["More"], &messages, Phase::Swept).await?;
        if let Err(wrong) = final_state.check_evidence() {
            return Ok(Err(wrong));
        }
        if self.scene.feed {
            return check_changes(&self.store, &self.scheduler, "p", Beginning::Built).await;
        }
        final_state
            .check_entries(&self.store, &people(), |entity| {
                self.index().entries(&people(), entity)
            })
            .await
    }
}

impl PlainWriterScene {
    const fn second_write_after(millis: u64) -> Self {
        Self {
            second_write_after: Duration::from_millis(millis),
            feed: false,
            maintains: false,
            sweeps: false,
            omitted: None,
        }
    }

    const fn maintaining(self) -> Self {
        Self {
            maintains: true,
            ..self
        }
    }

    const fn of_feed(self) -> Self {
        Self { feed: true, ..self }
    }

    fn explore(self, bounds: Bounds) -> Explored {
        explore(
            Systematic::new(bounds),
            self.omitted,
            &async |scheduler: &Scheduler| {
                let model = PlainWriterModel::new(scheduler, self).await?;
                Ok(Schedule {
                    tasks: vec![model.writer(0), model.builder(1)],
                    verdict: model.verdict(),
                })
            },
        )
    }
}

const ALL: Bounds = Bounds::all_orders();
/// The plain writer dies, loses an answer, or pauses.
const FAULTS: &[Action] = &[
    Action::CrashAfter,
    Action::LoseAnswer,
    Action::Late,
    Action::Pause(Duration::from_millis(850)),
    Action::Pause(Duration::from_secs(29)),
];

#[test]
fn the_build_of_a_first_index_waits_for_plain_writers() {
    let times = [0, 200, 400, 600, 1000, 29_900, 30_100, 90_000];
    let scenes =
        times.map(|time| PlainWriterScene::second_write_after(time).explore(ALL.switching(2)));
    Explored::sum(scenes).assert_no_violation("a build of a first index and a plain writer");
    let faults = ALL.switching(0).sparing_from(1).with_faults(1, FAULTS);
    let scenes = times.map(|time| PlainWriterScene::second_write_after(time).explore(faults));
    Explored::sum(scenes)
        .assert_no_violation("a build of a first index, a plain writer and a fault");
}

#[test]
fn a_plain_writer_becomes_a_maintainer() {
    let times = [0, 400, 1000, 29_900, 30_100, 90_000];
    let scene = |time| PlainWriterScene::second_write_after(time).maintaining();
    let scenes = times.map(|time| scene(time).explore(ALL.switching(2)));
    Explored::sum(scenes)
        .assert_no_violation("a build of a first index and a writer that comes to maintain it");
    let faults = ALL.switching(0).sparing_from(1).with_faults(1, FAULTS);
    let swept = |time| PlainWriterScene {
        sweeps: true,
        ..scene(time)
    };
    let scenes = times.map(|time| swept(time).explore(faults));
    Explored::sum(scenes).assert_no_violation(
        "a build of a first index, a writer that comes to maintain it, and a fault",
    );
}

/// After the build of a feed, every write has its change.
#[test]
fn the_build_of_a_feed_waits_for_plain_writers() {
    let times = [0, 400, 1000, 29_900, 30_100, 90_000];
    let scene = |time| PlainWriterScene::second_write_after(time).of_feed();
    let scenes = times.map(|time| scene(time).explore(ALL.switching(2)));
    Explored::sum(scenes).assert_no_violation("a build of a feed and a plain writer");
    let scenes = times.map(|time| scene(time).maintaining().explore(ALL.switching(2)));
    Explored::sum(scenes)
        .assert_no_violation("a build of a feed and a writer that comes to record its changes");
    let faults = ALL.switching(0).sparing_from(1).with_faults(1, FAULTS);
    let scenes = times.map(|time| scene(time).explore(faults));
    Explored::sum(scenes).assert_no_violation("a build of a feed, a plain writer and a fault");
}

#[test]
fn the_wait_for_plain_writers_is_needed() {
    let invariant = Invariant::WaitForPlainWriters;
    let scene = PlainWriterScene {
        omitted: Some(invariant),
        ..PlainWriterScene::second_write_after(1000)
    };
    for scene in [scene, scene.of_feed()] {
        scene
            .explore(ALL.switching(1))
            .assert_violation_without(invariant);
    }
}
