use std::fmt;
use std::sync::Arc;

use futures_util::future::try_join;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use table_core::model::{Entity, TableName};
use table_core::query::{Continuation, Query};
use table_core::store::{Error, Operation, Result, TableStore, TableStoreExt as _};

use super::checkpoint::{Checkpoint, Progress, is_checkpoint};
use super::scan::scan;
use super::{BulkOptions, BulkWriter, Comparison, compare_tables};
use crate::journal::{has_mark, is_journal_row, is_pending};
use crate::large::{BlobStores, in_a_blob};

/// Rows whose blobs are copied at once.
const BLOBS: usize = 8;
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
/// source decrypts are encrypted again by the target; a target that does not encrypt is refused the whole window of rows
/// before any of it is written, so that no entity of several rows arrives in part.
///
/// Rows of [large entities](crate::large) refer to blobs by names in which the table's own name is: they come along to a table
/// of the same name [`with_blobs`](Self::with_blobs). Without, a window of rows with a row that refers to one is refused before
/// it is written, and so is verifying them, as is a row in ciphertext, whose references cannot be seen, unless [`rows_only`](Self::rows_only) says that the blobs are looked after elsewhere.
/// A write that is not finished cannot be finished in the copy, and a worker that tried would change entries of the source's tables: a
/// window of rows with a row of the [journal](crate::journal), a pending reservation or an entity that is being moved is refused before it
/// is written. [`Upkeep`](crate::upkeep::Upkeep), or a [sweep](crate::journal::Journal::sweep), finishes what was left; then run the copy
/// again.
///
/// Index entries in other tables and indexes in blobs do not come along: copy the tables, and rebuild such indexes.
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
    blobs: Option<BlobStores>,
    rows_only: bool,
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
        let (blobs, rows_only) = (None, false);
        Self { from, to, name: None, options, progress: None, window: WINDOW, blobs, rows_only }
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

    /// Copies the blobs of large entities along, each before its row, and verifies that they are there. `root` is the directory
    /// that [`LargeOptions`](crate::large::LargeOptions) names. One request to look for each blob, a read and a write for
    /// each that is missing.
    pub fn with_blobs(mut self, from: Arc<dyn ObjectStore>, to: Arc<dyn ObjectStore>, root: Path) -> Self {
        self.blobs = Some(BlobStores { from, to, root });
        self
    }

    /// Copies and verifies rows alone, also those that refer to blobs.
    pub const fn rows_only(mut self) -> Self {
        self.rows_only = true;
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
    /// The stores', with what was written before left in place; a row that the target refuses, named; a row of a write that is not
    /// finished.
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

    /// Compares the tables; see [`compare_tables`]. Of rows that refer to blobs also whether those are there
    /// ([`with_blobs`](Self::with_blobs)): another request for each page of the copy, and one for each blob.
    ///
    /// # Errors
    /// The stores'; a row refers to a blob, and neither the blob stores are given nor [`rows_only`](Self::rows_only) is said.
    pub async fn verify(&self) -> Result<Comparison> {
        let side = |(store, table): &(Arc<dyn TableStore>, TableName)| (Arc::clone(store), table.clone());
        let mut found = compare_tables(side(&self.from), side(&self.to)).await?;
        if !self.rows_only {
            let (store, table) = side(&self.to);
            let mut rows = scan(store, table, Query::new());
            while let Some(row) = rows.try_next().await? {
                match &self.blobs {
                    None => self.check_rows(std::slice::from_ref(&row))?,
                    Some(blobs) if !blobs.are_there(&self.to.1, &row).await? => {
                        found.add_missing_blob(row.key());
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(found)
    }

    /// Refuses rows whose blobs would be left behind, or could be.
    fn check_rows(&self, rows: &[Entity]) -> Result<()> {
        if let Some(row) = rows.iter().find(|row| !self.rows_only && row.is_ciphertext()) {
            return Err(Error::invalid_request(format!(
                "{} of '{}' is encrypted, and what it refers to cannot be seen: copy between stores that decrypt, or say \
                 `rows_only` and copy the blobs of large entities otherwise",
                row.key(),
                self.from.1
            )));
        }
        let Some((row, property)) = rows.iter().find_map(|row| Some((row, in_a_blob(row)?))) else {
            return Ok(());
        };
        let (table, other) = (&self.from.1, &self.to.1);
        let reason = if self.rows_only {
            return Ok(());
        } else if self.blobs.is_none() {
            "give the blob stores (`with_blobs`), or say `rows_only`"
        } else if table.to_lowercase() != other.to_lowercase() {
            "blobs are found by the table's name: copy to a table of the same name, or move the entities by their `LargeTable`"
        } else {
            return Ok(());
        };
        let key = row.key();
        Err(Error::invalid_request(format!(
            "{key} of '{table}' has the value of '{property}' in a blob: {reason}"
        )))
    }

    /// Refuses rows of writes that are not finished: their entries, in the source, are not in step, and the copy's own could not be
    /// told apart from them.
    fn check_finished(&self, rows: &[Entity]) -> Result<()> {
        let unfinished = |row: &&Entity| is_journal_row(row) || is_pending(row) || has_mark(row);
        let Some(row) = rows.iter().find(unfinished) else { return Ok(()) };
        let (key, table) = (row.key(), &self.from.1);
        Err(Error::invalid_request(format!(
            "{key} is of a write of '{table}' that is not finished: let `Upkeep` run once (or a sweep of the journal) while nobody \
             writes, and copy then"
        )))
    }

    /// Refuses rows that a target without encryption would refuse one by one, with their neighbours already written.
    fn check_marks(&self, rows: &[Entity]) -> Result<()> {
        if self.to.0.profile().encrypts {
            return Ok(());
        }
        let mut marked = rows.iter().flat_map(|row| {
            let properties = row.properties().iter();
            properties.filter(|p| p.is_encrypted()).map(move |p| (row.key(), p.name().to_owned()))
        });
        let Some((key, name)) = marked.next() else { return Ok(()) };
        Err(Error::invalid_request(format!(
            "the property '{name}' of {key} is encrypted in '{}', and the target of the copy does not encrypt: copy to an encrypting \
             store, or copy the ciphertext, from the store that is wrapped to a table of the same name, as `rows_only`",
            self.from.1
        )))
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
        self.check_rows(&rows)?;
        self.check_finished(&rows)?;
        self.check_marks(&rows)?;
        if let Some(blobs) = self.blobs.as_ref().filter(|_| !self.rows_only) {
            let copies =
                stream::iter(&rows).map(Ok).try_for_each_concurrent(BLOBS, |row| blobs.copy(&table, row));
            copies.await?;
        }
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
