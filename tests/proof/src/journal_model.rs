//! The model of the journal scenes: entities, their entries, the tasks that write them, and the final check.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::adapter::{RetryPolicy, Retrying};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, Properties, TableName, ValueRef, entry_id};
use table_core::query::Query;
use table_core::store::{
    Error, Operation, Result, ServiceProfile, StoreContext, TableStore, TableStoreExt,
};
use tokio::time::sleep;

use super::acknowledgements::Acknowledgements;
use super::final_state::{FinalState, Phase, Verdict};
use super::lineage::Lineage;
use super::scheduled_queue::{Messages, ScheduledQueue, run_workers};
use super::scheduled_store::{MARK, ScheduledStore, mark_of_move};
use super::scheduler::Scheduler;
use crate::patterns::index::{Entry, Location, Maintainer, Shape};
use crate::patterns::journal::{Acknowledge, Change, Clearing, Journal, Recovery, Timing};

pub(super) const LEASE: Duration = Duration::from_millis(400);
/// The longest life of a request: the client's and the server's part.
pub(super) const CLIENT: Duration = Duration::from_millis(60);
pub(super) const SERVER: Duration = Duration::from_millis(40);
const VALUE: &str = "Value";
const LISTS: &str = "Lists";
/// The tables of entries.
const TABLES: [&str; 3] = ["Names", "Cities", LISTS];

/// The entries that an entity with a value has: one in a unique index, one in a plain index, a reference in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryKinds {
    pub(super) unique: bool,
    pub(super) plain: bool,
    pub(super) listed: bool,
    /// Whether the unique entry holds the mark of the write: then every write changes the entry.
    pub(super) full: bool,
    /// Whether there is a second unique entry.
    pub(super) twice: bool,
}

pub(super) const PLAIN: EntryKinds = EntryKinds {
    unique: false,
    plain: true,
    listed: false,
    full: false,
    twice: false,
};
pub(super) const UNIQUE: EntryKinds = EntryKinds {
    unique: true,
    plain: false,
    ..PLAIN
};
pub(super) const FULL: EntryKinds = EntryKinds {
    full: true,
    ..UNIQUE
};
pub(super) const BOTH: EntryKinds = EntryKinds {
    unique: true,
    ..PLAIN
};
pub(super) const TWICE: EntryKinds = EntryKinds {
    twice: true,
    ..UNIQUE
};
pub(super) const LISTED: EntryKinds = EntryKinds {
    plain: false,
    listed: true,
    ..PLAIN
};

#[async_trait]
impl Maintainer for EntryKinds {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        let Some(ValueRef::String(value)) = entity.get(VALUE) else {
            return Ok(Vec::new());
        };
        let mut entries = Vec::new();
        if self.unique {
            let mut unique = entry(entity, "Names", Key::new(value, "")?, true)?;
            if let Some(mark) = entity.get(MARK).filter(|_| self.full) {
                unique.properties.put(MARK, mark, false);
            }
            entries.push(unique);
        }
        if self.twice {
            entries.push(entry(
                entity,
                "Names",
                Key::new(format!("{value} again"), "")?,
                true,
            )?);
        }
        if self.plain {
            entries.push(entry(
                entity,
                "Cities",
                Key::new(value, entity.key().partition())?,
                false,
            )?);
        }
        if self.listed {
            let own = entry(entity, LISTS, Key::new(value, "")?, false)?;
            entries.push(Entry {
                shape: Shape::LIST,
                ..own
            });
        }
        Ok(entries)
    }
}

/// The same entries, with unique and plain entries exchanged.
#[derive(Debug)]
struct Otherwise(EntryKinds);

#[async_trait]
impl Maintainer for Otherwise {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        let entries = self.0.entries(entity)?.into_iter();
        Ok(entries
            .map(|entry| Entry {
                unique: !entry.unique,
                ..entry
            })
            .collect())
    }
}

fn entry(entity: &Entity, table: &str, key: Key, unique: bool) -> Result<Entry> {
    let location = Location {
        table: TableName::new(table)?,
        key,
    };
    let (owner, index) = (
        entity.key().clone(),
        entry_id(table, Some(&entities_table())),
    );
    Ok(Entry {
        location,
        owner,
        properties: Properties::new(),
        index,
        unique,
        shape: Shape::Row,
    })
}

