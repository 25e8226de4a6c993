//! Processes that differ in their durations, and entities that give one key: what the other scenes leave
//! out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, Properties, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Result, TableStore, TableStoreExt};

use super::choose::{Bounds, Choose, Random, Systematic};
use super::explore::{Explored, Play, explore};
use super::stage::{Action, Stage};
use super::store::StagedStore;
use crate::index::{Entry, Location, Maintainer, Shape};
use crate::journal::{Acknowledge, Change, Journal, Rule, Timing};

/// An entry by city, in another table.
#[derive(Clone, Copy, Debug)]
struct ByCity {
    /// Whether the city is the whole key, so that two entities may give one.
    alone: bool,
}

#[async_trait]
impl Maintainer for ByCity {
    fn may_collide(&self) -> bool {
        self.alone
    }

    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        let Some(ValueRef::String(city)) = entity.get("City") else { return Ok(Vec::new()) };
        let row = if self.alone { "" } else { entity.key().partition() };
        let location = Location { table: table("Cities"), key: Key::new(city, row)? };
        let (owner, index) = (entity.key().clone(), "city".to_owned());
        let (properties, shape) = (Properties::new(), Shape::Row);
        Ok(vec![Entry { location, owner, properties, index, unique: false, shape }])
    }
}

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

fn key(id: &str) -> Key {
    Key::new(id, "e").unwrap()
}

/// Long leases, and leases of a quarter of that.
const LONG: [u64; 3] = [400, 60, 40];
const SHORT: [u64; 3] = [100, 15, 10];

/// What one process does.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Gives an entity a city, or deletes it, tried twice.
    Write(&'static str, Option<&'static str>),
    Sweep,
}

#[derive(Clone, Copy, Debug)]
struct Strangers {
    by: ByCity,
    start: &'static [(&'static str, &'static str)],
    deeds: &'static [(Deed, [u64; 3])],
    broken: Option<Rule>,
}

/// A writer with a long lease, another, and a sweep with a short one.
const DIFFERENT: Strangers = Strangers {
    by: ByCity { alone: false },
    start: &[("x", "a")],
    deeds: &[(Deed::Write("x", Some("b")), LONG), (Deed::Sweep, SHORT), (Deed::Write("x", Some("c")), SHORT)],
    broken: None,
};

/// `y` wants the entry that `x` has, and goes.
const COLLIDING: Strangers = Strangers {
    by: ByCity { alone: true },
    start: &[("x", "b"), ("y", "a")],
    deeds: &[(Deed::Write("y", Some("b")), LONG), (Deed::Write("y", None), LONG), (Deed::Sweep, LONG)],
    broken: None,
};

impl Strangers {
    fn journal(self, store: Arc<dyn TableStore>, durations: [u64; 3]) -> Journal {
        let [lease, client, server] = durations.map(Duration::from_millis);
        let timing = Timing::new(lease, client, server).unwrap();
        let journal = Journal::new(store, table("People"), Arc::new(self.by)).with_timing(timing);
        match self.broken {
            Some(rule) => journal.breaking(rule),
            None => journal,
        }
    }

    fn explore(self, chooser: impl Choose) -> Explored {
        explore(chooser, &async |stage: &Stage| {
            let store = MemoryStore::new();
            for name in ["People", "Cities"] {
                store.create_table(&table(name)).await?;
            }
            let undisturbed = self.journal(Arc::new(store.clone()), LONG);
            for (id, city) in self.start {
                let entity = Entity::from(key(id)).with("City", *city);
                undisturbed.write(&[Change::insert(entity)], Acknowledge::Applied).await?;
            }
            let tasks = self.deeds.iter().enumerate().map(|(task, (deed, durations))| {
                let watched = (table("People"), "none");
                let (store, stage) = (store.clone(), stage.clone());
                let live = Arc::new(true.into());
                let staged = StagedStore { store, stage, task, watched, live, reads_only: false };
                deed.done_by(self.journal(Arc::new(staged), *durations))
            });
            let tasks = tasks.collect();
            let verdict = Box::pin(async move {
                for _ in 0..2 {
                    undisturbed.sweep(&[], Duration::ZERO).await?;
                }
                self.by.check(&store).await
            });
            Ok(Play { tasks, verdict })
        })
    }
}

impl Deed {
    fn done_by(self, journal: Journal) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match self {
                Self::Sweep => drop(journal.sweep(&[], Duration::ZERO).await),
                Self::Write(id, city) => {
                    for _ in 0..2 {
                        let Ok(Some(old)) = journal.store().get(journal.table(), &key(id), None).await else {
                            return;
                        };
                        let change = match city {
                            None => Change::delete(old),
                            Some(city) => Change::replace(old, Entity::from(key(id)).with("City", city)),
                        };
                        if journal.write(&[change], Acknowledge::Applied).await.is_ok() {
                            return;
                        }
                    }
                }
            }
        })
    }
}

impl ByCity {
    /// Every entry is one of an entity's, and what entities want is there: one of those that share a key
    /// has it.
    async fn check(self, store: &MemoryStore) -> Result<Option<String>> {
        let entities = store.query_all(&table("People"), &Query::new()).await?;
        let entries = entities.iter().filter(|e| !e.key().is_system()).map(|e| self.entries(e));
        let wanted = entries.collect::<Result<Vec<_>>>()?.concat();
        let rows = store.query_all(&table("Cities"), &Query::new()).await?;
        let is = |row: &Entity, entry: &Entry| {
            *row.key() == entry.location.key && Entry::owner_of(row).is_ok_and(|owner| owner == entry.owner)
        };
        let stray = rows.iter().find(|row| !wanted.iter().any(|entry| is(row, entry)));
        let missing = wanted.iter().find(|e| !rows.iter().any(|row| *row.key() == e.location.key));
        Ok(stray
            .map(|row| format!("the row {} should not be there", row.key()))
            .or_else(|| missing.map(|entry| format!("{} has no entry", entry.owner))))
    }
}

/// Pauses beyond a short lease, within a long one.
const FAULTS: &[Action] = &[
    Action::CrashBefore,
    Action::CrashAfter,
    Action::LoseAnswer,
    Action::Late,
    Action::Stall(Duration::from_millis(250)),
    Action::Stall(Duration::from_millis(850)),
    Action::Resend(Duration::from_millis(250)),
];

const BOUNDS: Bounds = Bounds::all_orders().with_faults(2, FAULTS);

#[test]
fn different_leases_and_shared_keys() {
    let one = BOUNDS.with_faults(1, FAULTS).switching(0);
    DIFFERENT.explore(Systematic::new(one)).assert_right("different leases and a fault");
    for (name, scene) in [("different leases", DIFFERENT), ("shared keys", COLLIDING)] {
        scene.explore(Random::new(BOUNDS, 1, 500)).assert_right(name);
    }
}

#[test]
fn each_rule_between_strangers_is_needed() {
    for (rule, scene) in [(Rule::LeaseOfTheRow, DIFFERENT), (Rule::OwnEntries, COLLIDING)] {
        let scene = Strangers { broken: Some(rule), ..scene };
        let explored = scene.explore(Random::new(BOUNDS, 1, 10_000));
        let (what, _) = explored.wrong.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        eprintln!("without {rule:?}, schedule {} ends wrong: {what}", explored.schedules);
    }
}
