//! The table of a [`Library`], its index, and the processes there.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, TableName, ValueRef};
use table_core::store::{Operation, Result, TableStore, TableStoreExt};
use tokio::time::sleep;

use super::library::{Keeping, Kind, Library};
use super::queue::{Messages, StagedQueue};
use super::scene::Write;
use super::stage::Stage;
use super::store::{MARK, StagedStore};
use super::told::Told;
use super::world::{CLIENT, LEASE, SERVER};
use crate::index::{
    Index, IndexOptions, IndexedEntities, Location, Payload, Placement, ScrubMode, ScrubReport, Shape, Stored,
};
use crate::journal::{Change, Recovery, Timing};

pub(super) const VALUE: &str = "Value";
pub(super) const INDEX: &str = "late";
/// The value of an entry that is one too many.
pub(super) const STRAY: &str = "stray";
/// How often a writer tries.
const ATTEMPTS: usize = 2;

/// The table, its index and the queue.
#[derive(Clone)]
pub(super) struct Shelf {
    pub(super) of: Library,
    pub(super) stage: Stage,
    pub(super) store: MemoryStore,
    pub(super) messages: Messages,
    pub(super) told: Told,
    /// How many builders or scrubbers came to their end.
    pub(super) kept: Arc<AtomicUsize>,
    pub(super) reports: Arc<Mutex<Vec<ScrubReport>>>,
}

pub(super) fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

/// Entities share a partition, so that groups of them can be written.
fn key(id: &str) -> Key {
    Key::new("p", id).unwrap()
}

fn entity(id: &str, value: &str) -> Entity {
    Entity::from(key(id)).with(VALUE, value)
}

pub(super) fn index(kind: Kind) -> Index {
    let placement = match kind {
        Kind::Beside | Kind::UniqueBeside => Placement::SamePartition,
        _ => Placement::OtherTable(table("Late")),
    };
    let index = Index::new(INDEX, placement, "1", move |e| {
        let Some(ValueRef::String(value)) = e.get(VALUE) else { return Ok(None) };
        match kind {
            Kind::Rows => Key::new(value, e.key().row()),
            Kind::Unique | Kind::Lists => Key::new(value, ""),
            Kind::Beside => Key::new("p", format!("late_{value}_{}", e.key().row())),
            Kind::UniqueBeside => Key::new("p", format!("late_{value}")),
        }
        .map(Some)
    });
    // Who wrote the entity: an entry that holds what it was before is wrong.
    let payload = Payload::fields([MARK]);
    match kind {
        Kind::Unique => index.unique_within_table(),
        Kind::Lists => index.with_shape(Shape::LIST),
        Kind::Rows | Kind::Beside => index.with_payload(payload),
        Kind::UniqueBeside => index.unique_within_partition().with_payload(payload),
    }
}

impl Shelf {
    pub(super) async fn new(stage: &Stage, of: Library) -> Result<Self> {
        let (store, messages, told) = (MemoryStore::new(), Messages::default(), Told::default());
        store.create_table(&table("People")).await?;
        store.create_table(&table("Late")).await?;
        let (kept, reports) = (Arc::default(), Arc::default());
        let shelf = Self { of, stage: stage.clone(), store, messages, told, kept, reports };
        let knows = if of.keeping == Keeping::Build { Vec::new() } else { vec![index(of.kind)] };
        let founder = shelf.open(None, knows).await?;
        for (id, value) in of.start {
            founder.insert(entity(id, value)).await?;
        }
        if matches!(of.keeping, Keeping::Repair | Keeping::Report) {
            shelf.damage().await?;
        }
        Ok(shelf)
    }

    fn entry_at(&self, entity: &Entity) -> Result<Location> {
        Ok(index(self.of.kind).entries(&table("People"), entity)?.remove(0).location)
    }

    /// Takes the entry of the first entity away, and adds one that no entity has.
    async fn damage(&self) -> Result<()> {
        let (id, value) = self.of.start[0];
        let (lost, stray) = (self.entry_at(&entity(id, value))?, self.entry_at(&entity(id, STRAY))?);
        let row = self.store.get_existing(&lost.table, &lost.key).await?;
        self.store.write(&lost.table, Operation::Delete(lost.key, IfMatch::Any)).await?;
        self.store.write(&stray.table, Operation::Insert(row.with_key(stray.key))).await.map(drop)
    }

