//! Writes backups.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use table_core::manifest::Manifest;
use table_core::model::{ENCRYPTION_HEADERS, Entity, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};

use super::contents::{Backup, BackupTable, Chunk, TableProgress};
use super::directory::{BLOBS, BackupDirectory};
use crate::blobs::{BlobStores, first_name_in_blobs};
use crate::bulk::copy::{has_large, is_unfinished};
use crate::bulk::windows::Windows;

/// The most rows in a file.
const FILE_ROWS: usize = 10_000;
/// The size of properties in memory after which a file ends, in bytes.
const FILE_BYTES: usize = 4 * 1024 * 1024;
/// The tables that are read at once by default.
const CONCURRENCY: usize = 4;

/// Writes a backup of tables to a directory of an object store: all rows as they are, manifests and index entries included.
///
/// - **Complete or not:** the backup is complete when its file `backup.json` exists. An interrupted backup continues when the
///   same job runs again: it saves its position after each file.
/// - **Not a snapshot:** rows that programs write during the backup may be missing or present, and tables are read at different
///   times. Stop the programs for an exact backup; otherwise repair the indexes of the restored tables by a scrub.
/// - **Unfinished writes** are part of the backup. [`Upkeep`](crate::upkeep::Upkeep) finishes them in the restored tables, as it does
///   after the end of a program.
/// - **Encryption:** the backup takes ciphertext as it is stored. A store that decrypts is refused: its rows would be in plaintext.
///   Back up the store that it wraps. Ciphertext is bound to table names, and a restore keeps them.
/// - **Blobs:** give the blob store of [large entities](crate::large) with [`with_blobs`](Self::with_blobs), or accept with
///   [`rows_only`](Self::rows_only) that you back up the blobs otherwise. Without either, a row with a value in a blob is refused.
///   Indexes in blobs are never part of a backup: rebuild them.
///
/// Two files of each table are in memory, each of at most 10,000 rows and 4 MiB and a page.
#[must_use = "a backup job does nothing until `run`"]
pub struct BackupJob {
    from: Arc<dyn TableStore>,
    to: BackupDirectory,
    source: String,
    tables: Option<BTreeSet<TableName>>,
    since: Option<Ticks>,
    concurrency: usize,
    blobs: Option<BlobStores>,
    rows_only: bool,
    progress: Option<Box<dyn Fn(u64) + Send + Sync>>,
}

/// A [`BackupJob`] that has looked at the store and the directory, and refuses nothing.
#[derive(Debug)]
#[must_use = "a prepared backup does nothing until `run`"]
pub struct PreparedBackup<'a> {
    job: &'a BackupJob,
    backup: Backup,
    /// Whether an earlier run has begun the backup.
    is_begun: bool,
    /// The tables with the positions that earlier runs have saved.
    tables: Vec<(TableName, TableProgress)>,
}

/// The result of a backup.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BackupReport {
    /// The backup, with its tables and files.
    pub backup: Backup,
    /// The number of rows that earlier runs had written.
    pub resumed: u64,
}

impl BackupJob {
    /// Prepares the backup of every table of a store. `source` names the store in the backup; do not include a secret. A run
    /// continues only an unfinished backup of the same source. No request.
    pub fn new(from: impl TableStore, source: impl Into<String>, to: BackupDirectory) -> Self {
        let (source, concurrency) = (source.into(), CONCURRENCY);
        Self {
            from: from.into_shared(),
            to,
            source,
            tables: None,
            since: None,
            concurrency,
            blobs: None,
            rows_only: false,
            progress: None,
        }
    }

    /// Backs up these tables only.
    pub fn tables(mut self, tables: impl IntoIterator<Item = TableName>) -> Self {
        self.tables = Some(tables.into_iter().collect());
        self
    }

    /// Backs up only the rows that were written at or after a time, by the Timestamp that the store gives. The service scans each
    /// table. **Deletions since that time are not part of the backup.**
    pub fn since(mut self, time: Ticks) -> Self {
        self.since = Some(time);
        self
    }

