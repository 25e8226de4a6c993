//! Scenes of a build and a process that caches index states 20 times as long. That process writes, pauses or dies. It
//! may pause until the build no longer waits for it, and then resume.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Query;
use table_core::store::{
    Result, ServiceProfile, StoreContext, TableStore as _, TableStoreExt as _,
};
use tokio::time::sleep;

use super::Invariant;
use super::acknowledgements::Acknowledgements;
use super::chooser::{Bounds, Systematic};
use super::explorer::{Explored, Schedule, explore};
use super::final_state::{FinalState, Phase, Verdict};
use super::journal_model::{CLIENT, LEASE, SERVER};
use super::scheduled_queue::Messages;
use super::scheduled_store::{MARK, ScheduledStore, UNWATCHED};
use super::scheduler::{Action, Scheduler};
use crate::patterns::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
use crate::patterns::journal::Timing;

const VALUE: &str = "Value";
/// The time for which the writer caches index states.
const CACHE: Duration = Duration::from_secs(2);
/// The time after which a registration without heartbeat expires: 20 caches, one cache and one request, and a margin.
const EXPIRY: Duration = Duration::from_secs(43);

/// The times of the writer and of the build.
#[derive(Clone, Copy, Debug)]
struct RegistrationScene {
    /// The time of the first write; the writer has opened the table at the start.
    writers_start: Duration,
    /// The time between the first and the second write.
    second_write_after: Duration,
    /// The time for which the build watches the table before it starts.
    build_watches_for: Duration,
    omitted: Option<Invariant>,
}

/// The registration of the writer never expires.
const REGISTERED: RegistrationScene = RegistrationScene {
    writers_start: Duration::ZERO,
    second_write_after: Duration::ZERO,
    build_watches_for: Duration::ZERO,
    omitted: None,
};
/// The writer resumes when its registration has expired, and uses the states that it reads then.
const RESUMING: RegistrationScene = RegistrationScene {
    writers_start: EXPIRY,
    second_write_after: Duration::from_millis(1000),
    build_watches_for: EXPIRY,
    omitted: None,
};

fn people() -> TableName {
    TableName::new("People").unwrap()
}

fn more() -> Index {
    let placement = Placement::OtherTable(TableName::new("More").unwrap());
    Index::keyed("more", placement, "{Value}", "{RowKey}").unwrap()
}

fn key(id: &str) -> Key {
    Key::new("p", id).unwrap()
}

#[derive(Clone)]
struct RegistrationModel {
    scene: RegistrationScene,
    scheduler: Scheduler,
    store: MemoryStore,
    acknowledgements: Acknowledgements,
}

impl RegistrationModel {
    async fn new(scheduler: &Scheduler, scene: RegistrationScene) -> Result<Self> {
        let model = Self {
            scene,
            scheduler: scheduler.clone(),
            store: MemoryStore::new(),
            acknowledgements: Acknowledgements::default(),
        };
        for name in ["People", "More"] {
            model.store.create_table(&TableName::new(name)?).await?;
        }
        let founder = model
            .open(0, false, Vec::new(), IndexOptions::local().cache)
            .await?;
        for id in ["x", "y"] {
            founder
                .insert(Entity::from(key(id)).with(VALUE, "a"))
                .await?;
        }
        Ok(model)
    }

    /// A process. If it is live, all its requests wait for the scheduler, including the requests that open the table.
    async fn open(
        &self,
        task: usize,
        live: bool,
        indexes: Vec<Index>,
        cache: Duration,
    ) -> Result<IndexedEntities> {
        let mut options =
            IndexOptions::local().with_clearing(crate::patterns::journal::Clearing::BeforeAnswer);
        (options.timing, options.cache) = (Timing::new(LEASE, CLIENT, SERVER)?, cache);
        let store = ScheduledStore {
            context: StoreContext::new(&ServiceProfile::LOCAL),
            store: self.store.clone(),
            scheduler: self.scheduler.clone(),
            task,
            watched: (people(), UNWATCHED),
            live: Arc::new(AtomicBool::new(live)),
            reads_only: false,
        };
        IndexedEntities::open(Arc::new(store), people(), indexes, options).await
    }

    fn writer(&self, task: usize) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let Ok(people) = model.open(task, true, vec![more()], CACHE).await else {
                return;
            };
            for (mark, id, pause) in [
                ("0", "x", model.scene.writers_start),
                ("1", "y", model.scene.second_write_after),
            ] {
                if pause > Duration::ZERO {
                    sleep(pause).await;
                }
                let Ok(Some(old)) = people.get(&key(id)).await else {
                    return;
                };
                let new = Entity::from(key(id)).with(VALUE, "b").with(MARK, mark);
                let answer = people.replace(&old, new).await;
                model
                    .acknowledgements
                    .add(&model.scheduler, mark.to_owned(), &answer);
            }
        })
    }

    fn builder(&self, task: usize) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let cache = IndexOptions::local().cache;
            let Ok(people) = model.open(task, true, vec![more()], cache).await else {
                return;
            };
            if model.scene.build_watches_for > Duration::ZERO {
                // Watch from the time when the writer has registered.
                sleep(CLIENT).await;
            }
            let built = async {
                people.refresh().await?;
                if model.scene.build_watches_for > Duration::ZERO {
                    sleep(model.scene.build_watches_for).await;
                    people.refresh().await?;
                }
                people.build("more")?.run().await
            };
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
        let judge = self
            .open(0, false, vec![more()], IndexOptions::local().cache)
            .await?;
        for _ in 0..2 {
            judge.journal().sweep(&[], Duration::ZERO).await?;
        }
        if let Err(wrong) = self.acknowledgements.check(&self.scheduler) {
            return Ok(Err(wrong));
        }
        judge.refresh().await?;
        if judge.state("more") == IndexState::Readable
            && let Err(wrong) = self.check_entries().await?
        {
            return Ok(Err(format!("{wrong}, and the index is readable")));
        }
        // The build waits for no process now: all have ended.
        judge.build("more")?.run().await?;
        self.check_entries().await
    }

    async fn check_entries(&self) -> Result<Verdict> {
        let messages = Messages::default();
        let final_state =
            FinalState::read(&self.store, &people(), &["More"], &messages, Phase::Swept).await?;
        if let Err(wrong) = final_state.check_evidence() {
            return Ok(Err(wrong));
        }
        final_state
            .check_entries(&self.store, &people(), |entity| {
                more().entries(&people(), entity)
            })
            .await
    }
}

