//! Entities, their index, those who write them, and what must hold in the end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::adapter::{RetryPolicy, Retrying};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, Properties, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Error, Operation, Result, TableStore, TableStoreExt};
use tokio::time::sleep;

use super::lineage::Lineage;
use super::queue::{Messages, StagedQueue};
use super::rest::{Phase, Rest, Verdict};
use super::stage::Stage;
use super::store::{MARK, StagedStore, mark_of_move};
use super::told::Told;
use crate::index::{Entry, Location, Maintainer, Shape};
use crate::journal::{Acknowledge, Change, Journal, Recovery, Rule, Timing};

pub(super) const LEASE: Duration = Duration::from_millis(400);
/// The life of a request, here and at the server.
pub(super) const CLIENT: Duration = Duration::from_millis(60);
pub(super) const SERVER: Duration = Duration::from_millis(40);
const VALUE: &str = "Value";
const LISTS: &str = "Lists";
/// The tables of entries.
const TABLES: [&str; 3] = ["Names", "Cities", LISTS];

/// Which entries the value of an entity has: one in a unique index, one in another, a place in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct People {
    pub(super) unique: bool,
    pub(super) plain: bool,
    pub(super) listed: bool,
    /// Whether the unique entry holds who wrote the entity: then it is written with every change.
    pub(super) full: bool,
}

pub(super) const PLAIN: People = People { unique: false, plain: true, listed: false, full: false };
pub(super) const UNIQUE: People = People { unique: true, plain: false, listed: false, full: false };
pub(super) const FULL: People = People { full: true, ..UNIQUE };
pub(super) const BOTH: People = People { unique: true, plain: true, listed: false, full: false };
pub(super) const LISTED: People = People { unique: false, plain: false, listed: true, full: false };

#[async_trait]
impl Maintainer for People {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        let Some(ValueRef::String(value)) = entity.get(VALUE) else { return Ok(Vec::new()) };
        let mut entries = Vec::new();
        if self.unique {
            let mut unique = entry(entity, "Names", Key::new(value, "")?, true)?;
            if let Some(mark) = entity.get(MARK).filter(|_| self.full) {
                unique.properties.put(MARK, mark, false);
            }
            entries.push(unique);
        }
        if self.plain {
            entries.push(entry(entity, "Cities", Key::new(value, entity.key().partition())?, false)?);
        }
        if self.listed {
            let own = entry(entity, LISTS, Key::new(value, "")?, false)?;
            entries.push(Entry { shape: Shape::LIST, ..own });
        }
        Ok(entries)
    }
}

/// The same entries, unique where they are not and the other way round.
#[derive(Debug)]
struct Otherwise(People);

#[async_trait]
impl Maintainer for Otherwise {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        let entries = self.0.entries(entity)?.into_iter();
        Ok(entries.map(|entry| Entry { unique: !entry.unique, ..entry }).collect())
    }
}

fn entry(entity: &Entity, table: &str, key: Key, unique: bool) -> Result<Entry> {
    let location = Location { table: TableName::new(table)?, key };
    let (owner, index) = (entity.key().clone(), table.to_owned());
    Ok(Entry { location, owner, properties: Properties::new(), index, unique, shape: Shape::Row })
}

/// The key of the entity `id`: each has a partition of its own.
fn key(id: &str) -> Result<Key> {
    Key::new(id, "e")
}

fn people() -> TableName {
    TableName::new("People").unwrap()
}

/// The store, the queue and what was written.
#[derive(Clone)]
pub(super) struct World {
    stage: Stage,
    store: MemoryStore,
    messages: Messages,
    people: People,
    broken: Option<Rule>,
    told: Told,
    /// What was made of what, where that is looked at.
    lineage: Option<Lineage>,
    queued: bool,
    retried: bool,
}

impl World {
    async fn empty(stage: &Stage, people: People) -> Result<Self> {
        let store = MemoryStore::new();
        for table in TABLES.into_iter().chain(["People"]) {
            store.create_table(&TableName::new(table)?).await?;
        }
        let (stage, messages, told) = (stage.clone(), Messages::default(), Told::default());
        let (broken, lineage) = (None, None);
        Ok(Self { stage, store, messages, people, broken, told, lineage, queued: true, retried: false })
    }

    /// A world with these entities and values.
    pub(super) async fn new(stage: &Stage, people: People, start: &[(&str, &str)]) -> Result<Self> {
        let world = Self::empty(stage, people).await?;
        for (id, value) in start {
            let entity = Entity::from(key(id)?).with(VALUE, *value).with(MARK, format!("start {id}"));
            world.undisturbed().write(&[Change::insert(entity)], Acknowledge::Applied).await?;
        }
        Ok(world)
    }

