//! Restores backups.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::ObjectStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use table_core::manifest::Manifest;
use table_core::model::{Entity, MANIFEST_PARTITION, TableName, ValueRef};
use table_core::query::{Query, ReadablePage};
use table_core::store::{Error, ErrorKind, Result, TableStore, TableStoreExt as _};

use super::contents::{Backup, BackupTable, ReadFault};
use super::directory::{BLOBS, BackupDirectory, sha256};
use crate::blobs::BlobStores;
use crate::bulk::BulkOptions;
use crate::bulk::copy::upsert_all;
use crate::bulk::trust::{check_trusted, definitions_beyond};
use crate::bulk::windows::Checkpoint;

/// Writes the tables of a backup into a store, under their names: all rows, manifests and index entries included.
///
/// A run first compares every file with its checksum. It leaves out the tables with a file that differs, with the tables that share
/// index entries with them, restores the others and [names](RestoreReport::failed) the tables that it has left out. It writes nothing into tables
/// that have rows, unless [`overwrite`](Self::overwrite) is set. A checkpoint row in the first table makes an interrupted run continue.
///
/// **Definitions.** A backup may have index definitions whose entries go into other tables, and types whose entities expire. Programs
/// and upkeep obey them in the restored tables: they write into the other tables, and delete entities. A client that could write into the tables
/// of the backup, or into its files, can have added them. A run therefore names them and restores nothing, unless
/// [`trust_definitions`](Self::trust_definitions) is set.
#[must_use = "a restore job does nothing until `run`"]
pub struct RestoreJob {
    from: BackupDirectory,
    backup: Backup,
    to: Arc<dyn TableStore>,
    tables: BTreeSet<TableName>,
    overwrites: bool,
    trusts_definitions: bool,
    /// What the look at every file has found; `None` before.
    checked: Mutex<Option<Arc<CheckedFiles>>>,
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
    /// The tables to restore, in the order of their names.
    tables: Vec<(&'a TableName, &'a BackupTable)>,
    checked: Arc<CheckedFiles>,
    /// The position of an interrupted run.
    saved: Option<RestorePosition>,
}

/// What a look at every file of the chosen tables has found.
#[derive(Clone, Debug, Default)]
struct CheckedFiles {
    /// Why a table is left out.
    faults: BTreeMap<TableName, String>,
    /// What the definitions of the backup do in other tables, and which types expire.
    definitions: Vec<String>,
}

/// The result of a restore.
#[derive(Clone, Debug, serde::Serialize)]
#[must_use = "some tables may not be restored"]
#[non_exhaustive]
pub struct RestoreReport {
    /// The number of tables that are complete.
    pub tables: u64,
    /// The tables that are not complete, with the reasons: a table with a damaged file was left out, and of a table with a row that the store
    /// refuses only a part is there.
    pub failed: BTreeMap<TableName, Error>,
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
            trusts_definitions: false,
            checked: Mutex::default(),
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

    /// Takes what another job of the same backup and tables has found in the files, and does not read them before the run. A file that has
    /// changed since fails before its rows are written.
    pub fn checked_as(self, other: &Self) -> Self {
        *self.lock_checked() = other.lock_checked().clone();
        self
    }

    /// Restores index definitions whose entries go into other tables, and types whose entities expire. Set it for a backup of
    /// tables into which no other client could write, or after a look at [`definitions`](Self::definitions).
    pub const fn trust_definitions(mut self) -> Self {
        self.trusts_definitions = true;
        self
    }

    /// Copies the blobs of the backup, each before its row. `root` is the directory in [`LargeOptions`](crate::large::LargeOptions), as it
    /// was at the backup.
    pub fn with_blobs(mut self, to: Arc<dyn ObjectStore>, root: Path) -> Self {
        let from = PrefixStore::new(Arc::clone(&self.from.store), self.from.path(BLOBS));
        self.blobs = Some(BlobStores {
            from: Arc::new(from),
            to,
            root,
        });
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
        self.chosen()
            .fold(0, |rows, (_, table)| rows.saturating_add(table.rows()))
    }

