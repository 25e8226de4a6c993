//! Scenes of two programs that open one table. The second program declares one more index than the first, which
//! writes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::store::{Result, ServiceProfile, StoreContext, TableStore};
use tokio::time::sleep;

use super::acknowledgements::Acknowledgements;
use super::chooser::{Bounds, Choose, Random, Systematic};
use super::explorer::{Explored, Schedule, explore};
use super::final_state::{FinalState, Phase, Verdict};
use super::journal_model::{CLIENT, LEASE, SERVER};
use super::journal_scene::Write;
use super::maintenance::FAULT;
use super::scheduled_queue::Messages;
use super::scheduled_store::{MARK, ScheduledStore};
use super::scheduler::Scheduler;
use crate::patterns::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
use crate::patterns::journal::Timing;

/// The indexes of the writer and of the opener.
const KNOWN: [&str; 1] = ["Known"];
const MORE: [&str; 2] = ["Known", "More"];
const VALUE: &str = "Value";

/// The state of the table, and the actions of the writer and the opener.
#[derive(Clone, Copy, Debug)]
struct OpenScene {
    /// Whether the table exists with the writer's index and an entity.
    founded: bool,
    /// Whether the opener builds its additional index.
    builds: bool,
    /// The time at which the writer writes; it has opened the table before.
    writers_start: Duration,
    writes: &'static [Write],
}

const NEW: OpenScene = OpenScene {
    founded: false,
    builds: false,
    writers_start: Duration::ZERO,
    writes: &[("x", Some("b"))],
};
const OLD: OpenScene = OpenScene {
    founded: true,
    ..NEW
};

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

/// The opener's index has its entries in a table of the same name. The writer's index does not: each reader of the manifest would read
/// the consents of two tables at the same time, in every order.
fn index(name: &'static str) -> Index {
    let placement = if KNOWN.contains(&name) {
        Placement::OtherPartition
    } else {
        Placement::OtherTable(table(name))
    };
    Index::new(name, placement, "1", |e| {
        let Some(ValueRef::String(value)) = e.get(VALUE) else {
            return Ok(None);
        };
        Key::new(value, e.key().row()).map(Some)
    })
}

fn entity(id: &str, value: &str) -> Entity {
    Entity::new("p", id).unwrap().with(VALUE, value)
}

#[derive(Clone)]
struct OpenModel {
    scene: OpenScene,
    scheduler: Scheduler,
    store: MemoryStore,
    acknowledgements: Acknowledgements,
}

impl OpenModel {
    async fn new(scheduler: &Scheduler, scene: OpenScene) -> Result<Self> {
        let model = Self {
            scene,
            scheduler: scheduler.clone(),
            store: MemoryStore::new(),
            acknowledgements: Acknowledgements::default(),
        };
        for name in ["People", "More"] {
            model.store.create_table(&table(name)).await?;
        }
        if scene.founded {
            model
                .open(None, &KNOWN)
                .await?
                .insert(entity("x", "a"))
                .await?;
        }
        Ok(model)
    }