    /// A world whose entities were written under another definition of their index: it was dropped, with the entries
    /// that were there, and built again. What was committed and not applied before is left.
    pub(super) async fn redefined(stage: &Stage, people: People, start: &[(&str, &str)]) -> Result<Self> {
        let world = Self::empty(stage, people).await?;
        let store = Arc::new(world.store.clone());
        let before = Journal::new(store, super::world::people(), Arc::new(Otherwise(people)));
        for (id, value) in start {
            let entity = Entity::from(key(id)?).with(VALUE, *value);
            before.write(&[Change::insert(entity)], Acknowledge::Committed).await?;
        }
        for name in TABLES {
            let table = TableName::new(name)?;
            for row in world.store.query_all(&table, &Query::new()).await? {
                world.store.write(&table, Operation::Delete(row.key().clone(), IfMatch::Any)).await?;
            }
        }
        for (id, _) in start {
            let entity = world.store.get_existing(&super::world::people(), &key(id)?).await?;
            world.undisturbed().write(&[Change::rewrite(entity)], Acknowledge::Applied).await?;
        }
        Ok(world)
    }

    /// The same world, in which nobody keeps a rule.
    pub(super) const fn breaking(mut self, rule: Option<Rule>) -> Self {
        self.broken = rule;
        self
    }

    /// The same world, in which every committed write is in exactly one entity in the end.
    pub(super) fn with_lineage(mut self, start: &[(&str, &str)]) -> Self {
        self.lineage = Some(Lineage::new(start.iter().map(|(id, _)| format!("start {id}"))));
        self
    }

    /// The same world without a queue: a sweep finds what is left.
    pub(super) const fn without_queue(mut self) -> Self {
        self.queued = false;
        self
    }

    /// The same world, in which lost requests are sent again.
    pub(super) const fn under_retries(mut self) -> Self {
        self.retried = true;
        self
    }

    /// The journal of a task, whose requests wait for their turn.
    fn journal(&self, task: usize) -> Journal {
        let (store, stage) = (self.store.clone(), self.stage.clone());
        let watched = (people(), if self.people.unique { VALUE } else { "none" });
        let store =
            StagedStore { store, stage, task, watched, live: Arc::new(true.into()), reads_only: false };
        let store: Arc<dyn TableStore> =
            if self.retried { Arc::new(Retrying::new(store, retries())) } else { Arc::new(store) };
        self.journal_over(store, self.queue(task))
    }

    fn queue(&self, task: usize) -> StagedQueue {
        StagedQueue::new(self.messages.clone(), Some(self.stage.clone()), task, true)
    }

    fn undisturbed(&self) -> Journal {
        let queue = StagedQueue::new(self.messages.clone(), None, usize::MAX, false);
        self.journal_over(Arc::new(self.store.clone()), queue)
    }

    fn journal_over(&self, store: Arc<dyn TableStore>, queue: StagedQueue) -> Journal {
        let timing = Timing::new(LEASE, CLIENT, SERVER).unwrap();
        let mut journal = Journal::new(store, people(), Arc::new(self.people)).with_timing(timing);
        if self.queued {
            journal = journal.with_queue(Arc::new(queue));
        }
        match self.broken {
            Some(rule) => journal.breaking(rule),
            None => journal,
        }
    }

