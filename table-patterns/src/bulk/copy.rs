//! Copies one table.

use std::fmt;
use std::sync::Arc;

use futures_util::future::try_join;
use futures_util::{TryStreamExt as _, stream};
#[cfg(feature = "blobs")]
use object_store::ObjectStore;
#[cfg(feature = "blobs")]
use object_store::path::Path;
use sha2::{Digest, Sha256};
use table_core::manifest::{Layout, Manifest};
use table_core::model::{ENCRYPTION_HEADERS, Entity, MANIFEST_PARTITION, TableName, ValueRef};
use table_core::query::{Continuation, Filter, Query, Select};
use table_core::store::{Error, ErrorKind, Operation, Result, TableStore, TableStoreExt as _};

use super::compare::{Side, compare_with_progress};
use super::scan::scan;
use super::trust::{check_trusted, definitions_beyond};
use super::windows::{Checkpoint, Windows};
use super::{BulkOptions, BulkWriter, Comparison};
use crate::blobs::{BlobStores, first_name_in_blobs};
use crate::journal::{has_mark, is_journal_row, is_pending};
use crate::rows::WINDOW_BYTES;

/// The number of entities in a page that is copied.
const PAGE: usize = 1000;
/// The number of rows in a window by default: rows that are read before they are written.
const WINDOW_ROWS: usize = 10_000;

/// Copies a table between any two stores: memory, embedded, Azure. Rows are copied as they are.
///
/// The copy includes rows of patterns, such as index entries and chunks: a copy of a consistent table is consistent if
/// no program writes to the source during the copy. Rows that exist in the target are replaced; rows that exist only
/// there stay. The copy works in windows of rows: a window is read, checked and then written.
///
/// - **Encrypted properties:** the source decrypts them and the target encrypts them again. If the target does not
///   encrypt, a window with an encrypted property is refused before any of its rows is written: no entity of several
///   rows arrives in part.
/// - **Blobs:** rows of [large entities](crate::large) refer to blobs whose names contain the table's name. Give the
///   blob stores with [`with_blobs`](Self::with_blobs) and copy to a table of the same name, or accept with
///   [`rows_only`](Self::rows_only) that you copy the blobs otherwise. Without either, a window and a verification with
///   such a row are refused. So are rows in ciphertext: their references are not visible.
/// - **Unfinished writes:** no worker could finish them in the copy; a worker that tried would change index entries of
///   the source's tables. A window with a row of the [journal](crate::journal), a pending reservation or an entity
///   that is being moved is refused. Run [`Upkeep`](crate::upkeep::Upkeep) or a
///   [sweep](crate::journal::Journal::sweep), then the copy again.
/// - **Ciphertext** that the source does not decrypt is copied as it is, with [`rows_only`](Self::rows_only), to a table of the same name
///   only: it is bound to the name. In a service that distinguishes the case of table names, such as Cosmos DB, it is bound to the
///   name as it is written, and elsewhere to the name in lower case. If the two differ, the run reads the table once more before it
///   writes anything, and refuses a table with ciphertext.
/// - **Processes:** the rows of the [manifest](table_core::manifest) that say which programs write the source are not copied.
/// - **Definitions:** a window with an index definition whose entries go into another table, or with a type whose entities expire, is refused,
///   because programs and upkeep obey them in the target, and a client that could write into the source can have added them:
///   [`trust_definitions`](Self::trust_definitions) accepts them.
/// - **Indexes:** index entries in other tables and indexes in blobs are not copied. Copy the other tables too, and
///   rebuild such indexes.
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
#[must_use = "a copy job does nothing until `run`"]
pub struct CopyJob {
    from: Side,
    to: Side,
    /// The name of the checkpoint; `None` for a job that starts again after an interruption.
    name: Option<String>,
    options: BulkOptions,
    progress: Option<Box<dyn Fn(u64) + Send + Sync>>,
    compared: Option<Box<dyn Fn(u64) + Send + Sync>>,
    /// The number of rows in a window.
    window: usize,
    blobs: Option<BlobStores>,
    rows_only: bool,
    trusts_definitions: bool,
    /// Whether the checkpoint stays when the table is copied: the copy of a store removes it when all tables are copied.
    keeps_checkpoint: bool,
    /// Whether the manifest may name a type with large values, so that ciphertext may refer to blobs.
    has_large: bool,
    /// Whether [`check_ciphertext`](Self::check_ciphertext) has been called.
    has_checked_ciphertext: bool,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct CopyReport {
    /// The number of rows copied, including earlier runs of the job.
    pub rows: u64,
    /// The number of rows that earlier runs had copied.
    pub resumed: u64,
}

impl CopyJob {
    /// Prepares the copy of one table to another. The run creates the target table if it is missing. No request.
    pub fn new(from: (impl TableStore, TableName), to: (impl TableStore, TableName)) -> Self {
        let options = BulkOptions::default().stop_at_failure().write_indexed();
        Self {
            from: (from.0.into_shared(), from.1),
            to: (to.0.into_shared(), to.1),
            name: None,
            options,
            progress: None,
            compared: None,
            window: WINDOW_ROWS,
            blobs: None,
            rows_only: false,
            trusts_definitions: false,
            keeps_checkpoint: false,
            has_large: true,
            has_checked_ciphertext: false,
        }
    }