    /// A process; one with a task waits for its turn from now on.
    pub(super) async fn open(&self, task: Option<usize>, indexes: Vec<Index>) -> Result<IndexedEntities> {
        let mut options = IndexOptions::local();
        options.timing = Timing::new(LEASE, CLIENT, SERVER)?;
        if self.of.queued {
            options.queue = Some(Arc::new(self.queue(task)));
        }
        let Some(task) = task else {
            let store = Arc::new(self.store.clone());
            return IndexedEntities::open(store, table("People"), indexes, options).await;
        };
        let live = Arc::new(AtomicBool::new(false));
        let store = Arc::new(self.staged(task, live.clone()));
        let people = IndexedEntities::open(store, table("People"), indexes, options).await?;
        live.store(true, Ordering::SeqCst);
        Ok(people.breaking(self.of.broken))
    }

    fn queue(&self, task: Option<usize>) -> StagedQueue {
        let stage = task.map(|_| self.stage.clone());
        StagedQueue::new(self.messages.clone(), stage, task.unwrap_or(usize::MAX), task.is_some())
    }

    fn staged(&self, task: usize, live: Arc<AtomicBool>) -> StagedStore {
        // While the index is not there yet, or not any more, two may have one value.
        let is_unique =
            matches!(self.of.kind, Kind::Unique | Kind::UniqueBeside) && self.of.has_it_throughout();
        StagedStore {
            store: self.store.clone(),
            stage: self.stage.clone(),
            task,
            watched: (table("People"), if is_unique { VALUE } else { "none" }),
            live,
            reads_only: self.of.keeping == Keeping::Report && task == self.of.groups.len(),
        }
    }

    /// Reads a group's entities and writes the group. Tries again where others are quicker.
    pub(super) async fn writer(
        &self,
        task: usize,
        group: &'static [Write],
    ) -> Result<BoxFuture<'static, ()>> {
        let (people, shelf) = (self.open(Some(task), vec![index(self.of.kind)]).await?, self.clone());
        Ok(Box::pin(async move {
            if shelf.of.after > Duration::ZERO {
                sleep(shelf.of.after).await;
            }
            for attempt in 0..ATTEMPTS {
                let mark = format!("{task}.{attempt}");
                let Ok(changes) = changes(&people, group, &mark).await else { return };
                if changes.is_empty() {
                    return;
                }
                let answer = people.write(&changes).await;
                shelf.told.add(&shelf.stage, mark, &answer);
                if answer.is_ok() {
                    return;
                }
            }
        }))
    }

    /// Who builds, scrubs or drops.
    pub(super) async fn keeper(&self, task: usize, number: usize) -> Result<BoxFuture<'static, ()>> {
        let (people, shelf) = (self.open(Some(task), vec![index(self.of.kind)]).await?, self.clone());
        Ok(Box::pin(async move {
            let begins = shelf.of.every * number as u32;
            if begins > Duration::ZERO {
                sleep(begins).await;
            }
            let done = shelf.keep(&people, number).await;
            shelf.stage.note(|| format!("task {task} ends with {done:?}"));
            shelf.kept.fetch_add(usize::from(done.is_ok()), Ordering::SeqCst);
        }))
    }

    pub(super) async fn keep(&self, people: &IndexedEntities, number: usize) -> Result<()> {
        match self.of.keeping {
            Keeping::Nothing => Ok(()),
            Keeping::Build => people.build(INDEX)?.run().await.map(drop),
            Keeping::Repair => people.scrub(INDEX, ScrubMode::Repair).await.map(drop),
            Keeping::Report => {
                let report = people.scrub(INDEX, ScrubMode::Report).await?;
                self.reports.lock().unwrap().push(report);
                Ok(())
            }
            Keeping::Rebuild if number > 0 => {
                people.drop_index(INDEX).await?;
                people.build(INDEX)?.run().await.map(drop)
            }
            Keeping::Drop | Keeping::Rebuild => people.drop_index(INDEX).await,
        }
    }

    pub(super) async fn worker(&self, task: usize) -> Result<BoxFuture<'static, ()>> {
        let people = self.open(Some(task), vec![index(self.of.kind)]).await?;
        let queue = self.queue(Some(task));
        Ok(Box::pin(async move {
            let _lost = Recovery::new(&queue, vec![people.journal()]).run_once(8).await;
        }))
    }
}

/// What brings a group's entities to their values; nothing where that changes nothing.
async fn changes(people: &IndexedEntities, group: &[Write], mark: &str) -> Result<Vec<Change>> {
    let mut changes = Vec::with_capacity(group.len());
    for (id, value) in group {
        let old = people.get(&key(id)).await?.map(Stored::into_inner);
        let new = value.map(|value| entity(id, value).with(MARK, mark));
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => changes.push(Change::insert(new)),
            (Some(old), None) => changes.push(Change::delete(old)),
            (Some(old), Some(new)) => changes.push(Change::replace(old, new)),
        }
    }
    Ok(changes)
}