    /// A process. With a task, all its requests wait for the scheduler, including the requests that open the table.
    async fn open(&self, task: Option<usize>, indexes: &[&'static str]) -> Result<IndexedEntities> {
        let mut options =
            IndexOptions::local().with_clearing(crate::patterns::journal::Clearing::BeforeAnswer);
        options.timing = Timing::new(LEASE, CLIENT, SERVER)?;
        let store: Arc<dyn TableStore> = match task {
            None => Arc::new(self.store.clone()),
            Some(task) => Arc::new(ScheduledStore {
                context: StoreContext::new(&ServiceProfile::LOCAL),
                store: self.store.clone(),
                scheduler: self.scheduler.clone(),
                task,
                watched: (table("People"), "none"),
                live: Arc::new(true.into()),
                reads_only: false,
            }),
        };
        let indexes = indexes.iter().map(|name| index(name)).collect();
        IndexedEntities::open(store, table("People"), indexes, options).await
    }

    fn writer(&self, task: usize) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let Ok(people) = model.open(Some(task), &KNOWN).await else {
                return;
            };
            if model.scene.writers_start > Duration::ZERO {
                sleep(model.scene.writers_start).await;
            }
            for (n, (id, value)) in model.scene.writes.iter().enumerate() {
                let mark = n.to_string();
                let Ok(key) = Key::new("p", *id) else { return };
                let Ok(old) = people.get(&key).await else {
                    return;
                };
                let answer = match (old, value) {
                    (None, None) => continue,
                    (None, Some(value)) => {
                        people
                            .insert(entity(id, value).with(MARK, mark.as_str()))
                            .await
                    }
                    (Some(old), None) => people.delete(&old).await,
                    (Some(old), Some(value)) => {
                        people
                            .replace(&old, entity(id, value).with(MARK, mark.as_str()))
                            .await
                    }
                };
                model.acknowledgements.add(&model.scheduler, mark, &answer);
            }
        })
    }

    /// The task that opens the table and, in some scenes, builds the index.
    fn opener(&self, task: usize) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let Ok(people) = model.open(Some(task), &MORE).await else {
                return;
            };
            if model.scene.builds && people.state("More") != IndexState::Readable {
                let built = async { people.build("More")?.run().await };
                let built = built.await;
                model
                    .scheduler
                    .note(|| format!("task {task} ends with {built:?}"));
            }
        })
    }

    fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let model = self.clone();
        Box::pin(async move { Ok(model.judge().await?.err()) })
    }

    /// Checks every readable index, before and after the missing one is built.
    async fn judge(&self) -> Result<Verdict> {
        let people = self.open(None, &MORE).await?;
        for _ in 0..2 {
            people.journal().sweep(&[], Duration::ZERO).await?;
        }
        if let Err(wrong) = self.acknowledgements.check(&self.scheduler) {
            return Ok(Err(wrong));
        }
        people.refresh().await?;
        let readable = people.state("More") == IndexState::Readable;
        if readable && let Err(wrong) = self.in_step(&MORE).await? {
            return Ok(Err(format!("{wrong}, and the index is readable")));
        }
        if !readable {
            people.build("More")?.run().await?;
        }
        people.refresh().await?;
        let states = MORE.map(|name| people.state(name));
        if states != [IndexState::Readable; 2] {
            return Ok(Err(format!("the indexes are {states:?}")));
        }
        self.in_step(&MORE).await
    }

    async fn in_step(&self, indexes: &[&'static str]) -> Result<Verdict> {
        let people = table("People");
        let final_state = FinalState::read(
            &self.store,
            &people,
            &["More"],
            &Messages::default(),
            Phase::Swept,
        )
        .await?;
        if let Err(wrong) = final_state.check_evidence() {
            return Ok(Err(wrong));
        }
        let derive = |entity: &Entity| {
            let entries = indexes
                .iter()
                .map(|name| index(name).entries(&people, entity));
            Ok(entries.collect::<Result<Vec<_>>>()?.concat())
        };
        final_state
            .check_entries(&self.store, &people, derive)
            .await
    }
}

impl OpenScene {
    fn explore(self, chooser: impl Choose) -> Explored {
        explore(chooser, None, &async |scheduler: &Scheduler| {
            let model = OpenModel::new(scheduler, self).await?;
            Ok(Schedule {
                tasks: vec![model.writer(0), model.opener(1)],
                verdict: model.verdict(),
            })
        })
    }

    /// Explores with writers that start at each time at which the build acts.
    fn at_all_moments(self, scene: &str, bounds: Bounds) {
        let moments = [0, 200, 400, 600].map(Duration::from_millis);
        let explored = moments.map(|writers_start| {
            Self {
                writers_start,
                ..self
            }
            .explore(Systematic::new(bounds))
        });
        Explored::sum(explored).assert_no_violation(scene);
    }
}

#[test]
fn an_opener_with_one_more_index_and_a_writer() {
    let orders = Bounds::all_orders().switching(3);
    let name = "an opener with one more index, and a writer";
    Explored::sum([NEW, OLD].map(|scene| scene.explore(Systematic::new(orders))))
        .assert_no_violation(name);
    let name = "an opener with one more index, a writer and a fault";
    Explored::sum([NEW, OLD].map(|scene| scene.explore(Systematic::new(FAULT))))
        .assert_no_violation(name);
}

#[test]
fn an_opener_that_builds_and_a_writer() {
    let name = "an opener that builds one more index, and a writer";
    OpenScene {
        builds: true,
        ..NEW
    }
    .at_all_moments(
        &format!("{name}, in a new table"),
        Bounds::all_orders().switching(2),
    );
    OpenScene {
        builds: true,
        ..OLD
    }
    .at_all_moments(name, Bounds::all_orders().switching(2));
    let name = "an opener that builds one more index, a writer and a fault";
    OpenScene {
        builds: true,
        ..OLD
    }
    .at_all_moments(name, FAULT.switching(0));
}

#[test]
fn openers_at_random() {
    const WRITES: &[Write] = &[("x", Some("b")), ("y", Some("c")), ("x", None)];
    for (scene, name) in [
        (NEW, "an opener and a busy writer in a new table"),
        (OLD, "an opener and a busy writer"),
    ] {
        let busy = OpenScene {
            builds: true,
            writes: WRITES,
            ..scene
        };
        busy.explore(Random::new(
            Bounds::all_orders().with_faults(2, FAULT.kinds),
            1,
            200,
        ))
        .assert_no_violation(name);
    }
}
