//! Windows of rows: what a copy or a backup reads before it writes.

use table_core::model::{Entity, Key, MANIFEST_PARTITION, SYSTEM_PREFIX, TableName};
use table_core::query::{Continuation, Query};
use table_core::store::{CycleDetector, Result, TableStore, check_progress};

/// The start of the RowKeys of the manifest's rows of processes.
const PROCESS: &str = "process~";

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
            let page = self.store.query(self.table, &self.query, next.as_ref()).await?;
            // A window may end here, and the detector with it.
            check_progress(next.as_ref(), page.continuation.as_ref(), page.items.len())?;
            if let Some(next) = &page.continuation {
                cycles.add(next, page.items.len())?;
            }
            bytes += page.items.iter().map(|row| row.properties().as_packed().len()).sum::<usize>();
            rows.extend(page.items.into_iter().filter(|row| !is_of_one_store(row.key())));
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
    let is_checkpoint = key.partition().strip_prefix(SYSTEM_PREFIX) == Some("copy");
    is_checkpoint || key.partition() == MANIFEST_PARTITION && key.row().starts_with(PROCESS)
}