    /// Keeps a checkpoint row under this name in the target: an interrupted job continues there when it runs again.
    ///
    /// Choose a name that identifies the source store too. A job with the same name and tables but another source store
    /// would continue at a continuation token that means nothing there.
    pub fn resumable(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the options of the writer. A copy always stops at the first failure and always writes indexed tables.
    pub fn with_options(mut self, options: BulkOptions) -> Self {
        self.options = options.stop_at_failure().write_indexed();
        self
    }

    /// Sets the number of rows in a window, at least 1; the default is 10,000.
    ///
    /// A named job saves a checkpoint after each window. A smaller window takes less memory, and makes smaller groups
    /// and more requests.
    pub fn with_window(mut self, rows: usize) -> Self {
        self.window = rows.max(1);
        self
    }

    /// Copies the blobs of large entities, each before its row, and lets [`verify`](Self::verify) look for the blobs.
    ///
    /// `root` is the directory in [`LargeOptions`](crate::large::LargeOptions). 1 request per blob, and a read and a
    /// write per blob that the target lacks.
    #[cfg(feature = "blobs")]
    pub fn with_blobs(
        mut self,
        from: Arc<dyn ObjectStore>,
        to: Arc<dyn ObjectStore>,
        root: Path,
    ) -> Self {
        self.blobs = Some(BlobStores { from, to, root });
        self
    }

    /// Copies and verifies rows without their blobs.
    pub const fn rows_only(mut self) -> Self {
        self.rows_only = true;
        self
    }

    /// Copies index definitions whose entries go into other tables, and types whose entities expire.
    pub const fn trust_definitions(mut self) -> Self {
        self.trusts_definitions = true;
        self
    }

    /// Calls `report` with the number of rows copied so far: first with the rows of earlier runs, then after each window.
    pub fn on_progress(mut self, report: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(report));
        self
    }

    /// Calls `report` with a number of further rows of the source that a [`verify`](Self::verify) has compared, every 1,000 rows.
    pub fn on_compared(mut self, report: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.compared = Some(Box::new(report));
        self
    }

    /// Whether an interrupted run of a named job has left its checkpoint in the target. 1 request.
    ///
    /// # Errors
    /// Errors of the target, except that the table does not exist.
    pub async fn is_begun(&self) -> Result<bool> {
        match self.checkpoint()? {
            Some(checkpoint) => Ok(checkpoint.load().await?.is_some()),
            None => Ok(false),
        }
    }

    /// Copies the table. 1 request per page of 1000 rows and 1 per group of up to 100; with a name 2 more at the start,
    /// 1 at the end and 1 per window of 10,000 rows ([`with_window`](Self::with_window)). To a table of another name without decryption 1
    /// more per page.
    ///
    /// The next window is read while one is written: at most two windows are in memory, each of at most 16 MiB and a
    /// page.
    ///
    /// # Errors
    /// Errors of the stores; rows written before stay. A row that the target refuses, with its key. A row of an
    /// unfinished write; a row with a blob, as described at [`CopyJob`].
    pub async fn run(&self) -> Result<CopyReport> {
        if !self.has_checked_ciphertext {
            self.check_ciphertext().await?;
        }
        let (to, table) = &self.to;
        create_if_permitted(&**to, table).await?;
        let checkpoint = self.checkpoint()?;
        let mut start = CopyPosition::default();
        if let Some(checkpoint) = &checkpoint {
            match checkpoint.load().await? {
                Some(saved) => start = CopyPosition::read(&saved)?,
                // Before the first window: `is_begun` finds a run that ended in it.
                None => start.save(checkpoint).await?,
            }
        }
        if let Some(report) = &self.progress {
            report(start.rows);
        }
        if start.is_done {
            return Ok(CopyReport {
                rows: start.rows,
                resumed: start.rows,
            });
        }
        let rows = self.copy(checkpoint.as_ref(), &start).await?;
        match checkpoint {
            Some(checkpoint) if self.keeps_checkpoint => {
                CopyPosition {
                    next: None,
                    rows,
                    is_done: true,
                }
                .save(&checkpoint)
                .await?;
            }
            Some(checkpoint) => checkpoint.clear().await?,
            None => {}
        }
        Ok(CopyReport {
            rows,
            resumed: start.rows,
        })
    }

