//! A builder, and a process that caches states for twenty times as long: it writes now and then, pauses, dies, or is away for so long
//! that nobody waits for it any more, and comes back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Query;
use table_core::store::{Result, TableStore as _, TableStoreExt as _};
use tokio::time::sleep;

use super::choose::{Bounds, Systematic};
use super::explore::{Explored, Play, explore};
use super::queue::Messages;
use super::rest::{Phase, Rest, Verdict};
use super::stage::{Action, Stage};
use super::store::{MARK, StagedStore, UNWATCHED};
use super::told::Told;
use super::world::{CLIENT, LEASE, SERVER};
use crate::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
use crate::journal::{Rule, Timing};

const VALUE: &str = "Value";
/// For how long the writer caches states.
const CACHE: Duration = Duration::from_secs(2);
/// As long as the writer's row is unchanged if it is gone: its heartbeat, of twenty caches, a cache and a request; and a little more.
const GONE: Duration = Duration::from_secs(43);

/// Who writes when, and who builds.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    /// When the writer writes first, which has opened the table at once.
    after: Duration,
    /// How long after that it writes again.
    again: Duration,
    /// For how long the builder watches the table before it builds.
    watches: Duration,
    broken: Option<Rule>,
}

/// Nobody is gone.
const MET: Meeting =
    Meeting { after: Duration::ZERO, again: Duration::ZERO, watches: Duration::ZERO, broken: None };
/// The writer comes back when the builder takes it to be gone, and goes by what it has read then.
const BACK: Meeting =
    Meeting { after: GONE, again: Duration::from_millis(1000), watches: GONE, broken: None };

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
struct Place {
    of: Meeting,
    stage: Stage,
    store: MemoryStore,
    told: Told,
}

impl Place {
    async fn new(stage: &Stage, of: Meeting) -> Result<Self> {
        let place = Self { of, stage: stage.clone(), store: MemoryStore::new(), told: Told::default() };
        for name in ["People", "More"] {
            place.store.create_table(&TableName::new(name)?).await?;
        }
        let founder = place.open(0, false, Vec::new(), IndexOptions::local().cache).await?;
        for id in ["x", "y"] {
            founder.insert(Entity::from(key(id)).with(VALUE, "a")).await?;
        }
        Ok(place)
    }

    /// A process; each request of a live one waits for its turn, those by which it opens the table too.
    async fn open(
        &self,
        task: usize,
        live: bool,
        indexes: Vec<Index>,
        cache: Duration,
    ) -> Result<IndexedEntities> {
        let mut options = IndexOptions::local();
        (options.timing, options.cache) = (Timing::new(LEASE, CLIENT, SERVER)?, cache);
        let store = StagedStore {
            store: self.store.clone(),
            stage: self.stage.clone(),
            task,
            watched: (people(), UNWATCHED),
            live: Arc::new(AtomicBool::new(live)),
            reads_only: false,
        };
        let opened = IndexedEntities::open(Arc::new(store), people(), indexes, options).await?;
        Ok(opened.breaking(self.of.broken))
    }

    fn writer(&self, task: usize) -> BoxFuture<'static, ()> {
        let place = self.clone();
        Box::pin(async move {
            let Ok(people) = place.open(task, true, vec![more()], CACHE).await else { return };
            for (mark, id, pause) in [("0", "x", place.of.after), ("1", "y", place.of.again)] {
                if pause > Duration::ZERO {
                    sleep(pause).await;
                }
                let Ok(Some(old)) = people.get(&key(id)).await else { return };
                let new = Entity::from(key(id)).with(VALUE, "b").with(MARK, mark);
                let answer = people.replace(&old, new).await;
                place.told.add(&place.stage, mark.to_owned(), &answer);
            }
        })
    }

    fn builder(&self, task: usize) -> BoxFuture<'static, ()> {
        let place = self.clone();
        Box::pin(async move {
            let cache = IndexOptions::local().cache;
            let Ok(people) = place.open(task, true, vec![more()], cache).await else { return };
            if place.of.watches > Duration::ZERO {
                // From when the writer has its row.
                sleep(CLIENT).await;
            }
            let built = async {
                people.refresh().await?;
                if place.of.watches > Duration::ZERO {
                    sleep(place.of.watches).await;
                    people.refresh().await?;
                }
                people.build("more")?.run().await
            };
            let built = built.await;
            place.stage.note(|| format!("task {task} ends with {built:?}"));
        })
    }

    fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let place = self.clone();
        Box::pin(async move { Ok(place.judge().await?.err()) })
    }

    /// The index is what the entities are as soon as it is readable.
    async fn judge(&self) -> Result<Verdict> {
        let judge = self.open(0, false, vec![more()], IndexOptions::local().cache).await?;
        for _ in 0..2 {
            judge.journal().sweep(&[], Duration::ZERO).await?;
        }
        if let Err(wrong) = self.told.check(&self.stage) {
            return Ok(Err(wrong));
        }
        judge.refresh().await?;
        if judge.state("more") == IndexState::Readable
            && let Err(wrong) = self.in_step().await?
        {
            return Ok(Err(format!("{wrong}, and the index is readable")));
        }
        // Whoever is gone by now holds nobody up; whoever goes on is done.
        judge.build("more")?.run().await?;
        self.in_step().await
    }

    async fn in_step(&self) -> Result<Verdict> {
        let messages = Messages::default();
        let rest = Rest::read(&self.store, &people(), &["More"], &messages, Phase::Swept).await?;
        if let Err(wrong) = rest.check_evidence() {
            return Ok(Err(wrong));
        }
        rest.check_entries(&self.store, &people(), |entity| more().entries(&people(), entity)).await
    }
}

