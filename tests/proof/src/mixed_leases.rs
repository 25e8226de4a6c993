//! Scenes of processes with different leases, and of entities whose entries have the same key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, Properties, TableName, ValueRef, entry_id};
use table_core::query::Query;
use table_core::store::{Result, ServiceProfile, StoreContext, TableStore, TableStoreExt};

use super::Invariant;
use super::chooser::{Bounds, Choose, Random, Systematic};
use super::explorer::{Explored, Schedule, explore};
use super::scheduled_store::ScheduledStore;
use super::scheduler::{Action, Scheduler};
use crate::patterns::index::{Entry, Location, Maintainer, Shape};
use crate::patterns::journal::{Acknowledge, Change, Journal, Timing};

/// An index by city, in another table.
#[derive(Clone, Copy, Debug)]
struct ByCity {
    /// Whether the city is the whole key: then two entities can have the same entry key.
    alone: bool,
}

#[async_trait]
impl Maintainer for ByCity {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        let Some(ValueRef::String(city)) = entity.get("City") else {
            return Ok(Vec::new());
        };
        let row = if self.alone {
            ""
        } else {
            entity.key().partition()
        };
        let location = Location {
            table: table("Cities"),
            key: Key::new(city, row)?,
        };
        let (owner, index) = (
            entity.key().clone(),
            entry_id("city", Some(&table("People"))),
        );
        let (properties, shape) = (Properties::new(), Shape::Row);
        Ok(vec![Entry {
            location,
            owner,
            properties,
            index,
            unique: false,
            shape,
        }])
    }
}

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

fn key(id: &str) -> Key {
    Key::new(id, "e").unwrap()
}

/// A long timing and one of a quarter of it: lease, client time limit and server time limit, in milliseconds.
const LONG: [u64; 3] = [400, 60, 40];
const SHORT: [u64; 3] = [100, 15, 10];

/// The action of a process.
#[derive(Clone, Copy, Debug)]
enum ProcessAction {
    /// Sets the city of an entity, or deletes it. Up to two attempts.
    Write(&'static str, Option<&'static str>),
    Sweep,
}

#[derive(Clone, Copy, Debug)]
struct MixedLeases {
    index: ByCity,
    start: &'static [(&'static str, &'static str)],
    actions: &'static [(ProcessAction, [u64; 3])],
    omitted: Option<Invariant>,
}

/// A writer with a long lease, and a writer and a sweep with short leases.
const DIFFERENT_LEASES: MixedLeases = MixedLeases {
    index: ByCity { alone: false },
    start: &[("x", "a")],
    actions: &[
        (ProcessAction::Write("x", Some("b")), LONG),
        (ProcessAction::Sweep, SHORT),
        (ProcessAction::Write("x", Some("c")), SHORT),
    ],
    omitted: None,
};

/// `y` takes the entry key that `x` has; then `y` is deleted.
const SHARED_KEYS: MixedLeases = MixedLeases {
    index: ByCity { alone: true },
    start: &[("x", "b"), ("y", "a")],
    actions: &[
        (ProcessAction::Write("y", Some("b")), LONG),
        (ProcessAction::Write("y", None), LONG),
        (ProcessAction::Sweep, LONG),
    ],
    omitted: None,
};

impl MixedLeases {
    fn journal(self, store: Arc<dyn TableStore>, durations: [u64; 3]) -> Journal {
        let [lease, client, server] = durations.map(Duration::from_millis);
        let timing = Timing::new(lease, client, server).unwrap();
        Journal::new(store, table("People"), Arc::new(self.index))
            .with_clearing(crate::patterns::journal::Clearing::BeforeAnswer)
            .with_timing(timing)
    }

    fn explore(self, chooser: impl Choose) -> Explored {
        explore(chooser, self.omitted, &async |scheduler: &Scheduler| {
            let store = MemoryStore::new();
            for name in ["People", "Cities"] {
                store.create_table(&table(name)).await?;
            }
            let unscheduled_journal = self.journal(Arc::new(store.clone()), LONG);
            for (id, city) in self.start {
                let entity = Entity::from(key(id)).with("City", *city);
                unscheduled_journal
                    .write(&[Change::insert(entity)], Acknowledge::Applied)
                    .await?;
            }
            let tasks = self
                .actions
                .iter()
                .enumerate()
                .map(|(task, (action, durations))| {
                    let watched = (table("People"), "none");
                    let (store, scheduler) = (store.clone(), scheduler.clone());
                    let live = Arc::new(true.into());
                    let scheduled = ScheduledStore {
                        context: StoreContext::new(&ServiceProfile::LOCAL),
                        store,
                        scheduler,
                        task,
                        watched,
                        live,
                        reads_only: false,
                    };
                    action.performed_by(self.journal(Arc::new(scheduled), *durations))
                });
            let tasks = tasks.collect();
            let verdict = Box::pin(async move {
                for _ in 0..2 {
                    unscheduled_journal.sweep(&[], Duration::ZERO).await?;
                }
                self.index.check(&store).await
            });
            Ok(Schedule { tasks, verdict })
        })
    }
}

impl ProcessAction {
    fn performed_by(self, journal: Journal) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match self {
                Self::Sweep => drop(journal.sweep(&[], Duration::ZERO).await),
                Self::Write(id, city) => {
                    for _ in 0..2 {
                        let Ok(Some(old)) =
                            journal.store().get(journal.table(), &key(id), None).await
                        else {
                            return;
                        };
                        let change = match city {
                            None => Change::delete(old),
                            Some(city) => {
                                Change::replace(old, Entity::from(key(id)).with("City", city))
                            }
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
    /// Checks that every entry belongs to an entity, and that every entry key is there. Entities with one key share
    /// one entry.
    async fn check(self, store: &MemoryStore) -> Result<Option<String>> {
        let entities = store.query_all(&table("People"), &Query::new()).await?;
        let entries = entities
            .iter()
            .filter(|e| !e.key().is_system())
            .map(|e| self.entries(e));
        let wanted = entries.collect::<Result<Vec<_>>>()?.concat();
        let rows = store.query_all(&table("Cities"), &Query::new()).await?;
        let is = |row: &Entity, entry: &Entry| {
            *row.key() == entry.location.key
                && Entry::owner_of(row).is_ok_and(|owner| owner == entry.owner)
        };
        let stray = rows
            .iter()
            .find(|row| !wanted.iter().any(|entry| is(row, entry)));
        let missing = wanted
            .iter()
            .find(|e| !rows.iter().any(|row| *row.key() == e.location.key));
        Ok(stray
            .map(|row| format!("the row {} belongs to no entity", row.key()))
            .or_else(|| missing.map(|entry| format!("{} has no entry", entry.owner))))
    }
}

/// All faults. The pauses are longer than a short lease and shorter or longer than a long one.
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
    DIFFERENT_LEASES
        .explore(Systematic::new(one))
        .assert_no_violation("different leases and a fault");
    for (name, scene) in [
        ("different leases", DIFFERENT_LEASES),
        ("shared keys", SHARED_KEYS),
    ] {
        scene
            .explore(Random::new(BOUNDS, 1, 500))
            .assert_no_violation(name);
    }
}

#[test]
fn every_rule_of_leases_and_shared_keys_is_needed() {
    for (invariant, scene) in [
        (Invariant::LeaseOfTheRow, DIFFERENT_LEASES),
        (Invariant::OwnEntries, SHARED_KEYS),
    ] {
        let scene = MixedLeases {
            omitted: Some(invariant),
            ..scene
        };
        let explored = scene.explore(Random::new(BOUNDS, 1, 10_000));
        explored.assert_violation_without(invariant);
    }
}
