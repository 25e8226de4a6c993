//! Restores backups.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::ObjectStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use table_core::model::{Entity, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};

use super::contents::{Backup, BackupTable};
use super::directory::{BLOBS, BackupDirectory, sha256};
use crate::blobs::BlobStores;
use crate::bulk::BulkOptions;
use crate::bulk::copy::upsert_all;
use crate::bulk::windows::Checkpoint;

/// Writes the tables of a backup into a store, under their names: all rows, manifests and index entries included.
///
/// A run first compares every file with its checksum, and writes nothing if one differs. It writes nothing into tables that have
/// rows, unless [`overwrite`](Self::overwrite) is set. A checkpoint row in the first table makes an interrupted run continue.
#[must_use = "a restore job does nothing until `run`"]
pub struct RestoreJob {
    from: BackupDirectory,
    backup: Backup,
    to: Arc<dyn TableStore>,
    tables: BTreeSet<TableName>,
    overwrites: bool,
    is_checked: AtomicBool,
    options: BulkOptions,
    blobs: Option<BlobStores>,
    rows_only: bool,
    progress: Option<Box<dyn Fn(u64) + Send + Sync>>,
}

/// A [`RestoreJob`] that has compared the files and looked at the target, and refuses nothing.
#[derive(Debug)]
#[must_use = "a prepared restore does nothing until `run`"]
pub struct PreparedRestore<'a> {
    job: &'a RestoreJob,
    /// The position of an interrupted run.
    saved: Option<RestorePosition>,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The number of tables.
    pub tables: u64,
    /// The number of rows, the rows of earlier runs included.
    pub rows: u64,
    /// The number of rows that earlier runs had written.
    pub resumed: u64,
    /// The number of rows of writes that were not finished at the backup. Run [`Upkeep`](crate::upkeep::Upkeep) once.
    pub unfinished: u64,
}

impl RestoreJob {
    /// Reads what a backup contains, and prepares to restore all its tables. 1 request.
    ///
    /// # Errors
    /// The errors of [`Backup::open`].
    pub async fn open(from: BackupDirectory, to: impl TableStore) -> Result<Self> {
        let backup = Backup::open(&from).await?;
        let options = BulkOptions::default().stop_at_failure().write_indexed();
        let tables = backup.tables.keys().cloned().collect();
        Ok(Self {
            from,
            backup,
            to: to.into_shared(),
            tables,
            overwrites: false,
            is_checked: AtomicBool::new(false),
            options,
            blobs: None,
            rows_only: false,
            progress: None,
        })
    }

    /// Restores these tables only.
    pub fn tables(mut self, tables: impl IntoIterator<Item = TableName>) -> Self {
        self.tables = tables.into_iter().collect();
        self
    }

    /// Also writes into tables that have rows: rows of the backup replace theirs, and rows that the backup lacks stay.
    pub const fn overwrite(mut self) -> Self {
        self.overwrites = true;
        self
    }

    /// Sets the options of the writer. A restore always stops at the first failure and always writes indexed tables.
    pub fn with_options(mut self, options: BulkOptions) -> Self {
        self.options = options.stop_at_failure().write_indexed();
        self
    }

    /// Leaves out the comparison of every file before the run, because [`first_fault`](Self::first_fault) of another job has found none. A
    /// file that has changed since ends the run before its rows are written.
    pub fn checked(self) -> Self {
        self.is_checked.store(true, Ordering::Relaxed);
        self
    }

    /// Copies the blobs of the backup, each before its row. `root` is the directory in [`LargeOptions`](crate::large::LargeOptions), as it
    /// was at the backup.
    pub fn with_blobs(mut self, to: Arc<dyn ObjectStore>, root: Path) -> Self {
        let from = PrefixStore::new(Arc::clone(&self.from.store), self.from.path(BLOBS));
        self.blobs = Some(BlobStores { from: Arc::new(from), to, root });
        self
    }

    /// Restores rows without their blobs.
    pub const fn rows_only(mut self) -> Self {
        self.rows_only = true;
        self
    }

