//! A store whose requests wait for their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::{Continuation, Page, Query, Select};
use table_core::store::{
    GroupTransaction, Operation, Result, ServiceProfile, TableStore, TableStoreExt, Written,
};

use super::footprint::Footprint;
use super::ids::sender;
use super::stage::Stage;
use crate::journal::journal_key;

/// The property by which a write is recognized in what was committed.
pub(super) const MARK: &str = "By";

/// The property that is watched where none is.
pub(super) const UNWATCHED: &str = "none";

/// One task's way to the shared store.
#[derive(Debug)]
pub(super) struct StagedStore {
    pub(super) store: MemoryStore,
    pub(super) stage: Stage,
    pub(super) task: usize,
    /// The table whose commits are watched, and the property that no two entities may share.
    pub(super) watched: (TableName, &'static str),
    /// Whether requests wait; until then they pass.
    pub(super) live: Arc<AtomicBool>,
    /// Whether it is wrong to write.
    pub(super) reads_only: bool,
}

impl StagedStore {
    async fn read<T: Send + 'static>(
        &self,
        footprint: Footprint,
        run: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if !self.live.load(Ordering::SeqCst) {
            return run.await;
        }
        let label = format!("read {footprint:?}");
        self.stage.request(sender(self.task), footprint, true, || label.clone(), Box::pin(run)).await
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
        // A process says that it is there, whatever else it does.
        let is_registration = footprint.is_of("process~");
        if self.reads_only && !is_registration {
            self.stage.accuse(format!("a report writes: {}", label()));
        }
        self.stage.request(sender(self.task), footprint, false, label, run).await
    }
}

#[async_trait]
impl TableStore for StagedStore {
    fn profile(&self) -> &ServiceProfile {
        self.store.profile()
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.store.create_table(table).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.store.delete_table(table).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.store.list_tables(prefix, from).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        let footprint = Footprint::rows(table.as_str(), key.partition(), vec![key.row().to_owned()], false);
        let (store, table, key, select) = (self.store.clone(), table.clone(), key.clone(), select.cloned());
        self.read(footprint, async move { store.get(&table, &key, select.as_ref()).await }).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let footprint = Footprint::of_query(table.as_str(), query);
        let (store, table, query, from) = (self.store.clone(), table.clone(), query.clone(), from.cloned());
        self.read(footprint, async move { store.query(&table, &query, from.as_ref()).await }).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let key = operation.key();
        let footprint = Footprint::rows(table.as_str(), key.partition(), vec![key.row().to_owned()], true);
        let (store, table, sent) = (self.store.clone(), table.clone(), operation.clone());
        let task = self.task;
        let watch = Watch { stage: self.stage.clone(), watched: self.watched.clone() };
        let run = Box::pin(async move {
            let marks = match sent {
                Operation::Merge(..) if table == watch.watched.0 => marks([&sent], task),
                _ => Vec::new(),
            };
            let written = store.write(&table, sent).await?;
            marks.iter().for_each(|mark| watch.stage.committed(mark));
            watch.took_effect(&store).await?;
            Ok(written)
        });
        self.change(footprint, || format!("{} {}", operation.kind().name(), operation.key()), run).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let rows = group.operations().iter().map(|o| o.key().row().to_owned()).collect();
        let footprint = Footprint::rows(table.as_str(), group.partition().as_str(), rows, true);
        let label = || {
            let named = group.operations().iter().map(|o| format!("{} {}", o.kind().name(), o.key()));
            named.collect::<Vec<_>>().join(", ")
        };
        let (sent, task) = (group.clone(), self.task);
        let (store, table) = (self.store.clone(), table.clone());
        let watch = Watch { stage: self.stage.clone(), watched: self.watched.clone() };
        let run = Box::pin(async move {
            let marks = if table == watch.watched.0 { marks(sent.operations(), task) } else { Vec::new() };
            let written = store.transact(&table, sent).await?;
            marks.iter().for_each(|mark| watch.stage.committed(mark));
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
        Some(ValueRef::String(mark)) if crate::index::Entry::index_of(e).is_none() => Some(mark.to_owned()),
        _ => None,
    });
    marks.collect()
}

/// The mark of the move of a task.
pub(super) fn mark_of_move(task: usize) -> String {
    format!("move {task}")
}

/// Looks at what there is after every effect.
struct Watch {
    stage: Stage,
    watched: (TableName, &'static str),
}

impl Watch {
    /// Accuses where two entities have one value.
    async fn took_effect(&self, store: &MemoryStore) -> Result<()> {
        let (table, property) = &self.watched;
        if *property == UNWATCHED {
            return Ok(());
        }
        let mut seen = std::collections::BTreeSet::new();
        let rows = store.query_all(table, &Query::new()).await?;
        // What a committed move has left and is yet to delete is not the entity any more.
        let is_left = |entity: &Entity| {
            let moved = journal_key(entity).and_then(|key| rows.iter().find(|row| *row.key() == key));
            moved.is_some_and(|row| row.get("JournalKind") == Some(ValueRef::String("write")))
        };
        for entity in rows.iter().filter(|entity| !is_left(entity)) {
            if let Some(ValueRef::String(value)) = entity.get(property)
                && crate::index::Entry::index_of(entity).is_none()
                && !seen.insert(value.to_owned())
            {
                self.stage.accuse(format!("two entities hold {value:?}"));
            }
        }
        Ok(())
    }
}
