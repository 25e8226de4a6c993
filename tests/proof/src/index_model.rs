//! The model of an [`IndexScene`]: the table, its index, and the processes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, TableName, ValueRef};
use table_core::store::{
    Operation, Result, ServiceProfile, StoreContext, TableStore, TableStoreExt,
};
use tokio::time::sleep;

use super::acknowledgements::Acknowledgements;
use super::index_scene::{EntryKind, IndexScene, Maintenance};
use super::journal_model::{CLIENT, LEASE, SERVER};
use super::journal_scene::Write;
use super::scheduled_queue::{Messages, ScheduledQueue};
use super::scheduled_store::{MARK, ScheduledStore};
use super::scheduler::Scheduler;
use crate::patterns::index::{
    Index, IndexOptions, IndexedEntities, Location, Payload, Placement, ScrubMode, ScrubReport,
    Shape, Stored,
};
use crate::patterns::journal::{Change, Recovery, Timing};

pub(super) const VALUE: &str = "Value";
pub(super) const INDEX: &str = "late";
/// The value of the dangling entry.
pub(super) const STRAY: &str = "stray";
/// The number of attempts of a writer.
const ATTEMPTS: usize = 2;

/// The table, its index, the queue, and the answers of the writers.
#[derive(Clone)]
pub(super) struct IndexModel {
    pub(super) scene: IndexScene,
    pub(super) scheduler: Scheduler,
    pub(super) store: MemoryStore,
    pub(super) messages: Messages,
    pub(super) acknowledgements: Acknowledgements,
    /// The number of finished builds, scrubs or drops.
    pub(super) finished: Arc<AtomicUsize>,
    pub(super) reports: Arc<Mutex<Vec<ScrubReport>>>,
}

pub(super) fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

/// All entities are in one partition, so that a group can write several.
fn key(id: &str) -> Key {
    Key::new("p", id).unwrap()
}

fn entity(id: &str, value: &str) -> Entity {
    Entity::from(key(id)).with(VALUE, value)
}

pub(super) fn index(kind: EntryKind) -> Index {
    let placement = match kind {
        EntryKind::Local | EntryKind::UniqueLocal => Placement::SamePartition,
        _ => Placement::OtherTable(table("Late")),
    };
    let index = Index::new(INDEX, placement, "1", move |e| {
        let Some(ValueRef::String(value)) = e.get(VALUE) else {
            return Ok(None);
        };
        match kind {
            EntryKind::Rows => Key::new(value, e.key().row()),
            EntryKind::Unique | EntryKind::Lists => Key::new(value, ""),
            EntryKind::Local => Key::new("p", format!("late_{value}_{}", e.key().row())),
            EntryKind::UniqueLocal => Key::new("p", format!("late_{value}")),
        }
        .map(Some)
    });
    // The mark shows which version of the entity an entry holds.
    let payload = Payload::fields([MARK]);
    match kind {
        EntryKind::Unique => index.unique_within_table(),
        EntryKind::Lists => index.with_shape(Shape::LIST),
        EntryKind::Rows | EntryKind::Local => index.with_payload(payload),
        EntryKind::UniqueLocal => index.unique_within_partition().with_payload(payload),
    }
}

impl IndexModel {
    pub(super) async fn new(scheduler: &Scheduler, scene: IndexScene) -> Result<Self> {
        let (store, messages, acknowledgements) = (
            MemoryStore::new(),
            Messages::default(),
            Acknowledgements::default(),
        );
        store.create_table(&table("People")).await?;
        store.create_table(&table("Late")).await?;
        let (finished, reports) = (Arc::default(), Arc::default());
        let model = Self {
            scene,
            scheduler: scheduler.clone(),
            store,
            messages,
            acknowledgements,
            finished,
            reports,
        };
        let knows = if scene.maintenance == Maintenance::Build {
            Vec::new()
        } else {
            vec![index(scene.kind)]
        };
        let founder = model.open(None, knows).await?;
        for (id, value) in scene.start {
            founder.insert(entity(id, value)).await?;
        }
        if matches!(scene.maintenance, Maintenance::Repair | Maintenance::Report) {
            model.damage().await?;
        }
        Ok(model)
    }

    fn entry_at(&self, entity: &Entity) -> Result<Location> {
        Ok(index(self.scene.kind)
            .entries(&table("People"), entity)?
            .remove(0)
            .location)
    }

    /// Removes the entry of the first entity, and adds a dangling entry.
    async fn damage(&self) -> Result<()> {
        let (id, value) = self.scene.start[0];
        let (lost, stray) = (
            self.entry_at(&entity(id, value))?,
            self.entry_at(&entity(id, STRAY))?,
        );
        let row = self.store.get_existing(&lost.table, &lost.key).await?;
        self.store
            .write(&lost.table, Operation::Delete(lost.key, IfMatch::Any))
            .await?;
        self.store
            .write(&stray.table, Operation::Insert(row.with_key(stray.key)))
            .await
            .map(drop)
    }

