//! Two programs of one table, one of which has an index more: an opener, and a writer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::store::{Result, TableStore};
use tokio::time::sleep;

use super::choose::{Bounds, Choose, Random, Systematic};
use super::explore::{Explored, Play, explore};
use super::keepers::FAULT;
use super::queue::Messages;
use super::rest::{Phase, Rest, Verdict};
use super::scene::Write;
use super::stage::Stage;
use super::store::{MARK, StagedStore};
use super::told::Told;
use super::world::{CLIENT, LEASE, SERVER};
use crate::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
use crate::journal::Timing;

/// The indexes of the writer, and of the opener.
const KNOWN: [&str; 1] = ["Known"];
const MORE: [&str; 2] = ["Known", "More"];
const VALUE: &str = "Value";

/// Who opens a table, and what is written there.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// Whether the table was opened before, with the writer's index, and has an entity.
    founded: bool,
    /// Whether the opener builds the index that it has more.
    builds: bool,
    /// When the writer, which has opened the table by then, writes.
    after: Duration,
    writes: &'static [Write],
}

const NEW: Opening =
    Opening { founded: false, builds: false, after: Duration::ZERO, writes: &[("x", Some("b"))] };
const OLD: Opening = Opening { founded: true, ..NEW };

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

/// Entries in a table of the index's name.
fn index(name: &'static str) -> Index {
    Index::new(name, Placement::OtherTable(table(name)), "1", |e| {
        let Some(ValueRef::String(value)) = e.get(VALUE) else { return Ok(None) };
        Key::new(value, e.key().row()).map(Some)
    })
}

fn entity(id: &str, value: &str) -> Entity {
    Entity::new("p", id).unwrap().with(VALUE, value)
}

#[derive(Clone)]
struct Place {
    of: Opening,
    stage: Stage,
    store: MemoryStore,
    told: Told,
}

impl Place {
    async fn new(stage: &Stage, of: Opening) -> Result<Self> {
        let place = Self { of, stage: stage.clone(), store: MemoryStore::new(), told: Told::default() };
        for name in ["People", "Known", "More"] {
            place.store.create_table(&table(name)).await?;
        }
        if of.founded {
            place.open(None, &KNOWN).await?.insert(entity("x", "a")).await?;
        }
        Ok(place)
    }

    /// A process; each request of one with a task waits for its turn, those by which it opens the table too.
    async fn open(&self, task: Option<usize>, indexes: &[&'static str]) -> Result<IndexedEntities> {
        let mut options = IndexOptions::local();
        options.timing = Timing::new(LEASE, CLIENT, SERVER)?;
        let store: Arc<dyn TableStore> = match task {
            None => Arc::new(self.store.clone()),
            Some(task) => Arc::new(StagedStore {
                store: self.store.clone(),
                stage: self.stage.clone(),
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
        let place = self.clone();
        Box::pin(async move {
            let Ok(people) = place.open(Some(task), &KNOWN).await else { return };
            if place.of.after > Duration::ZERO {
                sleep(place.of.after).await;
            }
            for (n, (id, value)) in place.of.writes.iter().enumerate() {
                let mark = n.to_string();
                let Ok(key) = Key::new("p", *id) else { return };
                let Ok(old) = people.get(&key).await else { return };
                let answer = match (old, value) {
                    (None, None) => continue,
                    (None, Some(value)) => people.insert(entity(id, value).with(MARK, mark.as_str())).await,
                    (Some(old), None) => people.delete(&old).await,
                    (Some(old), Some(value)) => {
                        people.replace(&old, entity(id, value).with(MARK, mark.as_str())).await
                    }
                };
                place.told.add(&place.stage, mark, &answer);
            }
        })
    }

    /// Opens the table and, if it is to, builds.
    fn opener(&self, task: usize) -> BoxFuture<'static, ()> {
        let place = self.clone();
        Box::pin(async move {
            let Ok(people) = place.open(Some(task), &MORE).await else { return };
            if place.of.builds && people.state("More") != IndexState::Readable {
                let built = async { people.build("More")?.run().await };
                let built = built.await;
                place.stage.note(|| format!("task {task} ends with {built:?}"));
            }
        })
    }

    fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let place = self.clone();
        Box::pin(async move { Ok(place.judge().await?.err()) })
    }

    /// Every index that can be read is what the entities are, before and after the one that is missing is built.
    async fn judge(&self) -> Result<Verdict> {
        let people = self.open(None, &MORE).await?;
        for _ in 0..2 {
            people.journal().sweep(&[], Duration::ZERO).await?;
        }
        if let Err(wrong) = self.told.check(&self.stage) {
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
        let rest = Rest::read(&self.store, &people, &MORE, &Messages::default(), Phase::Swept).await?;
        if let Err(wrong) = rest.check_evidence() {
            return Ok(Err(wrong));
        }
        let derive = |entity: &Entity| {
            let entries = indexes.iter().map(|name| index(name).entries(&people, entity));
            Ok(entries.collect::<Result<Vec<_>>>()?.concat())
        };
        rest.check_entries(&self.store, &people, derive).await
    }
}

impl Opening {
    fn explore(self, chooser: impl Choose) -> Explored {
        explore(chooser, &async |stage: &Stage| {
            let place = Place::new(stage, self).await?;
            Ok(Play { tasks: vec![place.writer(0), place.opener(1)], verdict: place.verdict() })
        })
    }

    /// Explores with writers that begin at each moment at which a builder acts.
    fn at_all_moments(self, scene: &str, bounds: Bounds) {
        let moments = [0, 200, 400, 600].map(Duration::from_millis);
        let explored = moments.map(|after| Self { after, ..self }.explore(Systematic::new(bounds)));
        Explored::sum(explored).assert_right(scene);
    }
}

#[test]
fn an_opener_with_one_index_more_and_a_writer() {
    let orders = Bounds::all_orders().switching(3);
    let name = "an opener with one index more, and a writer";
    Explored::sum([NEW, OLD].map(|scene| scene.explore(Systematic::new(orders)))).assert_right(name);
    let name = "an opener with one index more, a writer and a fault";
    Explored::sum([NEW, OLD].map(|scene| scene.explore(Systematic::new(FAULT)))).assert_right(name);
}

#[test]
fn an_opener_who_builds_and_a_writer() {
    let name = "an opener who builds an index more, and a writer";
    Opening { builds: true, ..NEW }
        .at_all_moments(&format!("{name}, in a new table"), Bounds::all_orders().switching(2));
    Opening { builds: true, ..OLD }.at_all_moments(name, Bounds::all_orders().switching(2));
    let name = "an opener who builds an index more, a writer and a fault";
    Opening { builds: true, ..OLD }.at_all_moments(name, FAULT.switching(0));
}

#[test]
fn openers_by_chance() {
    const WRITES: &[Write] = &[("x", Some("b")), ("y", Some("c")), ("x", None)];
    for (scene, name) in
        [(NEW, "an opener and a busy writer in a new table"), (OLD, "an opener and a busy writer")]
    {
        let busy = Opening { builds: true, writes: WRITES, ..scene };
        busy.explore(Random::new(Bounds::all_orders().with_faults(2, FAULT.kinds), 1, 200))
            .assert_right(name);
    }
}
