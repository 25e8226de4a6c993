//! A store whose requests wait for the scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::{Continuation, Query, ReadablePage, Select};
use table_core::store::{
    GroupTransaction, Operation, Result, StoreContext, TableStore, TableStoreExt, Written,
};

use super::final_state::journal_key;
use super::footprint::Footprint;
use super::ids::sending_task;
use super::scheduler::Scheduler;

/// The property that identifies the write that produced an entity.
pub(super) const MARK: &str = "By";

/// A property that no entity has: uniqueness is not checked.
pub(super) const UNWATCHED: &str = "none";

/// The connection of one task to the shared store.
#[derive(Debug)]
pub(super) struct ScheduledStore {
    /// Of the process alone: it does not see the other processes' changes of manifests at once.
    pub(super) context: StoreContext,
    pub(super) store: MemoryStore,
    pub(super) scheduler: Scheduler,
    pub(super) task: usize,
    /// The table whose commits are recorded, and the property that must be unique in it after every write.
    pub(super) watched: (TableName, &'static str),
    /// Whether requests wait for the scheduler. Before that they run at once.
    pub(super) live: Arc<AtomicBool>,
    /// Whether a write is a violation.
    pub(super) reads_only: bool,
}

impl ScheduledStore {
    async fn read<T: Send + 'static>(
        &self,
        footprint: Footprint,
        run: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if !self.live.load(Ordering::SeqCst) {
            return run.await;
        }
        let label = format!("read {footprint:?}");
        self.scheduler
            .request(
                sending_task(self.task),
                footprint,
                true,
                || label.clone(),
                Box::pin(run),
            )
            .await
    }

    async fn change<T: Send + 'static>(
        &self,
        footprint: Footprint,
        label: impl Fn() -> String,
        run: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        if !self.live.load(Ordering::SeqCst) {
            return run.await;
        }
        // Every process may write its registration.
        let is_registration = footprint.is_of("process~");
        if self.reads_only && !is_registration {
            self.scheduler
                .report_violation(format!("a reporting scrub writes: {}", label()));
        }
        self.scheduler
            .request(sending_task(self.task), footprint, false, label, run)
            .await
    }
}

#[async_trait]
impl TableStore for ScheduledStore {
    table_core::forward_to_store!(self => self.store;
        profile, create_table, delete_table, list_tables);

    fn context(&self) -> &StoreContext {
        &self.context
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let footprint = Footprint::rows(
            table.as_str(),
            key.partition(),
            vec![key.row().to_owned()],
            false,
        );
        let (store, table, key, select) = (
            self.store.clone(),
            table.clone(),
            key.clone(),
            select.cloned(),
        );
        self.read(footprint, async move {
            store.get(&table, &key, select.as_ref()).await
        })
        .await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let footprint = Footprint::of_query(table.as_str(), query);
        let (store, table, query, from) = (
            self.store.clone(),
            table.clone(),
            query.clone(),
            from.cloned(),
        );
        self.read(footprint, async move {
            store.query(&table, &query, from.as_ref()).await
        })
        .await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let key = operation.key();
        let footprint = Footprint::rows(
            table.as_str(),
            key.partition(),
            vec![key.row().to_owned()],
            true,
        );
        let (store, table, sent) = (self.store.clone(), table.clone(), operation.clone());
        let task = self.task;
        let watch = Watch {
            scheduler: self.scheduler.clone(),
            watched: self.watched.clone(),
        };
        let run = Box::pin(async move {
            let marks = match sent {
                Operation::Merge(..) if table == watch.watched.0 => marks([&sent], task),
                _ => Vec::new(),
            };
            let written = store.write(&table, sent).await?;
            marks
                .iter()
                .for_each(|mark| watch.scheduler.committed(mark));
            watch.took_effect(&store).await?;
            Ok(written)
        });
        self.change(
            footprint,
            || format!("{} {}", operation.kind().name(), operation.key()),
            run,
        )
        .await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let rows = group
            .operations()
            .iter()
            .map(|o| o.key().row().to_owned())
            .collect();
        let footprint = Footprint::rows(table.as_str(), group.partition().as_str(), rows, true);
        let label = || {
            let named = group
                .operations()
                .iter()
                .map(|o| format!("{} {}", o.kind().name(), o.key()));
            named.collect::<Vec<_>>().join(", ")
        };
        let (sent, task) = (group.clone(), self.task);
        let (store, table) = (self.store.clone(), table.clone());
        let watch = Watch {
            scheduler: self.scheduler.clone(),
            watched: self.watched.clone(),
        };
        let run = Box::pin(async move {
            let marks = if table == watch.watched.0 {
                marks(sent.operations(), task)
            } else {
                Vec::new()
            };
            let written = store.transact(&table, sent).await?;
            marks
                .iter()
                .for_each(|mark| watch.scheduler.committed(mark));
            watch.took_effect(&store).await?;
            Ok(written)
        });
        self.change(footprint, label, run).await
    }
}

fn marks<'a>(operations: impl IntoIterator<Item = &'a Operation>, task: usize) -> Vec<String> {
    let entities = operations.into_iter().filter_map(Operation::entity);
    let marks = entities.filter_map(|e| match e.get(MARK) {
        _ if e.get("JournalSource0").is_some() => Some(mark_of_move(task)),
        Some(ValueRef::String(mark)) if crate::patterns::index::Entry::index_of(e).is_none() => {
            Some(mark.to_owned())
        }
        _ => None,
    });
    marks.collect()
}

/// The mark of the move of a task.
pub(super) fn mark_of_move(task: usize) -> String {
    format!("move {task}")
}

/// Checks uniqueness after every write.
struct Watch {
    scheduler: Scheduler,
    watched: (TableName, &'static str),
}

impl Watch {
    /// Reports a violation if two entities have one value. Adds the effects of the write to the history.
    async fn took_effect(&self, store: &MemoryStore) -> Result<()> {
        let (table, property) = &self.watched;
        if *property == UNWATCHED && !self.scheduler.keeps_history() {
            return Ok(());
        }
        let mut seen = std::collections::BTreeSet::new();
        let rows = store.query_all(table, &Query::new()).await?;
        self.scheduler.observe(&rows);
        // The source of a committed move is not counted: its journal row says that the target is the entity now.
        let is_left = |entity: &Entity| {
            let moved =
                journal_key(entity).and_then(|key| rows.iter().find(|row| *row.key() == key));
            moved.is_some_and(|row| row.get("JournalKind") == Some(ValueRef::String("write")))
        };
        for entity in rows.iter().filter(|entity| !is_left(entity)) {
            if let Some(ValueRef::String(value)) = entity.get(property)
                && crate::patterns::index::Entry::index_of(entity).is_none()
                && !seen.insert(value.to_owned())
            {
                self.scheduler
                    .report_violation(format!("two entities hold {value:?}"));
            }
        }
        Ok(())
    }
}