impl Meeting {
    fn explore(self, bounds: Bounds) -> Explored {
        explore(Systematic::new(bounds), &async |stage: &Stage| {
            let place = Place::new(stage, self).await?;
            Ok(Play { tasks: vec![place.writer(0), place.builder(1)], verdict: place.verdict() })
        })
    }

    const fn after(self, millis: u64) -> Self {
        Self { after: Duration::from_millis(millis), ..self }
    }

    const fn breaking(self, rule: Rule) -> Self {
        Self { broken: Some(rule), ..self }
    }
}

const fn switching(switches: usize) -> Bounds {
    Bounds::all_orders().switching(switches)
}

/// The writer dies, loses an answer, or pauses until everybody takes it to be gone.
const AWAY: &[Action] = &[
    Action::CrashBefore,
    Action::CrashAfter,
    Action::Lose,
    Action::LoseAnswer,
    Action::Late,
    Action::Pause(GONE),
    Action::Pause(Duration::from_millis(43_500)),
];
const FAULT: Bounds = switching(0).sparing_from(1).with_faults(1, AWAY);

#[test]
fn a_builder_waits_for_a_slower_process() {
    let scenes = [0, 300, 600, 1000, 1400].map(|after| MET.after(after).explore(switching(2)));
    Explored::sum(scenes).assert_right("a builder and a slower process");
    let scenes = [0, 1000].map(|after| MET.after(after).explore(FAULT));
    Explored::sum(scenes).assert_right("a builder, a slower process and a fault");
}

#[test]
fn a_process_comes_back_that_nobody_waits_for() {
    let scenes = [42_900, 43_000, 43_300, 43_600].map(|after| BACK.after(after).explore(switching(2)));
    Explored::sum(scenes).assert_right("a builder and a process that comes back");
    let away = Meeting { watches: GONE, ..MET };
    Explored::sum([away, BACK].map(|scene| scene.explore(FAULT)))
        .assert_right("a builder, a process that comes back and a fault");
}

/// Who opens the table while states change is registered before it reads them.
#[test]
fn a_slower_process_opens_a_table_while_an_index_is_built() {
    let scene = Meeting { again: Duration::from_millis(1000), ..MET };
    scene.explore(switching(3)).assert_right("a builder, and a slower process that opens the table");
}

#[test]
fn every_rule_of_registrations_is_needed() {
    let scenes = [
        (Rule::WaitForRegistered, MET.after(1000)),
        (Rule::WatchWhole, MET.after(1000)),
        (Rule::RegisterFirst, BACK),
    ];
    for (rule, scene) in scenes {
        let explored = scene.breaking(rule).explore(switching(1));
        let (what, _) = explored.wrong.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        eprintln!("without {rule:?}, schedule {} ends wrong: {what}", explored.schedules);
    }
}

/// A process that is gone holds a builder up no longer than it is watched, and its row goes.
#[test]
fn a_process_that_is_gone_is_forgotten() {
    let scene = Meeting { watches: GONE, ..MET };
    let bounds = switching(0).sparing_from(1).with_faults(1, &[Action::CrashAfter]);
    let explored = explore(Systematic::new(bounds), &async |stage: &Stage| {
        let place = Place::new(stage, scene).await?;
        let judge = place.clone();
        let verdict: BoxFuture<'static, Result<Option<String>>> = Box::pin(async move {
            let rows = judge.store.query_all(&people(), &Query::new()).await?;
            let rows = rows.iter().filter(|row| row.key().row().starts_with("process~"));
            let left: Vec<_> = rows.map(|row| row.key().row().to_owned()).collect();
            // That of the builder itself.
            Ok((left.len() != 1).then(|| format!("the rows {left:?} are left")))
        });
        Ok(Play { tasks: vec![place.writer(0), place.builder(1)], verdict })
    });
    explored.assert_right("a builder forgets a process that is gone");
}