    /// Sets how many tables are read at once, at least 1; the default is 4.
    pub fn with_concurrency(mut self, tables: usize) -> Self {
        self.concurrency = tables.max(1);
        self
    }

    /// Copies the blobs of large entities into the backup, each before its row. `root` is the directory in
    /// [`LargeOptions`](crate::large::LargeOptions). 1 request per blob, and a read and a write per blob that the backup lacks.
    pub fn with_blobs(mut self, from: Arc<dyn ObjectStore>, root: Path) -> Self {
        let to = PrefixStore::new(Arc::clone(&self.to.store), self.to.path(BLOBS));
        self.blobs = Some(BlobStores {
            from,
            to: Arc::new(to),
            root,
        });
        self
    }

    /// Backs up rows without their blobs.
    pub const fn rows_only(mut self) -> Self {
        self.rows_only = true;
        self
    }

    /// Calls `report` with the number of rows of the backup so far: first with the rows of earlier runs, then after each file.
    pub fn on_progress(mut self, report: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(report));
        self
    }

    /// Writes the backup, or the rest of an interrupted one. The requests of [`prepare`](Self::prepare) and of [`PreparedBackup::run`].
    ///
    /// # Errors
    /// What `prepare` refuses; nothing was written then. The errors of [`PreparedBackup::run`].
    pub async fn run(&self) -> Result<BackupReport> {
        self.prepare().await?.run().await
    }

    /// Looks at the store and the directory, and writes nothing. 1 request per 1,000 tables, and 1 more for each chosen table; in the object
    /// store 2, and 1 per table if the backup was begun.
    ///
    /// # Errors
    /// A store that decrypts. A directory with a complete backup, or with an unfinished one of another source or of other tables. Errors of
    /// the stores.
    pub async fn prepare(&self) -> Result<PreparedBackup<'_>> {
        if self.from.profile().encrypts {
            return Err(Error::misuse(
                "the store decrypts, and the backup would have plaintext: back up the store that it wraps",
            ));
        }
        self.check_not_complete().await?;
        let unfinished = self.unfinished().await?;
        let is_begun = unfinished.is_some();
        let backup = match unfinished {
            Some(backup) => backup,
            None => self.new_backup().await?,
        };
        let names: Vec<TableName> = backup.tables.keys().cloned().collect();
        let loads = stream::iter(names).map(|name| async move {
            // A backup that has not begun has no positions.
            let saved = if is_begun {
                TableProgress::load(&self.to, &name).await?
            } else {
                TableProgress::default()
            };
            Ok::<_, Error>((name, saved))
        });
        let tables = loads.buffered(self.concurrency).try_collect().await?;
        Ok(PreparedBackup {
            job: self,
            backup,
            is_begun,
            tables,
        })
    }

    /// Refuses a directory with a complete backup. 1 request.
    async fn check_not_complete(&self) -> Result<()> {
        match Backup::is_complete(&self.to).await? {
            false => Ok(()),
            true => Err(Error::wrong_state(
                "the directory has a complete backup: choose another directory",
            )),
        }
    }

    /// Reads what an unfinished backup in the directory contains; `None` if there is none. Refuses an unfinished backup of another job.
    async fn unfinished(&self) -> Result<Option<Backup>> {
        let Some(unfinished) = Backup::unfinished(&self.to).await? else {
            return Ok(None);
        };
        let is_same_choice = match &self.tables {
            Some(chosen) => unfinished.is_choice && chosen.iter().eq(unfinished.tables.keys()),
            None => !unfinished.is_choice,
        };
        let is_same = unfinished.source == self.source
            && unfinished.since == self.since_text()
            && unfinished.has_blobs == self.blobs().is_some()
            && is_same_choice;
        match is_same {
            true => Ok(Some(unfinished)),
            false => Err(Error::wrong_state(format!(
                "the directory has an unfinished backup of {} with other tables or options: continue that, or choose another directory",
                unfinished.source
            ))),
        }
    }

    /// Lists the tables of a new backup.
    async fn new_backup(&self) -> Result<Backup> {
        let mut backup = Backup::new(
            self.source.clone(),
            self.since_text(),
            self.blobs().is_some(),
        );
        backup.is_choice = self.tables.is_some();
        backup.case_sensitive = self.from.profile().case_sensitive_tables;
        let tables = match &self.tables {
            Some(tables) => {
                for table in tables {
                    self.check_index_tables(table, tables).await?;
                }
                tables.clone()
            }
            None => self.from.all_tables(None).await?.into_iter().collect(),
        };
        backup.tables.extend(
            tables
                .into_iter()
                .map(|table| (table, BackupTable::default())),
        );
        Ok(backup)
    }

    /// The time of [`since`](Self::since) as the file of the backup has it.
    fn since_text(&self) -> Option<String> {
        self.since.map(|time| time.to_string())
    }

    /// Refuses a choice of tables that leaves out index entries of one of them.
    async fn check_index_tables(
        &self,
        table: &TableName,
        chosen: &BTreeSet<TableName>,
    ) -> Result<()> {
        let profile = self.from.profile();
        let is_chosen = |other: &&TableName| {
            let identity = profile.table_identity(other);
            chosen
                .iter()
                .any(|table| profile.table_identity(table) == identity)
        };
        let manifest = Manifest::load(&*self.from, table).await?;
        let others = manifest
            .indexes
            .iter()
            .filter_map(|index| index.table.as_ref());
        match others.into_iter().find(|other| !is_chosen(other)) {
            None => Ok(()),
            Some(other) => Err(Error::invalid_argument(format!(
                "the index entries of '{table}' are in the table '{other}': back up '{other}' too"
            ))),
        }
    }

    /// Backs up a table from its saved position. Each file is written while the next is read; the position is saved when the file is
    /// written.
    async fn back_up(
        &self,
        table: &TableName,
        mut saved: TableProgress,
        total: &AtomicU64,
    ) -> Result<BackupTable> {
        if saved.is_finished {
            return Ok(saved.table);
        }
        let has_large = self.has_large(table).await?;
        let next = saved.next.as_deref().map(str::parse).transpose()?;
        let query = match self.since {
            Some(time) => Query::new().with_filter(Filter::ge(Filter::TIMESTAMP, time)),
            None => Query::new(),
        };
        let windows = Windows {
            store: &*self.from,
            table,
            query,
            rows: FILE_ROWS,
            bytes: FILE_BYTES,
        };
        let mut window = windows.read(next).await?;
        loop {
            let next = window.next.clone();
            let read_next = windows.read_next(next.as_ref());
            let rows = window.rows.len() as u64;
            let write = async {
                self.write(table, has_large, window.rows, &mut saved.table)
                    .await?;
                // After the file: after a crash between the two, the next run writes this file again.
                saved.next = next.as_ref().map(ToString::to_string);
                saved.is_finished = next.is_none();
                saved.save(&self.to, table).await
            };
            // A failed read does not end the write.
            let (written, next_window) = join(write, read_next).await;
            written?;
            // Only a sum for the report: no other memory depends on it.
            let rows = total.fetch_add(rows, Ordering::Relaxed) + rows;
            if let Some(report) = &self.progress {
                report(rows);
            }
            match next_window? {
                Some(next_window) => window = next_window,
                None => return Ok(saved.table),
            }
        }
    }

    /// Whether types of the table have large properties, so that references to blobs may be in ciphertext.
    async fn has_large(&self, table: &TableName) -> Result<bool> {
        let manifest = self.from.manifest(table).await?;
        Ok(has_large(&manifest))
    }

    /// Writes a file of rows, after their blobs.
    async fn write(
        &self,
        table: &TableName,
        has_large: bool,
        rows: Vec<Entity>,
        saved: &mut BackupTable,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.check_blobs(table, has_large, &rows)?;
        if let Some(blobs) = self.blobs() {
            blobs.copy_all(table, &rows).await?;
        }
        saved.unfinished += rows.iter().filter(|row| is_unfinished(row)).count() as u64;
        saved.with_blobs += rows
            .iter()
            .filter(|row| first_name_in_blobs(row).is_some())
            .count() as u64;
        saved.encrypted += rows
            .iter()
            .filter(|row| row.get(ENCRYPTION_HEADERS[0]).is_some())
            .count() as u64;
        saved
            .index_tables
            .extend(rows.iter().filter_map(Entity::index_table));
        // The number follows from the saved position, so a file that was written without its position is
        // replaced.
        let file = format!(
            "{table}/{:06}.{}",
            saved.chunks.len(),
            self.to.format.extension()
        );
        let count = rows.len();
        let encoded = self.to.encode(rows).await?;
        let chunk = Chunk::new(file, count, &encoded);
        self.to.write(&chunk.file, encoded.content).await?;
        saved.chunks.push(chunk);
        Ok(())
    }

    /// The stores of the blobs that are backed up.
    fn blobs(&self) -> Option<&BlobStores> {
        self.blobs.as_ref().filter(|_| !self.rows_only)
    }

    /// Refuses rows whose blobs would be missing, and rows in ciphertext that may refer to blobs.
    fn check_blobs(&self, table: &TableName, has_large: bool, rows: &[Entity]) -> Result<()> {
        if self.rows_only {
            return Ok(());
        }
        let hidden = rows.iter().find(|row| has_large && row.is_ciphertext());
        let seen = rows
            .iter()
            .find(|row| self.blobs.is_none() && first_name_in_blobs(row).is_some());
        let reason = match (hidden, seen) {
            (Some(row), _) => format!(
                "{} of '{table}' is encrypted, so its references to blobs are not visible: set `rows_only`, and back up the blobs otherwise",
                row.key()
            ),
            (None, Some(row)) => format!(
                "{} of '{table}' has a value in a blob: give the blob store (`with_blobs`), or set `rows_only` and back up the blobs otherwise",
                row.key()
            ),
            (None, None) => return Ok(()),
        };
        Err(Error::wrong_state(reason))
    }
}