    /// A process. With a task, its requests wait for the scheduler from now on.
    pub(super) async fn open(
        &self,
        task: Option<usize>,
        indexes: Vec<Index>,
    ) -> Result<IndexedEntities> {
        let mut options =
            IndexOptions::local().with_clearing(crate::patterns::journal::Clearing::BeforeAnswer);
        options.timing = Timing::new(LEASE, CLIENT, SERVER)?;
        if self.scene.queued {
            options.queue = Some(Arc::new(self.queue(task)));
        }
        let Some(task) = task else {
            let store = Arc::new(self.store.clone());
            return IndexedEntities::open(store, table("People"), indexes, options).await;
        };
        let live = Arc::new(AtomicBool::new(false));
        let store = Arc::new(self.scheduled(task, live.clone()));
        let people = IndexedEntities::open(store, table("People"), indexes, options).await?;
        live.store(true, Ordering::SeqCst);
        Ok(people)
    }

    fn queue(&self, task: Option<usize>) -> ScheduledQueue {
        let scheduler = task.map(|_| self.scheduler.clone());
        ScheduledQueue::new(
            self.messages.clone(),
            scheduler,
            task.unwrap_or(usize::MAX),
            task.is_some(),
        )
    }

    fn scheduled(&self, task: usize, live: Arc<AtomicBool>) -> ScheduledStore {
        // Before the build and after the drop, two entities may have one value.
        let is_unique = matches!(self.scene.kind, EntryKind::Unique | EntryKind::UniqueLocal)
            && self.scene.has_it_throughout();
        ScheduledStore {
            context: StoreContext::new(&ServiceProfile::LOCAL),
            store: self.store.clone(),
            scheduler: self.scheduler.clone(),
            task,
            watched: (table("People"), if is_unique { VALUE } else { "none" }),
            live,
            reads_only: self.scene.maintenance == Maintenance::Report
                && task == self.scene.groups.len(),
        }
    }

    /// Reads the entities of a group and writes the group. Repeats that after a conflict.
    pub(super) async fn writer(
        &self,
        task: usize,
        group: &'static [Write],
    ) -> Result<BoxFuture<'static, ()>> {
        let (people, model) = (
            self.open(Some(task), vec![index(self.scene.kind)]).await?,
            self.clone(),
        );
        Ok(Box::pin(async move {
            if model.scene.writers_start > Duration::ZERO {
                sleep(model.scene.writers_start).await;
            }
            for attempt in 0..ATTEMPTS {
                let mark = format!("{task}.{attempt}");
                let Ok(changes) = changes(&people, group, &key, |id, value| {
                    entity(id, value).with(MARK, mark.as_str())
                })
                .await
                else {
                    return;
                };
                if changes.is_empty() {
                    return;
                }
                let answer = people.write(&changes).await;
                model.acknowledgements.add(&model.scheduler, mark, &answer);
                if answer.is_ok() {
                    return;
                }
            }
        }))
    }

    /// The task that builds, scrubs or drops.
    pub(super) async fn maintainer(
        &self,
        task: usize,
        number: usize,
    ) -> Result<BoxFuture<'static, ()>> {
        let (people, model) = (
            self.open(Some(task), vec![index(self.scene.kind)]).await?,
            self.clone(),
        );
        Ok(Box::pin(async move {
            let begins = model.scene.interval * number as u32;
            if begins > Duration::ZERO {
                sleep(begins).await;
            }
            let done = model.maintain(&people, number).await;
            model
                .scheduler
                .note(|| format!("task {task} ends with {done:?}"));
            model
                .finished
                .fetch_add(usize::from(done.is_ok()), Ordering::SeqCst);
        }))
    }

    pub(super) async fn maintain(&self, people: &IndexedEntities, number: usize) -> Result<()> {
        match self.scene.maintenance {
            Maintenance::Nothing => Ok(()),
            Maintenance::Build => people.build(INDEX)?.run().await.map(drop),
            Maintenance::Repair => people.scrub(INDEX, ScrubMode::Repair).await.map(drop),
            Maintenance::Report => {
                let report = people.scrub(INDEX, ScrubMode::Report).await?;
                self.reports.lock().unwrap().push(report);
                Ok(())
            }
            Maintenance::Rebuild if number > 0 => {
                people.drop_index(INDEX).await?;
                people.build(INDEX)?.run().await.map(drop)
            }
            Maintenance::Drop | Maintenance::Rebuild => people.drop_index(INDEX).await,
        }
    }

    pub(super) async fn worker(&self, task: usize) -> Result<BoxFuture<'static, ()>> {
        let people = self.open(Some(task), vec![index(self.scene.kind)]).await?;
        let queue = self.queue(Some(task));
        Ok(Box::pin(async move {
            let _lost = Recovery::new(&queue, vec![people.journal()])
                .run_once(8)
                .await;
        }))
    }
}

/// The changes that give the entities of a group their values.
pub(super) async fn changes(
    people: &IndexedEntities,
    group: &[Write],
    key: &(impl Fn(&str) -> Key + Sync),
    entity: impl Fn(&str, &str) -> Entity,
) -> Result<Vec<Change>> {
    let mut changes = Vec::with_capacity(group.len());
    for (id, value) in group {
        let old = people.get(&key(id)).await?.map(Stored::into_inner);
        let new = value.map(|value| entity(id, value));
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => changes.push(Change::insert(new)),
            (Some(old), None) => changes.push(Change::delete(old)),
            (Some(old), Some(new)) => changes.push(Change::replace(old, new)),
        }
    }
    Ok(changes)
}
