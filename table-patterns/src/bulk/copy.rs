use std::fmt;
use std::sync::Arc;

use futures_util::future::try_join;
use futures_util::stream;
use table_core::model::{Entity, TableName};
use table_core::query::{Continuation, Query};
use table_core::store::{Operation, Result, TableStore, TableStoreExt as _};

use super::checkpoint::{Checkpoint, Progress, is_checkpoint};
use super::{BulkOptions, BulkWriter, Comparison, compare_tables};

/// Entities in a page that is copied.
const PAGE: usize = 1000;
/// Rows that are read before they are written, unless told otherwise.
const WINDOW: usize = 10_000;
/// The same in bytes of properties.
pub(crate) const WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// Copies a table, row by row as it is, between any two stores: memory, embedded, Azure.
///
/// Rows of patterns (index entries, chunks) come along, so that what was whole stays whole, if nobody
/// writes meanwhile. Rows that are in the target are overwritten; rows only there stay. Properties that the
/// source decrypts are encrypted again by the target, or refused.
///
/// **Blobs do not come along**: rows of large entities, and indexes in blobs, refer to blobs by names in which the
/// table's own name is. Copy those first, in `large/{table}/` for [large entities](crate::large), to a target table of
/// the same name; a copy under another name cannot find them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::bulk::CopyJob;
///
/// let (from, to) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
/// let table = TableName::new("Employees")?;
/// from.create_table(&table).await?;
/// from.write(&table, Operation::Insert(Entity::new("Sales", "1")?.with("Name", "Ken"))).await?;
///
/// let job = CopyJob::new((from, table.clone()), (to, table));
/// assert_eq!(job.run().await?.rows, 1);
/// assert!(job.verify().await?.equal);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is copied until it is run"]
pub struct CopyJob {
    from: (Arc<dyn TableStore>, TableName),
    to: (Arc<dyn TableStore>, TableName),
    name: Option<String>,
    options: BulkOptions,
    progress: Option<Box<dyn Fn(u64) + Send + Sync>>,
    window: usize,
}

/// What a copy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyReport {
    /// Rows copied, by earlier runs of the job too.
    pub rows: u64,
    /// Rows that an earlier run had copied.
    pub resumed: u64,
}

/// Rows read, and where the source goes on.
struct Window {
    rows: Vec<Entity>,
    next: Option<Continuation>,
}

impl CopyJob {
    /// A copy of one table into another, which is made if it is missing. No request.
    pub fn new(from: (Arc<dyn TableStore>, TableName), to: (Arc<dyn TableStore>, TableName)) -> Self {
        let options = BulkOptions::default().stop_at_failure().write_indexed();
        Self { from, to, name: None, options, progress: None, window: WINDOW }
    }

    /// Remembers how far it came under this name, in the target: a job that was interrupted goes on
    /// there when it is run again.
    ///
    /// The name must tell the *source* too: a job of the same name and tables from another store would
    /// go on at a place that means nothing there.
    pub fn resumable(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Writes with other options. Failures end a copy, and indexed tables are written, whatever they say.
    pub fn with_options(mut self, options: BulkOptions) -> Self {
        self.options = options.stop_at_failure().write_indexed();
        self
    }

    /// Reads and writes so many rows at a time, at least 1, instead of 10,000. A named job remembers how far it
    /// came after each; fewer rows take less memory, and make smaller groups and more requests.
    pub fn with_window(mut self, rows: usize) -> Self {
        self.window = rows.max(1);
        self
    }

    /// Calls `report` with the number of rows copied so far, now and then.
    pub fn on_progress(mut self, report: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(report));
        self
    }

    /// Copies. One request a page of 1000, one a group of up to 100; with a name one more at the start and
    /// at the end, and one per window of 10,000 rows ([`with_window`](Self::with_window)).
    ///
    /// While the rows of a window are written the next are read: at most a window of each, or 16 MiB and a page, are in
    /// memory.
    ///
    /// # Errors
    /// The stores', with what was written before left in place; a row that the target refuses, named.
    pub async fn run(&self) -> Result<CopyReport> {
        let (to, table) = &self.to;
        to.create_table_if_missing(table).await?;
        let checkpoint = self.name.as_ref().map(|name| Checkpoint::new(&**to, table, name, &self.from.1));
        let checkpoint = checkpoint.transpose()?;
        let start = match &checkpoint {
            Some(checkpoint) => checkpoint.load().await?,
            None => Progress::default(),
        };
        let rows = self.copy(checkpoint.as_ref(), &start).await?;
        if let Some(checkpoint) = checkpoint {
            checkpoint.clear().await?;
        }
        Ok(CopyReport { rows, resumed: start.rows })
    }

    /// Compares the tables; see [`compare_tables`].
    ///
    /// # Errors
    /// The stores'.
    pub async fn verify(&self) -> Result<Comparison> {
        let side = |(store, table): &(Arc<dyn TableStore>, TableName)| (Arc::clone(store), table.clone());
        compare_tables(side(&self.from), side(&self.to)).await
    }

    async fn copy(&self, checkpoint: Option<&Checkpoint<'_>>, start: &Progress) -> Result<u64> {
        let mut rows = start.rows;
        let mut window = self.read(start.next.clone()).await?;
        loop {
            let next = window.next.clone();
            let ahead = async {
                match next.clone() {
                    Some(next) => self.read(Some(next)).await.map(Some),
                    None => Ok(None),
                }
            };
            let (written, ahead) = try_join(self.write(window.rows), ahead).await?;
            rows += written;
            if let Some(report) = &self.progress {
                report(rows);
            }
            if let (Some(checkpoint), Some(next)) = (checkpoint, &next) {
                checkpoint.save(next, rows).await?;
            }
            match ahead {
                Some(ahead) => window = ahead,
                None => return Ok(rows),
            }
        }
    }

    async fn read(&self, mut next: Option<Continuation>) -> Result<Window> {
        let (store, table) = &self.from;
        let query = Query::new().with_top(PAGE.min(self.window));
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            let page = store.query(table, &query, next.as_ref()).await?;
            bytes += page.items.iter().map(|row| row.properties().as_packed().len()).sum::<usize>();
            rows.extend(page.items.into_iter().filter(|row| !is_checkpoint(row.key())));
            next = page.continuation;
            if next.is_none() || rows.len() >= self.window || bytes >= WINDOW_BYTES {
                return Ok(Window { rows, next });
            }
        }
    }

    async fn write(&self, rows: Vec<Entity>) -> Result<u64> {
        let (store, table) = &self.to;
        let table = table.clone();
        let upserts = rows.into_iter().map(move |row| Ok((table.clone(), Operation::InsertOrReplace(row))));
        let writer = BulkWriter::with_options(Arc::clone(store), self.options.clone());
        writer.write(stream::iter(upserts)).await?.into_result()
    }
}

impl fmt::Debug for CopyJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyJob").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}