impl PreparedBackup<'_> {
    /// Writes the backup. 1 request per table for its manifest, and 1 per page; in the object store 2 per file of rows, 1 per table and 4 in
    /// all.
    ///
    /// # Errors
    /// Another process has completed a backup in the directory, or begun one, since [`prepare`](BackupJob::prepare): nothing was written.
    /// Errors of the stores, and a row with a blob, as described at [`BackupJob`]; written files stay, and the next run continues.
    pub async fn run(self) -> Result<BackupReport> {
        let Self {
            job,
            mut backup,
            is_begun,
            tables,
        } = self;
        // Another process may have used the directory since it was looked at, which may be long ago.
        job.check_not_complete().await?;
        if !is_begun && !backup.begin(&job.to).await? {
            return Err(Error::wrong_state(
                "another process has begun a backup in the directory: run the same backup again to continue it when that process has ended, \
                 or choose another directory",
            ));
        }
        let resumed = tables.iter().map(|(_, saved)| saved.table.rows()).sum();
        if let Some(report) = &job.progress {
            report(resumed);
        }
        let rows = &AtomicU64::new(resumed);
        let tables = stream::iter(tables).map(|(name, saved)| async move {
            let table = job.back_up(&name, saved, rows).await?;
            Ok::<_, Error>((name, table))
        });
        let tables: Vec<_> = tables
            .buffer_unordered(job.concurrency)
            .try_collect()
            .await?;
        backup.tables.extend(tables);
        backup.complete(&job.to).await?;
        // Positions are needed until the backup is complete. A crash here leaves files that no reader looks
        // at.
        for table in backup.tables.keys() {
            TableProgress::clear(&job.to, table).await?;
        }
        Ok(BackupReport { backup, resumed })
    }
}

impl fmt::Debug for BackupJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupJob")
            .field("source", &self.source)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}