/// The key of an entity. Every entity has a partition of its own.
fn key(id: &str) -> Result<Key> {
    Key::new(id, "e")
}

fn entities_table() -> TableName {
    TableName::new("People").unwrap()
}

/// The store, the queue, and the answers of the writers.
#[derive(Clone)]
pub(super) struct JournalModel {
    scheduler: Scheduler,
    store: MemoryStore,
    messages: Messages,
    kinds: EntryKinds,
    acknowledgements: Acknowledgements,
    /// The states of entities, in scenes that check them.
    lineage: Option<Lineage>,
    queued: bool,
    retried: bool,
    clearing: Clearing,
}

impl JournalModel {
    async fn empty(scheduler: &Scheduler, kinds: EntryKinds) -> Result<Self> {
        let store = MemoryStore::new();
        for table in TABLES.into_iter().chain(["People"]) {
            store.create_table(&TableName::new(table)?).await?;
        }
        let (scheduler, messages, acknowledgements) = (
            scheduler.clone(),
            Messages::default(),
            Acknowledgements::default(),
        );
        Ok(Self {
            scheduler,
            store,
            messages,
            kinds,
            acknowledgements,
            lineage: None,
            queued: true,
            retried: false,
            clearing: Clearing::BeforeAnswer,
        })
    }

    /// A model whose entities have these values at the start.
    pub(super) async fn new(
        scheduler: &Scheduler,
        kinds: EntryKinds,
        start: &[(&str, &str)],
    ) -> Result<Self> {
        let model = Self::empty(scheduler, kinds).await?;
        for (id, value) in start {
            let entity = Entity::from(key(id)?)
                .with(VALUE, *value)
                .with(MARK, format!("start {id}"));
            model
                .unscheduled_journal()
                .write(&[Change::insert(entity)], Acknowledge::Applied)
                .await?;
        }
        Ok(model)
    }

    /// A model whose index had another definition before. The index was dropped with its entries and built again;
    /// journal rows of the old definition are left.
    pub(super) async fn redefined(
        scheduler: &Scheduler,
        kinds: EntryKinds,
        start: &[(&str, &str)],
    ) -> Result<Self> {
        let model = Self::empty(scheduler, kinds).await?;
        let store = Arc::new(model.store.clone());
        let before = Journal::new(
            store,
            super::journal_model::entities_table(),
            Arc::new(Otherwise(kinds)),
        )
        .with_clearing(crate::patterns::journal::Clearing::BeforeAnswer);
        for (id, value) in start {
            let entity = Entity::from(key(id)?).with(VALUE, *value);
            before
                .write(&[Change::insert(entity)], Acknowledge::Committed)
                .await?;
        }
        for name in TABLES {
            let table = TableName::new(name)?;
            for row in model.store.query_all(&table, &Query::new()).await? {
                model
                    .store
                    .write(&table, Operation::Delete(row.key().clone(), IfMatch::Any))
                    .await?;
            }
        }
        for (id, _) in start {
            let entity = model
                .store
                .get_existing(&super::journal_model::entities_table(), &key(id)?)
                .await?;
            model
                .unscheduled_journal()
                .write(&[Change::rewrite(entity)], Acknowledge::Applied)
                .await?;
        }
        Ok(model)
    }

    /// The same model; the check includes that every current state is in exactly one entity.
    pub(super) fn with_lineage(mut self, start: &[(&str, &str)]) -> Self {
        self.lineage = Some(Lineage::new(
            start.iter().map(|(id, _)| format!("start {id}")),
        ));
        self
    }

    /// The same model without a queue: a sweep finds unfinished writes.
    pub(super) const fn without_queue(mut self) -> Self {
        self.queued = false;
        self
    }

    /// The same model with the retry adapter around each store.
    pub(super) const fn under_retries(mut self) -> Self {
        self.retried = true;
        self
    }

    /// The same model; its processes clear their writes after the answers.
    pub(super) const fn clearing_later(mut self) -> Self {
        self.clearing = Clearing::AfterAnswer;
        self
    }