impl RegistrationScene {
    fn explore(self, bounds: Bounds) -> Explored {
        explore(
            Systematic::new(bounds),
            self.omitted,
            &async |scheduler: &Scheduler| {
                let model = RegistrationModel::new(scheduler, self).await?;
                Ok(Schedule {
                    tasks: vec![model.writer(0), model.builder(1)],
                    verdict: model.verdict(),
                })
            },
        )
    }

    const fn writers_start_at(self, millis: u64) -> Self {
        Self {
            writers_start: Duration::from_millis(millis),
            ..self
        }
    }

    const fn without_invariant(self, invariant: Invariant) -> Self {
        Self {
            omitted: Some(invariant),
            ..self
        }
    }
}

const fn switching(switches: usize) -> Bounds {
    Bounds::all_orders().switching(switches)
}

/// The writer dies, loses an answer, or pauses until its registration has expired.
const FAULTS: &[Action] = &[
    Action::CrashBefore,
    Action::CrashAfter,
    Action::Lose,
    Action::LoseAnswer,
    Action::Late,
    Action::Pause(EXPIRY),
    Action::Pause(Duration::from_millis(43_500)),
];
const FAULT: Bounds = switching(0).sparing_from(1).with_faults(1, FAULTS);

#[test]
fn a_build_waits_for_a_process_with_a_longer_cache() {
    let scenes = [0, 300, 600, 1000, 1400].map(|writers_start| {
        REGISTERED
            .writers_start_at(writers_start)
            .explore(switching(2))
    });
    Explored::sum(scenes).assert_no_violation("a build and a slower process");
    let scenes =
        [0, 1000].map(|writers_start| REGISTERED.writers_start_at(writers_start).explore(FAULT));
    Explored::sum(scenes).assert_no_violation("a build, a slower process and a fault");
}

#[test]
fn a_process_resumes_after_its_registration_expired() {
    let scenes = [42_900, 43_000, 43_300, 43_600].map(|writers_start| {
        RESUMING
            .writers_start_at(writers_start)
            .explore(switching(2))
    });
    Explored::sum(scenes).assert_no_violation("a build and a process that resumes");
    let expired = RegistrationScene {
        build_watches_for: EXPIRY,
        ..REGISTERED
    };
    Explored::sum([expired, RESUMING].map(|scene| scene.explore(FAULT)))
        .assert_no_violation("a build, a process that resumes and a fault");
}

/// A process registers before it reads index states, also while they change.
#[test]
fn a_process_opens_the_table_during_a_build() {
    let scene = RegistrationScene {
        second_write_after: Duration::from_millis(1000),
        ..REGISTERED
    };
    scene
        .explore(switching(3))
        .assert_no_violation("a build, and a slower process that opens the table");
}

#[test]
fn every_rule_of_registrations_is_needed() {
    let scenes = [
        (
            Invariant::WaitForRegistered,
            REGISTERED.writers_start_at(1000),
        ),
        (Invariant::WatchWhole, REGISTERED.writers_start_at(1000)),
        (Invariant::RegisterFirst, RESUMING),
    ];
    for (invariant, scene) in scenes {
        let explored = scene.without_invariant(invariant).explore(switching(1));
        explored.assert_violation_without(invariant);
    }
}

/// A build waits for a dead process only until its registration has expired, and then removes the registration.
#[test]
fn an_expired_registration_is_removed() {
    let scene = RegistrationScene {
        build_watches_for: EXPIRY,
        ..REGISTERED
    };
    let bounds = switching(0)
        .sparing_from(1)
        .with_faults(1, &[Action::CrashAfter]);
    let explored = explore(
        Systematic::new(bounds),
        None,
        &async |scheduler: &Scheduler| {
            let model = RegistrationModel::new(scheduler, scene).await?;
            let judge = model.clone();
            let verdict: BoxFuture<'static, Result<Option<String>>> = Box::pin(async move {
                let rows = judge.store.query_all(&people(), &Query::new()).await?;
                let rows = rows
                    .iter()
                    .filter(|row| row.key().row().starts_with("process~"));
                let left: Vec<_> = rows.map(|row| row.key().row().to_owned()).collect();
                // The registration of the build itself.
                Ok((left.len() != 1).then(|| format!("the rows {left:?} are left")))
            });
            Ok(Schedule {
                tasks: vec![model.writer(0), model.builder(1)],
                verdict,
            })
        },
    );
    explored.assert_no_violation("a build forgets a registration without heartbeat");
}