    /// Keeps the checkpoint of a finished copy, so that the copy does not start again.
    pub(super) const fn keep_checkpoint(mut self) -> Self {
        self.keeps_checkpoint = true;
        self
    }

    /// Leaves out [`check_ciphertext`](Self::check_ciphertext), which the caller has called.
    pub(super) const fn ciphertext_checked(mut self) -> Self {
        self.has_checked_ciphertext = true;
        self
    }

    /// Sets whether the manifest names a type with large values. Without such a type, no ciphertext refers to a blob.
    pub(super) const fn with_large(mut self, has_large: bool) -> Self {
        self.has_large = has_large;
        self
    }

    /// Refuses a table with ciphertext if the ciphertext could not be decrypted in the target. 1 request per page of the source, and
    /// none if ciphertext is bound to the same name in both stores, or if the source decrypts.
    pub(super) async fn check_ciphertext(&self) -> Result<()> {
        let (store, table) = &self.from;
        if self.keeps_identity() || store.profile().encrypts {
            return Ok(());
        }
        let header = ENCRYPTION_HEADERS[0];
        let query = Query::new().with_select(Select::new([
            Filter::PARTITION_KEY,
            Filter::ROW_KEY,
            header,
        ]));
        let mut rows = scan(Arc::clone(store), table.clone(), query);
        while let Some(row) = rows.try_next().await? {
            if row.get(header).is_some() {
                return Err(self.bound_error(&row));
            }
        }
        Ok(())
    }

    /// Whether ciphertext is bound to the same table name in source and target.
    fn keeps_identity(&self) -> bool {
        let identity = |(store, table): &Side| store.profile().table_identity(table);
        identity(&self.from) == identity(&self.to)
    }

    /// The error of a row whose ciphertext could not be decrypted in the target.
    fn bound_error(&self, row: &Entity) -> Error {
        let (from, to) = (&self.from.1, &self.to.1);
        let reason = match from.to_lowercase() == to.to_lowercase() {
            true => "the case of table names matters in only one of the stores",
            false => "the target has another name",
        };
        Error::wrong_state(format!(
            "{} of '{from}' is encrypted, and ciphertext is bound to the name of its table: {reason}. Copy between stores that have the \
             keys",
            row.key()
        ))
    }

    /// Removes the checkpoint of a finished copy. 1 request.
    pub(super) async fn clear_checkpoint(&self) -> Result<()> {
        match self.checkpoint()? {
            Some(checkpoint) => checkpoint.clear().await,
            None => Ok(()),
        }
    }

    /// The checkpoint of a named job. Its id is a hash of the job's name, because the name may have characters that a key must not have.
    fn checkpoint(&self) -> Result<Option<Checkpoint<'_>>> {
        let Some(name) = &self.name else {
            return Ok(None);
        };
        let (to, table) = &self.to;
        // With the name of the source table: two tables may be copied into one.
        let hash = Sha256::digest(format!("{name}\n{}", self.from.1.to_lowercase()));
        let id = hash
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Checkpoint::new(&**to, table, id).map(Some)
    }