    /// The journal of a task, whose requests wait for the scheduler.
    fn journal(&self, task: usize) -> Journal {
        let (store, scheduler) = (self.store.clone(), self.scheduler.clone());
        let watched = (
            entities_table(),
            if self.kinds.unique { VALUE } else { "none" },
        );
        let store = ScheduledStore {
            context: StoreContext::new(&ServiceProfile::LOCAL),
            store,
            scheduler,
            task,
            watched,
            live: Arc::new(true.into()),
            reads_only: false,
        };
        let store: Arc<dyn TableStore> = if self.retried {
            Arc::new(Retrying::new(store, retries()))
        } else {
            Arc::new(store)
        };
        self.journal_over(store, self.queue(task))
            .with_clearing(self.clearing)
    }

    fn queue(&self, task: usize) -> ScheduledQueue {
        ScheduledQueue::new(
            self.messages.clone(),
            Some(self.scheduler.clone()),
            task,
            true,
        )
    }

    fn unscheduled_journal(&self) -> Journal {
        let queue = ScheduledQueue::new(self.messages.clone(), None, usize::MAX, false);
        self.journal_over(Arc::new(self.store.clone()), queue)
    }

    fn journal_over(&self, store: Arc<dyn TableStore>, queue: ScheduledQueue) -> Journal {
        let timing = Timing::new(LEASE, CLIENT, SERVER).unwrap();
        let mut journal = Journal::new(store, entities_table(), Arc::new(self.kinds))
            .with_clearing(crate::patterns::journal::Clearing::BeforeAnswer)
            .with_timing(timing);
        if self.queued {
            journal = journal.with_queue(Arc::new(queue));
        }
        journal
    }

    /// Reads an entity, then writes a value or deletes the entity. Repeats that after an error, up to `attempts`
    /// times.
    pub(super) fn writer(
        &self,
        task: usize,
        id: &'static str,
        value: Option<&'static str>,
        attempts: usize,
    ) -> BoxFuture<'static, ()> {
        let (model, journal) = (self.clone(), self.journal(task));
        Box::pin(async move {
            for attempt in 0..attempts {
                let Ok(old) = journal
                    .store()
                    .get(&entities_table(), &key(id).unwrap(), None)
                    .await
                else {
                    return;
                };
                let mark = format!("{task}.{attempt}");
                let new = value.map(|v| {
                    Entity::from(key(id).unwrap())
                        .with(VALUE, v)
                        .with(MARK, mark.as_str())
                });
                let change = match (old, new) {
                    (None, None) => return,
                    (None, Some(new)) => Change::insert(new),
                    (Some(old), None) => Change::delete(old),
                    (Some(old), Some(new)) => Change::replace(old, new),
                };
                let step = model
                    .lineage
                    .as_ref()
                    .map(|lineage| lineage.begin(&change, &mark));
                let result = journal.write(&[change], Acknowledge::Applied).await;
                if let (Some(lineage), Some(step)) = (&model.lineage, step) {
                    lineage.end(step, result.as_ref().err().map(|error| error.outcome()));
                }
                model.acknowledgements.add(&model.scheduler, mark, &result);
                if result.is_ok() {
                    return;
                }
            }
        })
    }

    /// Moves an entity. Fails if the target exists, except with `replaces`.
    pub(super) fn mover(
        &self,
        task: usize,
        from: &'static str,
        to: &'static str,
        replaces: bool,
    ) -> BoxFuture<'static, ()> {
        let (model, journal) = (self.clone(), self.journal(task));
        Box::pin(async move {
            let check = |there: &Entity| match replaces {
                true => Ok(()),
                false => Err(Error::application(format!("{} is there", there.key()))),
            };
            let moved = journal
                .mover()
                .move_entity(&key(from).unwrap(), &key(to).unwrap(), &check)
                .await;
            model
                .acknowledgements
                .add_move(&model.scheduler, mark_of_move(task), &moved);
        })
    }

    /// Performs actions one after the other, whatever their results.
    pub(super) fn acting_process(
        &self,
        task: usize,
        actions: Vec<WriteAction>,
    ) -> BoxFuture<'static, ()> {
        let (model, journal) = (self.clone(), self.journal(task));
        Box::pin(async move {
            for (n, action) in actions.into_iter().enumerate() {
                let mark = format!("{task}.{n}");
                let Ok(Some(change)) = action.change(&journal, &mark).await else {
                    continue;
                };
                let result = journal.write(&[change], Acknowledge::Applied).await;
                model.acknowledgements.add(&model.scheduler, mark, &result);
            }
        })
    }

    /// Processes tickets `rounds` times, a lease apart.
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

    /// Sweeps `rounds` times, a lease apart.
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

    /// Runs the workers, then the sweep. Returns the violation, if there is one.
    pub(super) fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let model = self.clone();
        Box::pin(async move { Ok(model.judge().await?.err()) })
    }

    async fn judge(&self) -> Result<Verdict> {
        if self.queued {
            run_workers(&self.messages, &self.unscheduled_journal()).await?;
            if let Err(wrong) = self.check(Phase::Worked).await? {
                return Ok(Err(format!("after the workers: {wrong}")));
            }
        }
        // The first sweep inserts abort rows to release reservations. The second one removes them.
        for _ in 0..2 {
            self.unscheduled_journal()
                .sweep(&unique_tables(), Duration::ZERO)
                .await?;
        }
        let swept = self
            .check(Phase::Swept)
            .await?
            .map_err(|wrong| format!("after the sweep: {wrong}"));
        if let (Ok(()), Some(lineage)) = (&swept, &self.lineage) {
            let rows = self
                .store
                .query_all(&entities_table(), &Query::new())
                .await?;
            if let Err(wrong) = lineage.check(&self.scheduler, &rows) {
                return Ok(Err(wrong));
            }
        }
        Ok(swept.and_then(|()| self.acknowledgements.check(&self.scheduler)))
    }

    async fn check(&self, phase: Phase) -> Result<Verdict> {
        let final_state = FinalState::read(
            &self.store,
            &entities_table(),
            &TABLES,
            &self.messages,
            phase,
        )
        .await?;
        match final_state.check_evidence() {
            Ok(()) => {
                final_state
                    .check_entries(&self.store, &entities_table(), |entity| {
                        self.kinds.entries(entity)
                    })
                    .await
            }
            wrong => Ok(wrong),
        }
    }
}