    /// Reads the entity and gives it a value, or deletes it. Tries so often where others are quicker.
    pub(super) fn writer(
        &self,
        task: usize,
        id: &'static str,
        value: Option<&'static str>,
        attempts: usize,
    ) -> BoxFuture<'static, ()> {
        let (world, journal) = (self.clone(), self.journal(task));
        Box::pin(async move {
            for attempt in 0..attempts {
                let Ok(old) = journal.store().get(&people(), &key(id).unwrap(), None).await else { return };
                let mark = format!("{task}.{attempt}");
                let new =
                    value.map(|v| Entity::from(key(id).unwrap()).with(VALUE, v).with(MARK, mark.as_str()));
                let change = match (old, new) {
                    (None, None) => return,
                    (None, Some(new)) => Change::insert(new),
                    (Some(old), None) => Change::delete(old),
                    (Some(old), Some(new)) => Change::replace(old, new),
                };
                let step = world.lineage.as_ref().map(|lineage| lineage.begin(&change, &mark));
                let result = journal.write(&[change], Acknowledge::Applied).await;
                if let (Some(lineage), Some(step)) = (&world.lineage, step) {
                    lineage.end(step, result.as_ref().err().map(|error| error.outcome()));
                }
                world.told.add(&world.stage, mark, &result);
                if result.is_ok() {
                    return;
                }
            }
        })
    }

    /// Moves an entity, unless another one is at the target and is not to be replaced.
    pub(super) fn mover(
        &self,
        task: usize,
        from: &'static str,
        to: &'static str,
        replaces: bool,
    ) -> BoxFuture<'static, ()> {
        let (world, journal) = (self.clone(), self.journal(task));
        Box::pin(async move {
            let check = |there: &Entity| match replaces {
                true => Ok(()),
                false => Err(Error::invalid_request(format!("{} is there", there.key()))),
            };
            let moved = journal.move_entity(&key(from).unwrap(), &key(to).unwrap(), &check).await;
            world.told.add_move(&world.stage, mark_of_move(task), &moved);
        })
    }

    /// Does one deed after the other, whatever comes of each.
    pub(super) fn hand(&self, task: usize, deeds: Vec<Deed>) -> BoxFuture<'static, ()> {
        let (world, journal) = (self.clone(), self.journal(task));
        Box::pin(async move {
            for (n, deed) in deeds.into_iter().enumerate() {
                let mark = format!("{task}.{n}");
                let Ok(Some(change)) = deed.change(&journal, &mark).await else { continue };
                let result = journal.write(&[change], Acknowledge::Applied).await;
                world.told.add(&world.stage, mark, &result);
            }
        })
    }

    /// Works on tickets so many times: at once, and then every lease.
    pub(super) fn worker(&self, task: usize, rounds: u32) -> BoxFuture<'static, ()> {
        let (queue, journal) = (self.queue(task), self.journal(task));
        Box::pin(async move {
            for round in 0..rounds {
                if round > 0 {
                    sleep(LEASE).await;
                }
                let _lost = Recovery::new(&queue, vec![&journal]).run_once(8).await;
            }
        })
    }

    /// Sweeps so many times, at once and then every lease.
    pub(super) fn sweeper(&self, task: usize, rounds: u32) -> BoxFuture<'static, ()> {
        let journal = self.journal(task);
        Box::pin(async move {
            for round in 0..rounds {
                if round > 0 {
                    sleep(LEASE).await;
                }
                let _lost = journal.sweep(&unique_tables(), Duration::ZERO).await;
            }
        })
    }

    /// Lets the workers and then the sweep finish; what is wrong then.
    pub(super) fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let world = self.clone();
        Box::pin(async move { Ok(world.judge().await?.err()) })
    }

    async fn judge(&self) -> Result<Verdict> {
        if self.queued {
            self.work().await?;
            if let Err(wrong) = self.check(Phase::Worked).await? {
                return Ok(Err(format!("after the workers: {wrong}")));
            }
        }
        // The second removes the abort rows that the first put in the way of reservations.
        for _ in 0..2 {
            self.undisturbed().sweep(&unique_tables(), Duration::ZERO).await?;
        }
        let swept = self.check(Phase::Swept).await?.map_err(|wrong| format!("after the sweep: {wrong}"));
        if let (Ok(()), Some(lineage)) = (&swept, &self.lineage) {
            let rows = self.store.query_all(&people(), &Query::new()).await?;
            if let Err(wrong) = lineage.check(&self.stage, &rows) {
                return Ok(Err(wrong));
            }
        }
        Ok(swept.and_then(|()| self.told.check(&self.stage)))
    }

    async fn work(&self) -> Result<()> {
        let (queue, journal) =
            (StagedQueue::new(self.messages.clone(), None, usize::MAX, true), self.undisturbed());
        for _ in 0..12 {
            if self.messages.len() == 0 {
                break;
            }
            sleep(LEASE * 3).await;
            Recovery::new(&queue, vec![&journal]).run_once(32).await?;
        }
        Ok(())
    }

    async fn check(&self, phase: Phase) -> Result<Verdict> {
        let rest = Rest::read(&self.store, &people(), &TABLES, &self.messages, phase).await?;
        match rest.check_evidence() {
            Ok(()) => rest.check_entries(&self.store, &people(), |entity| self.people.entries(entity)).await,
            wrong => Ok(wrong),
        }
    }
}

/// What a process does to an entity.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    /// Adds it, with a value: nothing is read before.
    Insert(&'static str, &'static str),
    /// Writes it as it is, under another mark.
    Touch(&'static str),
    /// Gives it another value.
    Give(&'static str, &'static str),
    Delete(&'static str),
}

impl Deed {
    /// What is to be written, if there is something to do.
    async fn change(self, journal: &Journal, mark: &str) -> Result<Option<Change>> {
        let (Self::Insert(id, _) | Self::Touch(id) | Self::Give(id, _) | Self::Delete(id)) = self;
        let entity = |value: &str| Ok(Entity::from(key(id)?).with(VALUE, value).with(MARK, mark));
        if let Self::Insert(_, value) = self {
            return entity(value).map(Change::insert).map(Some);
        }
        let Some(old) = journal.store().get(&people(), &key(id)?, None).await? else { return Ok(None) };
        Ok(Some(match self {
            Self::Give(_, value) => Change::replace(old, entity(value)?),
            Self::Delete(_) => Change::delete(old),
            Self::Insert(..) | Self::Touch(_) => {
                let touched =
                    Entity::from_parts(old.key().clone(), old.properties().clone()).with(MARK, mark);
                Change::replace(old, touched)
            }
        }))
    }
}

/// As programs have it: each request is tried again, within the client's part of its life.
fn retries() -> RetryPolicy {
    let policy = RetryPolicy::default().with_max_attempts(3).with_seed(1).with_write_ids();
    policy.with_delays(Duration::from_millis(5), Duration::from_millis(20)).with_deadline(Some(CLIENT))
}

fn unique_tables() -> Vec<TableName> {
    vec![TableName::new("Names").unwrap()]
}