    /// Compares every file of the chosen tables with its checksum. Returns the tables that a run leaves out, with the reasons: a file of the
    /// table is damaged, or the table shares index entries with such a table. 1 request for each file, once for a job.
    ///
    /// # Errors
    /// Errors of the object store.
    pub async fn faults(&self) -> Result<BTreeMap<TableName, String>> {
        Ok(self.check_files().await?.faults.clone())
    }

    /// The definitions for which a run needs [`trust_definitions`](Self::trust_definitions), each as a sentence. The requests of
    /// [`faults`](Self::faults).
    ///
    /// # Errors
    /// Errors of the object store.
    pub async fn definitions(&self) -> Result<Vec<String>> {
        Ok(self.check_files().await?.definitions.clone())
    }

    fn lock_checked(&self) -> MutexGuard<'_, Option<Arc<CheckedFiles>>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads every file of the chosen tables, unless that is done.
    async fn check_files(&self) -> Result<Arc<CheckedFiles>> {
        if let Some(checked) = self.lock_checked().clone() {
            return Ok(checked);
        }
        let mut checked = CheckedFiles::default();
        for (name, table) in self.chosen() {
            let mut manifest = Vec::new();
            for chunk in &table.chunks {
                match chunk.read(&self.from).await {
                    Ok(rows) => manifest.extend(rows.into_iter().filter(is_of_manifest)),
                    Err(ReadFault::Store(error)) => return Err(error),
                    Err(ReadFault::File(fault)) => {
                        checked.faults.insert(name.clone(), fault);
                        break;
                    }
                }
            }
            let manifest = Manifest::from_rows(self.to.profile(), name, manifest);
            checked
                .definitions
                .extend(definitions_beyond(name, &manifest));
        }
        self.add_dependents(&mut checked.faults);
        let checked = Arc::new(checked);
        *self.lock_checked() = Some(Arc::clone(&checked));
        Ok(checked)
    }

    /// Adds the tables that share index entries with tables that are left out. Entries without their entities, or entities without their
    /// entries, would be a table that looks complete and answers wrongly.
    fn add_dependents(&self, faults: &mut BTreeMap<TableName, String>) {
        let profile = self.to.profile();
        let is_same =
            |a: &TableName, b: &TableName| profile.table_identity(a) == profile.table_identity(b);
        loop {
            let mut added = BTreeMap::new();
            for (owner, table) in self.chosen() {
                for entries in &table.index_tables {
                    let Some((entries, _)) = self.chosen().find(|(name, _)| is_same(name, entries))
                    else {
                        continue;
                    };
                    let pair = format!("the index entries of '{owner}' are in '{entries}', and ");
                    match (faults.contains_key(owner), faults.contains_key(entries)) {
                        (true, false) => added.insert(
                            entries.clone(),
                            format!("{pair}'{owner}' cannot be restored"),
                        ),
                        (false, true) => added.insert(
                            owner.clone(),
                            format!("{pair}'{entries}' cannot be restored"),
                        ),
                        _ => None,
                    };
                }
            }
            if added.is_empty() {
                return;
            }
            faults.extend(added);
        }
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
    /// No table is left whose files are sound; definitions without [`trust_definitions`](Self::trust_definitions); a table that has rows; a
    /// table that the backup lacks, or whose index entries are in a table that is not
    /// chosen; an interrupted restore of other tables of the backup; ciphertext that is bound to another case of the table's name; a row
    /// with a blob, and neither [`with_blobs`](Self::with_blobs) nor [`rows_only`](Self::rows_only) is set; a store that encrypts; an
    /// incremental backup without [`overwrite`](Self::overwrite). Errors of the stores.
    pub async fn prepare(&self) -> Result<PreparedRestore<'_>> {
        self.check_choice()?;
        let checked = self.check_files().await?;
        let tables: Vec<_> = self
            .chosen()
            .filter(|(name, _)| !checked.faults.contains_key(*name))
            .collect();
        if let (Some(fault), true) = (checked.faults.values().next(), tables.is_empty()) {
            return Err(Error::corrupt(fault.clone()));
        }
        if !self.trusts_definitions {
            check_trusted("backup", "restored", &checked.definitions)?;
        }
        let mut prepared = PreparedRestore {
            job: self,
            tables,
            checked,
            saved: None,
        };
        if let Some((first, _)) = prepared.tables.first() {
            if let Some(row) = self.checkpoint(first)?.load().await? {
                prepared.saved = Some(prepared.position(&row)?);
            }
            let resumed = prepared.saved.as_ref().map(|saved| saved.table);
            self.check_targets(&prepared.tables, resumed).await?;
        }
        Ok(prepared)
    }