    /// Calls `report` with the number of rows restored so far: first with the rows of earlier runs, then after each file.
    pub fn on_progress(mut self, report: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(report));
        self
    }

    /// What the backup contains.
    pub const fn backup(&self) -> &Backup {
        &self.backup
    }

    /// The number of rows of the chosen tables.
    pub fn rows(&self) -> u64 {
        self.chosen().fold(0, |rows, (_, table)| rows.saturating_add(table.rows()))
    }

    /// Compares every file of the chosen tables with its checksum, and returns the first fault. The run does not repeat the comparison
    /// of files without a fault. 1 request for each file.
    ///
    /// # Errors
    /// Errors of the object store.
    pub async fn first_fault(&self) -> Result<Option<String>> {
        let fault = self.backup.first_fault(&self.from, &self.tables).await?;
        self.is_checked.store(fault.is_none(), Ordering::Relaxed);
        Ok(fault)
    }

    /// Restores the tables. The requests of [`prepare`](Self::prepare) and of [`PreparedRestore::run`].
    ///
    /// # Errors
    /// What `prepare` refuses; nothing was written then. The errors of [`PreparedRestore::run`].
    pub async fn run(&self) -> Result<RestoreReport> {
        self.prepare().await?.run().await
    }

    /// Compares every file with its checksum, looks at the target, and writes nothing. 1 read of each file, unless the files are compared
    /// already; in the store 1 request, and 1 per table unless [`overwrite`](Self::overwrite) is set.
    ///
    /// # Errors
    /// A damaged or missing file; a table that has rows; a table that the backup lacks, or whose index entries are in a table that is not
    /// chosen; an interrupted restore of other tables of the backup; ciphertext that is bound to another case of the table's name; a row
    /// with a blob, and neither [`with_blobs`](Self::with_blobs) nor [`rows_only`](Self::rows_only) is set; a store that encrypts; an
    /// incremental backup without [`overwrite`](Self::overwrite). Errors of the stores.
    pub async fn prepare(&self) -> Result<PreparedRestore<'_>> {
        self.check_choice()?;
        if !self.is_checked.load(Ordering::Relaxed)
            && let Some(fault) = self.first_fault().await?
        {
            return Err(Error::corrupt(fault));
        }
        let Some(first) = self.tables.first() else {
            return Ok(PreparedRestore { job: self, saved: None });
        };
        let saved = match self.checkpoint(first)?.load().await? {
            Some(row) => Some(self.position(&row)?),
            None => None,
        };
        self.check_targets(saved.map(|saved| saved.table)).await?;
        Ok(PreparedRestore { job: self, saved })
    }

    /// The position of an interrupted run, which is within the backup.
    fn position(&self, row: &Entity) -> Result<RestorePosition> {
        let position = RestorePosition::read(row, &self.choice())?;
        let files = self.chosen().nth(position.table).map(|(_, table)| table.chunks.len());
        if files.is_some_and(|files| position.file <= files) {
            return Ok(position);
        }
        // Files would be left out, and the restore would look complete.
        Err(Error::decode("restore", row.key(), TABLE, "a table and a file of the backup", "other numbers"))
    }

    /// The row in the first table with the position of the restore.
    fn checkpoint<'a>(&'a self, first: &'a TableName) -> Result<Checkpoint<'a>> {
        Checkpoint::new(&*self.to, first, self.backup.id.simple().to_string())
    }

    /// The rows of the files before a position.
    fn rows_before(&self, start: RestorePosition) -> u64 {
        let tables = self.chosen().enumerate();
        let files = tables
            .flat_map(|(at, (_, table))| table.chunks.iter().take(start.skipped(at, table.chunks.len())));
        files.fold(0, |rows, chunk| rows.saturating_add(chunk.rows))
    }

    fn chosen(&self) -> impl Iterator<Item = (&TableName, &BackupTable)> {
        self.backup.tables.iter().filter(|(name, _)| self.tables.contains(name))
    }

    /// Identifies the chosen tables, and whether their blobs are restored: files that an interrupted run has done are not read again.
    fn choice(&self) -> String {
        let mut chosen: Vec<_> = self.chosen().map(|(name, _)| name.as_str()).collect();
        chosen.push(if self.blobs.is_some() && !self.rows_only { "/with blobs" } else { "/rows only" });
        sha256(chosen.join("\n").as_bytes())
    }

    /// Refuses choices that cannot be restored rightly.
    fn check_choice(&self) -> Result<()> {
        self.check_tables_exist()?;
        for (name, table) in self.chosen() {
            self.check_index_tables(name, table)?;
            self.check_blobs(name, table)?;
        }
        self.check_identity()?;
        if self.to.profile().encrypts {
            return Err(Error::invalid_request(
                "the store encrypts, and a backup has rows as they are stored: restore into the store that it wraps",
            ));
        }
        match &self.backup.since {
            Some(since) if !self.overwrites => Err(Error::invalid_request(format!(
                "the backup has only the rows that were changed since {since}: restore a full backup first, then this one with `overwrite`"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a table that the backup lacks.
    fn check_tables_exist(&self) -> Result<()> {
        let Some(absent) = self.tables.iter().find(|name| !self.backup.tables.contains_key(*name)) else {
            return Ok(());
        };
        let all: Vec<_> = self.backup.tables.keys().map(TableName::as_str).collect();
        Err(Error::invalid_request(format!("the backup has no table '{absent}': it has {}", all.join(", "))))
    }

    /// Refuses a table whose index entries are in a table of the backup that is not chosen.
    fn check_index_tables(&self, name: &TableName, table: &BackupTable) -> Result<()> {
        let profile = self.to.profile();
        // A backup that lacks the table of entries can be restored: the index is then built again.
        let left_out = |other: &&TableName| {
            let identity = profile.table_identity(other);
            let is_other = |table: &TableName| profile.table_identity(table) == identity;
            self.backup.tables.keys().any(is_other) && !self.tables.iter().any(is_other)
        };
        match table.index_tables.iter().find(left_out) {
            None => Ok(()),
            Some(other) => Err(Error::invalid_request(format!(
                "the index entries of '{name}' are in the table '{other}': restore '{other}' too"
            ))),
        }
    }

    /// Refuses a table with values in blobs, if neither the blobs are restored nor `rows_only` is set.
    fn check_blobs(&self, name: &TableName, table: &BackupTable) -> Result<()> {
        let has_blobs = self.blobs.is_some() && self.backup.has_blobs;
        if table.with_blobs == 0 || self.rows_only || has_blobs {
            return Ok(());
        }
        Err(Error::invalid_request(format!(
            "{} rows of '{name}' have values in blobs: give the blob store of a backup that has blobs (`with_blobs`), or set `rows_only`",
            table.with_blobs
        )))
    }

    /// Refuses ciphertext that is bound to another name of its table than the store of the restore gives the table.
    fn check_identity(&self) -> Result<()> {
        let identity = |is_sensitive, name: &TableName| match is_sensitive {
            true => name.to_string(),
            false => name.to_lowercase(),
        };
        let is_sensitive = self.to.profile().case_sensitive_tables;
        let mut encrypted = self.chosen().filter(|(_, table)| table.encrypted > 0);
        let is_moved =
            |name: &TableName| identity(self.backup.case_sensitive, name) != identity(is_sensitive, name);
        let Some((name, table)) = encrypted.find(|(name, _)| is_moved(name)) else { return Ok(()) };
        Err(Error::invalid_request(format!(
            "{} rows of '{name}' are encrypted, and ciphertext is bound to the name of its table: the case of table names matters in only \
             one of the stores of the backup and of the restore. Restore into a store of the same kind, then copy the table with the keys",
            table.encrypted
        )))
    }

    /// Refuses tables that have rows. `resumed` is the number of the table that an interrupted run was writing.
    async fn check_targets(&self, resumed: Option<usize>) -> Result<()> {
        if self.overwrites {
            return Ok(());
        }
        let not_begun = resumed.map_or(0, |table| table + 1);
        for (name, _) in self.chosen().skip(not_begun) {
            match self.to.query(name, &Query::new().with_top(1), None).await {
                Ok(page) if page.items.is_empty() && page.continuation.is_none() => {}
                Err(error) if error.is_table_not_found() => {}
                Ok(_) => {
                    return Err(Error::invalid_request(format!(
                        "the table '{name}' exists and has rows, and nothing was written: delete the table, or allow with `overwrite` that rows of the \
                         backup replace its rows"
                    )));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn write(&self, table: &TableName, rows: Vec<Entity>) -> Result<()> {
        let blobs = self.blobs.as_ref().filter(|_| !self.rows_only);
        let to = (Arc::clone(&self.to), table.clone());
        upsert_all(&to, blobs, rows, &self.options).await.map(drop)
    }
}

impl PreparedRestore<'_> {
    /// Restores the tables. 1 read of each file; in the store 1 request per group of up to 100 rows, 1 per file, 2 per table and 1 more.
    ///
    /// # Errors
    /// Errors of the stores, and a file that has changed since it was compared: the next run continues.
    pub async fn run(self) -> Result<RestoreReport> {
        let Self { job, saved } = self;
        let Some(first) = job.tables.first() else {
            return Ok(RestoreReport { tables: 0, rows: 0, resumed: 0, unfinished: 0 });
        };
        let (checkpoint, choice) = (job.checkpoint(first)?, job.choice());
        let start = saved.unwrap_or_default();
        if saved.is_none() {
            job.to.create_table_if_missing(first).await?;
            // Before the first row: rows in a table without a checkpoint are not of this restore, and are not replaced.
            start.save(&checkpoint, &choice).await?;
        }
        if let Some(report) = &job.progress {
            report(job.rows_before(start));
        }
        let (mut rows, mut unfinished) = (0, 0);
        for (at, (name, table)) in job.chosen().enumerate() {
            unfinished = table.unfinished.saturating_add(unfinished);
            let skipped = start.skipped(at, table.chunks.len());
            if at > start.table {
                job.to.create_table_if_missing(name).await?;
                RestorePosition { table: at, file: 0 }.save(&checkpoint, &choice).await?;
            }
            for (number, chunk) in table.chunks.iter().enumerate() {
                rows = chunk.rows.saturating_add(rows);
                if number < skipped {
                    continue;
                }
                let content = chunk.read(&job.from).await?;
                job.write(name, content).await?;
                RestorePosition { table: at, file: number + 1 }.save(&checkpoint, &choice).await?;
                if let Some(report) = &job.progress {
                    report(rows);
                }
            }
        }
        // Last: until here, a run that was interrupted finds where to go on.
        checkpoint.clear().await?;
        Ok(RestoreReport {
            tables: job.tables.len() as u64,
            rows,
            resumed: job.rows_before(start),
            unfinished,
        })
    }
}

impl fmt::Debug for RestoreJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestoreJob")
            .field("from", &self.from)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

/// The number of the table that a restore is writing.
const TABLE: &str = "Table";
/// The number of files of that table that are written.
const FILES: &str = "Files";
/// The hash of the names of the chosen tables, and of the choice of blobs.
const CHOICE: &str = "Choice";

/// The table and the file with which an interrupted restore continues, as its checkpoint row has them.
#[derive(Clone, Copy, Debug, Default)]
struct RestorePosition {
    table: usize,
    file: usize,
}

impl RestorePosition {
    /// The number of files of a table that are written already.
    fn skipped(self, table: usize, files: usize) -> usize {
        match table.cmp(&self.table) {
            std::cmp::Ordering::Less => files,
            std::cmp::Ordering::Equal => self.file,
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// Reads the position of a restore with this choice.
    fn read(row: &Entity, choice: &str) -> Result<Self> {
        // The number of a table counts the chosen ones: among others, it is of another table, and files would be left out. Rows of
        // earlier versions have no hash.
        if row.get(CHOICE).is_some_and(|of| of != ValueRef::String(choice)) {
            return Err(Error::invalid_request(
                "an interrupted restore of this backup has other tables, or another choice of blobs: choose the same again, or delete the tables that it has written",
            ));
        }
        let number = |name| match row.get(name) {
            Some(ValueRef::Int64(number)) => usize::try_from(number).ok(),
            _ => None,
        };
        match (number(TABLE), number(FILES)) {
            (Some(table), Some(file)) => Ok(Self { table, file }),
            _ => Err(Error::decode("restore", row.key(), TABLE, "two numbers", "something else")),
        }
    }

    /// Saves the position. 1 request.
    async fn save(self, checkpoint: &Checkpoint<'_>, choice: &str) -> Result<()> {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let position = |row: Entity| row.with(TABLE, number(self.table)).with(FILES, number(self.file));
        checkpoint.save(|row| position(row).with(CHOICE, choice)).await
    }
}