    /// Compares source and target; see [`compare_tables`](super::compare_tables).
    ///
    /// [`with_blobs`](Self::with_blobs) also checks that the target has each blob that a row refers to. Unless
    /// [`rows_only`](Self::rows_only), this takes 1 more request per page of the target, and 1 per blob.
    ///
    /// # Errors
    /// Errors of the stores; a row refers to a blob, and neither `with_blobs` nor `rows_only` is set.
    pub async fn verify(&self) -> Result<Comparison> {
        let report = |rows| self.compared.iter().for_each(|report| report(rows));
        let mut found = compare_with_progress(self.from.clone(), self.to.clone(), report).await?;
        // The run has looked at each row: without a type that has large values, no row refers to a blob.
        if !self.rows_only && self.has_large {
            let (store, table) = self.to.clone();
            let mut rows = scan(store, table, Query::new());
            while let Some(row) = rows.try_next().await? {
                match &self.blobs {
                    None => self.check_blobs(std::slice::from_ref(&row))?,
                    Some(blobs) if !blobs.are_there(&self.to.1, &row).await? => {
                        found.add_missing_blob(row.key());
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(found)
    }

    /// Refuses definitions that are not trusted.
    fn check_definitions(&self, rows: &[Entity]) -> Result<()> {
        if self.trusts_definitions {
            return Ok(());
        }
        let (store, table) = &self.from;
        let of_manifest = rows
            .iter()
            .filter(|row| row.key().partition() == MANIFEST_PARTITION)
            .cloned();
        let manifest = Manifest::from_rows(store.profile(), table, of_manifest);
        check_trusted(
            "source",
            "copied of these rows",
            &definitions_beyond(table, &manifest),
        )
    }

    /// Refuses rows whose blobs would not be copied, and rows in ciphertext, which may refer to blobs.
    fn check_blobs(&self, rows: &[Entity]) -> Result<()> {
        let may_refer = !self.rows_only && self.has_large;
        if let Some(row) = rows.iter().find(|row| may_refer && row.is_ciphertext()) {
            return Err(Error::wrong_state(format!(
                "{} of '{}' is encrypted, so its references to blobs are not visible: copy between stores that decrypt, or \
                 set `rows_only` and copy the blobs of large entities otherwise",
                row.key(),
                self.from.1
            )));
        }
        if self.rows_only {
            return Ok(());
        }
        let Some((row, property)) = rows
            .iter()
            .find_map(|row| Some((row, first_name_in_blobs(row)?)))
        else {
            return Ok(());
        };
        let (table, other) = (&self.from.1, &self.to.1);
        let reason = if self.blobs.is_none() {
            "give the blob stores (`with_blobs`), or set `rows_only`"
        } else if table.to_lowercase() != other.to_lowercase() {
            "names of blobs contain the table's name: copy to a table of the same name, or move the entities with `Table::move_to`"
        } else {
            return Ok(());
        };
        let key = row.key();
        Err(Error::wrong_state(format!(
            "{key} of '{table}' has the value of '{property}' in a blob: {reason}"
        )))
    }

    /// Refuses rows of unfinished writes: the journal row names index entries in the source's tables, and a worker in the
    /// copy would change those.
    fn check_finished(&self, rows: &[Entity]) -> Result<()> {
        let Some(row) = rows.iter().find(|row| is_unfinished(row)) else {
            return Ok(());
        };
        let (key, table) = (row.key(), &self.from.1);
        Err(Error::wrong_state(format!(
            "{key} belongs to a write of '{table}' that is not finished: call `flush` if this program has written it; otherwise run \
             `Upkeep` once (or a sweep of the journal) while no program writes; then copy again"
        )))
    }

    /// Refuses rows with encrypted properties if the target does not encrypt. The target would refuse the rows too, but
    /// only after it has written other rows of the window.
    ///
    /// Ciphertext under another table name could never be decrypted.
    fn check_encryption(&self, rows: &[Entity]) -> Result<()> {
        let mut bound = rows
            .iter()
            .filter(|row| row.get(ENCRYPTION_HEADERS[0]).is_some());
        if let (false, Some(row)) = (self.keeps_identity(), bound.next()) {
            return Err(self.bound_error(row));
        }
        if self.to.0.profile().encrypts {
            return Ok(());
        }
        let mut encrypted = rows.iter().flat_map(|row| {
            let properties = row.properties().iter();
            properties
                .filter(|p| p.is_encrypted())
                .map(move |p| (row.key(), p.name().to_owned()))
        });
        let Some((key, name)) = encrypted.next() else {
            return Ok(());
        };
        Err(Error::wrong_state(format!(
            "the property '{name}' of {key} is encrypted in '{}', and the target of the copy does not encrypt: copy to an encrypting \
             store, or copy the ciphertext from the wrapped store to a table of the same name, with `rows_only`",
            self.from.1
        )))
    }

    /// Reads each window while the window before is written. A checkpoint is saved only when all rows before it are
    /// written; its continuation token is where the next window starts.
    async fn copy(&self, checkpoint: Option<&Checkpoint<'_>>, start: &CopyPosition) -> Result<u64> {
        let (store, table) = &self.from;
        let query = Query::new().with_top(PAGE.min(self.window));
        let windows = Windows {
            store: &**store,
            table,
            query,
            rows: self.window,
            bytes: WINDOW_BYTES,
        };
        let mut rows = start.rows;
        let mut window = windows.read(start.next.clone()).await?;
        loop {
            let next = window.next.clone();
            let read_next = windows.read_next(next.as_ref());
            // A failed read drops the write: the next run upserts the window again, because its checkpoint is
            // not saved.
            let (written, next_window) = try_join(self.write(window.rows), read_next).await?;
            rows = rows.saturating_add(written);
            if let Some(report) = &self.progress {
                report(rows);
            }
            if let (Some(checkpoint), Some(_)) = (checkpoint, &next) {
                CopyPosition {
                    next,
                    rows,
                    is_done: false,
                }
                .save(checkpoint)
                .await?;
            }
            match next_window {
                Some(next_window) => window = next_window,
                None => return Ok(rows),
            }
        }
    }

    async fn write(&self, rows: Vec<Entity>) -> Result<u64> {
        self.check_definitions(&rows)?;
        self.check_blobs(&rows)?;
        self.check_finished(&rows)?;
        self.check_encryption(&rows)?;
        let blobs = self.blobs.as_ref().filter(|_| !self.rows_only);
        upsert_all(&self.to, blobs, rows, &self.options).await
    }
}

/// Creates a table if it is missing. A credential that may not create tables writes into a table that exists. 1 request; then 1 more.
pub(super) async fn create_if_permitted(store: &dyn TableStore, table: &TableName) -> Result<()> {
    let error = match store.create_table_if_missing(table).await {
        // A service may say that it does not accept the signature at all, although it accepts it for the table.
        Err(error)
            if matches!(
                error.root().kind(),
                ErrorKind::Forbidden(_) | ErrorKind::Unauthorized(_)
            ) =>
        {
            error
        }
        created => return created.map(drop),
    };
    match store.query(table, &Query::new().with_top(1), None).await {
        // The reason why the table is still missing.
        Err(missing) if missing.is_table_not_found() => Err(error),
        read => read.map(drop),
    }
}

/// Writes rows over those of a table, each after its blobs. Returns the number of rows.
pub(super) async fn upsert_all(
    (store, table): &Side,
    blobs: Option<&BlobStores>,
    rows: Vec<Entity>,
    options: &BulkOptions,
) -> Result<u64> {
    if let Some(blobs) = blobs {
        blobs.copy_all(table, &rows).await?;
    }
    let table = table.clone();
    let upserts = rows
        .into_iter()
        .map(move |row| Ok((table.clone(), Operation::InsertOrReplace(row))));
    let writer = BulkWriter::with_options(Arc::clone(store), options.clone());
    writer.write(stream::iter(upserts)).await?.into_result()
}

impl fmt::Debug for CopyJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyJob")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// The property of a checkpoint row with the continuation token of the next window; empty at the start of the table.
const NEXT: &str = "Next";
/// The property of a checkpoint row with the number of rows copied.
const ROWS: &str = "Rows";

/// Where a job continues, as its checkpoint row has it.
#[derive(Debug, Default)]
struct CopyPosition {
    next: Option<Continuation>,
    rows: u64,
    /// Whether all rows are copied.
    is_done: bool,
}

impl CopyPosition {
    fn read(row: &Entity) -> Result<Self> {
        let rows = match row.get(ROWS) {
            Some(ValueRef::Int64(rows)) => u64::try_from(rows).ok(),
            _ => None,
        };
        let rows = rows.ok_or_else(|| {
            Error::decode(
                "copy job",
                row.key(),
                ROWS,
                "a number of rows",
                "something else",
            )
        })?;
        match row.get(NEXT) {
            None => Ok(Self {
                next: None,
                rows,
                is_done: true,
            }),
            // Begun, without a finished window. A finished copy has no such property.
            Some(ValueRef::String("")) => Ok(Self {
                next: None,
                rows,
                is_done: false,
            }),
            Some(ValueRef::String(next)) => Ok(Self {
                next: Some(next.parse()?),
                rows,
                is_done: false,
            }),
            Some(_) => Err(Error::decode(
                "copy job",
                row.key(),
                NEXT,
                "a continuation",
                "something else",
            )),
        }
    }

    /// Saves the position. 1 request.
    async fn save(&self, checkpoint: &Checkpoint<'_>) -> Result<()> {
        let next = self
            .next
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        let with_rows = |row: Entity| row.with(ROWS, self.rows.cast_signed());
        match self.is_done {
            true => checkpoint.save(with_rows).await,
            false => checkpoint.save(|row| with_rows(row).with(NEXT, next)).await,
        }
    }
}

/// Whether a row belongs to a write that is not finished: a journal row, a pending reservation, or an entity that is being moved.
pub(super) fn is_unfinished(row: &Entity) -> bool {
    is_journal_row(row) || is_pending(row) || has_mark(row)
}

/// Whether a type of the table has large values, so that its rows, and its ciphertext, may refer to blobs. A layout that
/// this version does not know counts as one with large values.
pub(super) fn has_large(manifest: &Manifest) -> bool {
    let is_large =
        |layout: &Layout| !matches!(layout, Layout::Plain | Layout::Wide | Layout::Spread { .. });
    manifest.types.iter().any(|of| is_large(&of.layout))
}