    /// The row in the first table with the position of the restore.
    fn checkpoint<'a>(&'a self, first: &'a TableName) -> Result<Checkpoint<'a>> {
        Checkpoint::new(&*self.to, first, self.backup.id.simple().to_string())
    }

    fn chosen(&self) -> impl Iterator<Item = (&TableName, &BackupTable)> {
        self.backup
            .tables
            .iter()
            .filter(|(name, _)| self.tables.contains(name))
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
            return Err(Error::misuse(
                "the store encrypts, and a backup has rows as they are stored: restore into the store that it wraps",
            ));
        }
        match &self.backup.since {
            Some(since) if !self.overwrites => Err(Error::wrong_state(format!(
                "the backup has only the rows that were changed since {since}: restore a full backup first, then this one with `overwrite`"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a table that the backup lacks.
    fn check_tables_exist(&self) -> Result<()> {
        let Some(absent) = self
            .tables
            .iter()
            .find(|name| !self.backup.tables.contains_key(*name))
        else {
            return Ok(());
        };
        let all: Vec<_> = self.backup.tables.keys().map(TableName::as_str).collect();
        Err(Error::invalid_argument(format!(
            "the backup has no table '{absent}': it has {}",
            all.join(", ")
        )))
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
            Some(other) => Err(Error::invalid_argument(format!(
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
        Err(Error::wrong_state(format!(
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
        let is_moved = |name: &TableName| {
            identity(self.backup.case_sensitive, name) != identity(is_sensitive, name)
        };
        let Some((name, table)) = encrypted.find(|(name, _)| is_moved(name)) else {
            return Ok(());
        };
        Err(Error::wrong_state(format!(
            "{} rows of '{name}' are encrypted, and ciphertext is bound to the name of its table: the case of table names matters in only \
             one of the stores of the backup and of the restore. Restore into a store of the same kind, then copy the table with the keys",
            table.encrypted
        )))
    }

    /// Refuses tables that have rows. `resumed` is the number of the table that an interrupted run was writing.
    async fn check_targets(
        &self,
        tables: &[(&TableName, &BackupTable)],
        resumed: Option<usize>,
    ) -> Result<()> {
        if self.overwrites {
            return Ok(());
        }
        let not_begun = resumed.map_or(0, |table| table + 1);
        for (name, _) in tables.iter().skip(not_begun) {
            match self
                .to
                .query(name, &Query::new().with_top(1), None)
                .await
                .and_then(ReadablePage::into_page)
            {
                Ok(page) if page.items.is_empty() && page.continuation.is_none() => {}
                Err(error) if error.is_table_not_found() => {}
                Ok(_) => {
                    return Err(Error::wrong_state(format!(
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
    /// A table whose data is refused does not end the restore of the others: the report names it.
    ///
    /// # Errors
    /// Errors of the stores: the next run continues.
    pub async fn run(self) -> Result<RestoreReport> {
        let mut report = RestoreReport {
            tables: self.tables.len() as u64,
            failed: self
                .checked
                .faults
                .iter()
                .map(|(name, fault)| (name.clone(), Error::corrupt(fault.clone())))
                .collect(),
            rows: 0,
            resumed: 0,
            unfinished: 0,
        };
        let Some((first, _)) = self.tables.first() else {
            return Ok(report);
        };
        let (checkpoint, choice) = (self.job.checkpoint(first)?, self.choice());
        let mut position = self.saved.clone().unwrap_or_default();
        // Tables in which an earlier run has failed are begun again, after the others.
        let again = position.failed.clone();
        if self.saved.is_none() {
            self.job.to.create_table_if_missing(first).await?;
            // Before the first row: rows in a table without a checkpoint are not of this restore, and are not replaced.
            position.save(&checkpoint, &choice).await?;
        }
        report.resumed = self.rows_before(&position);
        report.rows = report.resumed;
        self.report_progress(report.rows);
        for at in position.table..self.tables.len() {
            if at > position.table {
                position = RestorePosition {
                    table: at,
                    file: 0,
                    failed: position.failed,
                };
                position.save(&checkpoint, &choice).await?;
            }
            if let Err(error) = self
                .restore_table(
                    &mut position,
                    Some((&checkpoint, &choice)),
                    &mut report.rows,
                )
                .await
            {
                position.failed.insert(at);
                report
                    .failed
                    .insert(self.tables[at].0.clone(), of_table(error)?);
            }
        }
        for at in again {
            let mut begun = RestorePosition {
                table: at,
                ..RestorePosition::default()
            };
            if let Err(error) = self.restore_table(&mut begun, None, &mut report.rows).await {
                report
                    .failed
                    .insert(self.tables[at].0.clone(), of_table(error)?);
            }
        }
        // Last: until here, a run that was interrupted finds where to go on.
        checkpoint.clear().await?;
        let is_restored =
            |(name, _): &&(&TableName, &BackupTable)| !report.failed.contains_key(*name);
        let (tables, unfinished) = self
            .tables
            .iter()
            .filter(is_restored)
            .fold((0, 0_u64), |(tables, rows), (_, table)| {
                (tables + 1, rows.saturating_add(table.unfinished))
            });
        (report.tables, report.unfinished) = (tables, unfinished);
        Ok(report)
    }

    /// Restores the files of a table from a position on, and saves the position after each.
    async fn restore_table(
        &self,
        position: &mut RestorePosition,
        saved: Option<(&Checkpoint<'_>, &str)>,
        rows: &mut u64,
    ) -> Result<()> {
        let (name, table) = self.tables[position.table];
        if position.table > 0 {
            self.job.to.create_table_if_missing(name).await?;
        }
        for chunk in table.chunks.iter().skip(position.file) {
            let content = chunk.read(&self.job.from).await?;
            self.job.write(name, content).await?;
            *rows = rows.saturating_add(chunk.rows);
            position.file += 1;
            if let Some((checkpoint, choice)) = saved {
                position.save(checkpoint, choice).await?;
            }
            self.report_progress(*rows);
        }
        Ok(())
    }

    fn report_progress(&self, rows: u64) {
        if let Some(report) = &self.job.progress {
            report(rows);
        }
    }

    /// The rows of the files before a position.
    fn rows_before(&self, start: &RestorePosition) -> u64 {
        let done = self
            .tables
            .iter()
            .enumerate()
            .filter(|(at, _)| !start.failed.contains(at));
        let files = done.flat_map(|(at, (_, table))| {
            table
                .chunks
                .iter()
                .take(start.skipped(at, table.chunks.len()))
        });
        files.fold(0, |rows, chunk| rows.saturating_add(chunk.rows))
    }

    /// Identifies the tables, and whether their blobs are restored: files that an interrupted run has done are not read again.
    fn choice(&self) -> String {
        let mut chosen: Vec<_> = self.tables.iter().map(|(name, _)| name.as_str()).collect();
        chosen.push(if self.job.blobs.is_some() && !self.job.rows_only {
            "/with blobs"
        } else {
            "/rows only"
        });
        sha256(chosen.join("\n").as_bytes())
    }

    /// The position of an interrupted run, which is within the backup.
    fn position(&self, row: &Entity) -> Result<RestorePosition> {
        let position = RestorePosition::read(row, &self.choice())?;
        let files = self
            .tables
            .get(position.table)
            .map(|(_, table)| table.chunks.len());
        let is_within = files.is_some_and(|files| position.file <= files)
            && position.failed.iter().all(|at| *at < self.tables.len());
        // With other numbers, files would be left out, and the restore would look complete.
        let damaged = || {
            Error::decode(
                "restore",
                row.key(),
                TABLE,
                "a table and a file of the backup",
                "other numbers",
            )
        };
        if is_within {
            Ok(position)
        } else {
            Err(damaged())
        }
    }
}

/// The error of the data of one table, after which other tables can be restored.
///
/// # Errors
/// The error itself, if it is not about the data: the store is unavailable or full, or the credential does not allow the write.
fn of_table(error: Error) -> Result<Error> {
    let of_store = matches!(
        error.root().kind(),
        ErrorKind::Unauthorized(_)
            | ErrorKind::Forbidden(_)
            | ErrorKind::StorageFull(_)
            | ErrorKind::Transport(_)
            | ErrorKind::Timeout { .. }
    );
    if of_store || error.is_transient() || error.is_ambiguous() {
        Err(error)
    } else {
        Ok(error)
    }
}

fn is_of_manifest(row: &Entity) -> bool {
    row.key().partition() == MANIFEST_PARTITION
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
/// The hash of the names of the tables, and of the choice of blobs.
const CHOICE: &str = "Choice";
/// The numbers of the tables in which a row was refused.
const FAILED: &str = "Failed";

/// The table and the file with which an interrupted restore continues, as its checkpoint row has them.
#[derive(Clone, Debug, Default)]
struct RestorePosition {
    table: usize,
    file: usize,
    /// Tables before this one that are not complete.
    failed: BTreeSet<usize>,
}

impl RestorePosition {
    /// The number of files of a table that are written already.
    fn skipped(&self, table: usize, files: usize) -> usize {
        match table.cmp(&self.table) {
            std::cmp::Ordering::Less => files,
            std::cmp::Ordering::Equal => self.file,
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// Reads the position of a restore with this choice.
    fn read(row: &Entity, choice: &str) -> Result<Self> {
        // The number of a table counts the chosen ones: among others, it is of another table, and files would be left out.
        if row.get(CHOICE) != Some(ValueRef::String(choice)) {
            return Err(Error::wrong_state(
                "an interrupted restore of this backup has other tables, or another choice of blobs: choose the same again, or delete the tables that it has written",
            ));
        }
        let number = |name| match row.get(name) {
            Some(ValueRef::Int64(number)) => usize::try_from(number).ok(),
            _ => None,
        };
        let failed = match row.get(FAILED) {
            None => Some(BTreeSet::new()),
            Some(ValueRef::String(text)) => {
                text.split(',').map(|number| number.parse().ok()).collect()
            }
            Some(_) => None,
        };
        match (number(TABLE), number(FILES), failed) {
            (Some(table), Some(file), Some(failed)) => Ok(Self {
                table,
                file,
                failed,
            }),
            _ => Err(Error::decode(
                "restore",
                row.key(),
                TABLE,
                "two numbers",
                "something else",
            )),
        }
    }

    /// Saves the position. 1 request.
    async fn save(&self, checkpoint: &Checkpoint<'_>, choice: &str) -> Result<()> {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let failed: Vec<_> = self.failed.iter().map(ToString::to_string).collect();
        checkpoint
            .save(|row| {
                let row = row
                    .with(TABLE, number(self.table))
                    .with(FILES, number(self.file))
                    .with(CHOICE, choice);
                if failed.is_empty() {
                    row
                } else {
                    row.with(FAILED, failed.join(","))
                }
            })
            .await
    }
}