/// An action of a process on an entity.
#[derive(Clone, Copy, Debug)]
pub(super) enum WriteAction {
    /// Inserts the entity with a value. Reads nothing before.
    Insert(&'static str, &'static str),
    /// Replaces the entity by itself, with a new mark.
    Touch(&'static str),
    /// Replaces the value.
    Give(&'static str, &'static str),
    Delete(&'static str),
}

impl WriteAction {
    /// The change that the action writes; `None` if there is no entity.
    async fn change(self, journal: &Journal, mark: &str) -> Result<Option<Change>> {
        let (Self::Insert(id, _) | Self::Touch(id) | Self::Give(id, _) | Self::Delete(id)) = self;
        let entity = |value: &str| Ok(Entity::from(key(id)?).with(VALUE, value).with(MARK, mark));
        if let Self::Insert(_, value) = self {
            return entity(value).map(Change::insert).map(Some);
        }
        let Some(old) = journal
            .store()
            .get(&entities_table(), &key(id)?, None)
            .await?
        else {
            return Ok(None);
        };
        Ok(Some(match self {
            Self::Give(_, value) => Change::replace(old, entity(value)?),
            Self::Delete(_) => Change::delete(old),
            Self::Insert(..) | Self::Touch(_) => {
                let touched = Entity::from_parts(old.key().clone(), old.properties().clone())
                    .with(MARK, mark);
                Change::replace(old, touched)
            }
        }))
    }
}

/// The retry policy of a program: attempts within the client's part of a request's life.
fn retries() -> RetryPolicy {
    let policy = RetryPolicy::default()
        .with_max_attempts(3)
        .with_seed(1)
        .with_write_ids();
    policy
        .with_delays(Duration::from_millis(5), Duration::from_millis(20))
        .with_deadline(Some(CLIENT))
}

fn unique_tables() -> Vec<TableName> {
    vec![TableName::new("Names").unwrap()]
}
