//! Windows of rows: what a copy or a backup reads before it writes; and the checkpoint row, from which a repeated job goes on.

use table_core::model::{Entity, IfMatch, Key, MANIFEST_PARTITION, SYSTEM_PREFIX, TableName};
use table_core::query::{Continuation, Query};
use table_core::store::{CycleDetector, Operation, Result, TableStore, check_progress};

use crate::rows::existed;

/// The start of the RowKeys of the manifest's rows of processes.
const PROCESS: &str = "process~";
/// The partition of checkpoint rows, after [`SYSTEM_PREFIX`].
const CHECKPOINTS: &str = "copy";

/// Rows that were read, and the continuation token of the next window.
pub(super) struct Window {
    pub(super) rows: Vec<Entity>,
    pub(super) next: Option<Continuation>,
}

/// Reads a table in windows.
#[derive(Clone, Debug)]
pub(super) struct Windows<'a> {
    pub(super) store: &'a dyn TableStore,
    pub(super) table: &'a TableName,
    pub(super) query: Query,
    /// The bounds of a window: it ends with the page that reaches one of them.
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl Windows<'_> {
    /// Reads a window. 1 request per page.
    pub(super) async fn read(&self, mut next: Option<Continuation>) -> Result<Window> {
        let (mut rows, mut bytes, mut cycles) = (Vec::new(), 0, CycleDetector::default());
        loop {
            let page = self
                .store
                .query(self.table, &self.query, next.as_ref())
                .await?
                .into_page()?;
            // Both checks: a window may end after this page, and the detector of cycles knows only the tokens of its window.
            check_progress(next.as_ref(), page.continuation.as_ref(), page.items.len())?;
            if let Some(next) = &page.continuation {
                cycles.add(next, page.items.len())?;
            }
            // Rows that are left out below count too: the bound is about memory, and the page has them.
            bytes += page
                .items
                .iter()
                .map(|row| row.properties().as_packed().len())
                .sum::<usize>();
            rows.extend(
                page.items
                    .into_iter()
                    .filter(|row| !is_of_one_store(row.key())),
            );
            next = page.continuation;
            if next.is_none() || rows.len() >= self.rows || bytes >= self.bytes {
                return Ok(Window { rows, next });
            }
        }
    }

    /// Reads the window at a continuation token; `None` after the last window.
    pub(super) async fn read_next(&self, next: Option<&Continuation>) -> Result<Option<Window>> {
        match next {
            Some(next) => self.read(Some(next.clone())).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Whether a row is of its store and not of the table's data: the checkpoint of a copy or restore, or the registration of a process
/// that writes the store. Such rows are never copied or compared.
pub(super) fn is_of_one_store(key: &Key) -> bool {
    let is_checkpoint = key.partition().strip_prefix(SYSTEM_PREFIX) == Some(CHECKPOINTS);
    is_checkpoint || key.partition() == MANIFEST_PARTITION && key.row().starts_with(PROCESS)
}

/// The row in which a copy or a restore keeps its position, in a table of the target.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint<'a> {
    store: &'a dyn TableStore,
    table: &'a TableName,
    key: Key,
}

impl<'a> Checkpoint<'a> {
    /// The row of a job with this id.
    pub(super) fn new(store: &'a dyn TableStore, table: &'a TableName, id: String) -> Result<Self> {
        Ok(Self {
            store,
            table,
            key: Key::new(format!("{SYSTEM_PREFIX}{CHECKPOINTS}"), id)?,
        })
    }

    /// The row; `None` if the job has not begun, or the table does not exist. 1 request.
    pub(super) async fn load(&self) -> Result<Option<Entity>> {
        match self.store.get(self.table, &self.key, None).await {
            Err(error) if error.is_table_not_found() => Ok(None),
            read => read,
        }
    }

    /// Writes the row with these properties. 1 request.
    pub(super) async fn save(&self, properties: impl FnOnce(Entity) -> Entity) -> Result<()> {
        let row = properties(Entity::from(self.key.clone()));
        self.store
            .write(self.table, Operation::InsertOrReplace(row))
            .await
            .map(drop)
    }

    /// Deletes the row of a finished job. 1 request.
    pub(super) async fn clear(&self) -> Result<()> {
        let delete = Operation::Delete(self.key.clone(), IfMatch::Any);
        existed(self.store.write(self.table, delete).await).map(drop)
    }
}
