//! `tables backup` and `tables restore`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use table_azure::wire::{EntityEncoder, decode_entity};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName, Ticks};
use table_core::store::{Error, ErrorKind};
use table_patterns::bulk::{
    BackupDirectory, BackupJob, BulkOptions, EncodedRows, RestoreJob, RowFormat, RowsSize,
};

use crate::blobs::{BlobArgs, BlobPlace, root};
use crate::failure::{Failure, Result};
use crate::output::{one_line, print, print_json, remark};
use crate::pace::{InFlight, LongArgs, at_least_one, until_stopped};
use crate::progress::{Progress, SharedProgress};
use crate::store::{Access, OpenStore, StoreName, manifest};

/// Lines of JSON as the service writes them, compressed: `tables import` reads the files too.
struct JsonLines;

impl RowFormat for JsonLines {
    fn extension(&self) -> &'static str {
        "jsonl.zst"
    }

    fn encode(&self, rows: &[Entity]) -> Result<EncodedRows, Error> {
        let (mut encoder, mut text) = (EntityEncoder::default(), Vec::new());
        for row in rows {
            encoder.encode(row, &mut text);
            text.push(b'\n');
        }
        let content = zstd::encode_all(&*text, zstd::DEFAULT_COMPRESSION_LEVEL)
            .map_err(|error| Error::corrupt(error.to_string()))?;
        Ok(EncodedRows {
            content,
            bytes: text.len() as u64,
        })
    }

    fn decode(&self, file: &[u8], size: RowsSize) -> Result<Vec<Entity>, Error> {
        let mut text = Vec::new();
        // One byte more than there may be shows that there are more.
        let most = size.bytes.saturating_add(1);
        let read =
            zstd::Decoder::new(file).and_then(|decoder| decoder.take(most).read_to_end(&mut text));
        read.map_err(|error| Error::corrupt(error.to_string()))?;
        let lines = || {
            text.split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
        };
        if text.len() as u64 > size.bytes || lines().count() as u64 > size.rows {
            return Err(Error::corrupt(format!(
                "it has more than the {} rows of {} bytes that the backup names",
                size.rows, size.bytes
            )));
        }
        let lines = lines();
        // Without ETag and Timestamp: a restored row gets new ones from its store.
        lines
            .map(|line| Ok(decode_entity(line)?.with_system(None, None)))
            .collect()
    }
}

/// The failure of a restore that has left out tables, or has written only a part of them.
fn incomplete(failed: &BTreeMap<TableName, Error>) -> Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = failed.keys().map(TableName::as_str).collect();
    Err(Failure::Damaged(format!(
        "these tables are missing or not complete: {}; the others are restored. When their data is mended, delete what is there of them and restore \
         them by --table",
        names.join(", ")
    )))
}

/// The arguments of `tables backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The store
    store: StoreName,
    /// The directory, which is created if it is missing; or a place in a container that exists: azure:CONTAINER/ROOT, azurite:…, env:NAME:…, or
    /// https://ACCOUNT.blob.core.windows.net/CONTAINER/ROOT
    #[arg(value_name = "PLACE")]
    directory: BlobPlace,
    /// A table, several times for several tables; every table if none is given
    #[arg(long = "table", value_name = "T")]
    tables: Vec<TableName>,
    /// Only the rows that were written since a time, such as 2026-01-31T00:00:00Z; deletions are not part of it
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Ticks>,
    #[command(flatten)]
    blobs: BlobArgs,
    /// Tables that are read at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one())]
    concurrency: usize,
    #[command(flatten)]
    long: LongArgs,
}

fn time(text: &str) -> Result<Ticks, String> {
    // A day stands for its first moment in UTC.
    let day = format!("{text}T00:00:00Z");
    let time = text.parse::<Ticks>().or_else(|_| day.parse());
    time.map_err(|error| {
        format!("{error}: use a day or a time, such as 2026-01-31 or 2026-01-31T12:00:00Z")
    })
}

impl BackupArgs {
    /// Writes a backup. The requests of [`BackupJob`].
    pub(crate) async fn run(&self) -> Result<()> {
        let work = async |open: &mut OpenStore| {
            let work = self.back_up(open, self.tables.iter().cloned().collect());
            // The job saves its position in the directory after each file, and writes `backup.json` last.
            until_stopped(
                work,
                "run the same command again, which continues the backup",
            )
            .await
        };
        self.store
            .with_open(Access::Read, self.long.pace, work)
            .await
    }

    async fn back_up(&self, open: &OpenStore, tables: BTreeSet<TableName>) -> Result<()> {
        // Before the directory is created: a mistyped name leaves nothing behind.
        for table in &tables {
            match manifest(&*open.store, table).await {
                Err(error) if error.is_table_not_found() => {
                    return Err(Failure::failed(format!(
                        "{} has no table '{table}'",
                        self.store
                    )));
                }
                read => read.map(drop)?,
            }
        }
        let names = open
            .tables(&tables.iter().cloned().collect::<Vec<_>>())
            .await?;
        let files = self.directory.open(true)?;
        self.directory.check_files()?;
        let directory = BackupDirectory::new(files, root(), JsonLines);
        // A time selects rows, and nothing tells how many.
        let read = self.since.is_none().then_some(&*names);
        let progress =
            SharedProgress::new(open.progress_of(read, "backed up", self.long.quiet).await);
        let mut job = BackupJob::new(Arc::clone(&open.store), self.store.to_string(), directory)
            .with_concurrency(self.concurrency)
            .on_progress(progress.after_resumed());
        if !tables.is_empty() {
            job = job.tables(tables);
        }
        if let Some(time) = self.since {
            job = job.since(time);
        }
        if let Some(blobs) = &self.blobs.blobs {
            job = job.with_blobs(blobs.open(false)?, root());
        }
        if self.blobs.rows_only {
            job = job.rows_only();
        }
        let done = job.prepare().await.map_err(Failure::refused)?.run().await?;
        progress.end();
        let (backup, requests) = (&done.backup, open.meter.total());
        let rows: u64 = backup.tables.values().map(|table| table.rows()).sum();
        let bytes: u64 = backup
            .tables
            .values()
            .flat_map(|table| &table.chunks)
            .map(|chunk| chunk.bytes)
            .sum();
        let unfinished: u64 = backup.tables.values().map(|table| table.unfinished).sum();
        if self.long.json {
            let tables: serde_json::Map<_, _> = backup
                .tables
                .iter()
                .map(|(name, table)| (name.to_string(), table.rows().into()))
                .collect();
            let report = json!({
                "tables": tables, "rows": rows, "resumed": done.resumed, "bytes": bytes, "unfinished": unfinished, "requests": requests,
            });
            return print_json(&report);
        }
        if !self.long.quiet {
            remark(&format!(
                "{} tables with {rows} rows backed up in {} files of {bytes} bytes, {requests} requests",
                backup.tables.len(),
                backup
                    .tables
                    .values()
                    .map(|table| table.chunks.len())
                    .sum::<usize>()
            ));
        }
        if unfinished > 0 {
            remark(&format!(
                "{unfinished} rows belong to writes that were not finished: after a restore, run `tables upkeep STORE --once`"
            ));
        }
        Ok(())
    }
}

/// The arguments of `tables restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The place of the backup: a directory or a container, as for a backup
    #[arg(value_name = "PLACE")]
    directory: BlobPlace,
    /// The store
    store: StoreName,
    /// A table, several times for several tables; every table of the backup if none is given
    #[arg(long = "table", value_name = "T")]
    tables: Vec<TableName>,
    /// Also restore into tables that have rows: rows of the backup replace rows of the same key, and other rows stay
    #[arg(long)]
    force: bool,
    /// Compare the files with their checksums, and restore nothing
    #[arg(long)]
    check: bool,
    /// Also restore index definitions that write into other tables, and types whose entities expire. Without the option such a backup is
    /// refused, with their names: a client that could write into the tables of the backup can have added them
    #[arg(long)]
    trust_definitions: bool,
    #[command(flatten)]
    blobs: BlobArgs,
    #[command(flatten)]
    in_flight: InFlight,
    #[command(flatten)]
    long: LongArgs,
}

impl RestoreArgs {
    /// Restores a backup. The requests of [`RestoreJob`].
    pub(crate) async fn run(&self) -> Result<()> {
        let files = self.directory.open(false)?;
        self.directory.check_files()?;
        let directory = BackupDirectory::new(files, root(), JsonLines);
        // `RestoreJob` needs a store to read a backup. Memory serves, so that a backup that cannot be restored creates no directory of an
        // embedded store.
        let check = async {
            let job = RestoreJob::open(directory.clone(), Arc::new(MemoryStore::new())).await;
            let job = job.map_err(|error| match error.root().kind() {
                ErrorKind::Storage(_) => {
                    Failure::Damaged(format!("{}: nothing was restored", Failure::from(error)))
                }
                _ => error.into(),
            })?;
            let job = self.configured(job)?;
            // Every file is compared before the target is opened.
            let faults = job.faults().await?;
            Ok((job, faults))
        };
        let (job, faults) =
            until_stopped(check, "nothing was restored: run the same command again").await?;
        if self.check {
            return self.print_checked(&job, &faults).await;
        }
        job.prepare()
            .await
            .map(drop)
            .map_err(|error| match error.kind() {
                ErrorKind::Storage(_) if !faults.is_empty() => {
                    let faults: Vec<_> = faults.values().cloned().collect();
                    Failure::Damaged(format!("{}: nothing was restored", faults.join("; ")))
                }
                _ => Failure::refused(error),
            })?;
        let work = async |open: &mut OpenStore| {
            // The position is in the target store, in a row of the first table: see `RestoreJob`.
            let work = self.restore(open, directory, &job);
            until_stopped(
                work,
                "run the same command again, which continues the restore",
            )
            .await
        };
        self.store
            .with_open(Access::WriteOrCreate, self.long.pace, work)
            .await
    }

    /// Sets what the arguments say.
    fn configured(&self, mut job: RestoreJob) -> Result<RestoreJob> {
        if !self.tables.is_empty() {
            job = job.tables(self.tables.iter().cloned());
        }
        if self.force {
            job = job.overwrite();
        }
        if self.trust_definitions {
            job = job.trust_definitions();
        }
        if let Some(blobs) = self.blobs.blobs.as_ref().filter(|_| !self.check) {
            job = job.with_blobs(blobs.open(true)?, root());
        }
        Ok(if self.blobs.rows_only {
            job.rows_only()
        } else {
            job
        })
    }

    async fn restore(
        &self,
        open: &OpenStore,
        directory: BackupDirectory,
        checked: &RestoreJob,
    ) -> Result<()> {
        // The open store repeats requests itself. A writer that did it too would multiply the attempts.
        let options = BulkOptions::default()
            .with_concurrency(self.in_flight.concurrency)
            .with_retry(None);
        let job = RestoreJob::open(directory, Arc::clone(&open.store)).await?;
        let job = self
            .configured(job)?
            .with_options(options)
            .checked_as(checked);
        let progress =
            Progress::new("restored", open.meter.clone(), self.long.quiet).with_total(job.rows());
        let progress = SharedProgress::new(progress);
        let job = job.on_progress(progress.after_resumed());
        let done = job.prepare().await.map_err(Failure::refused)?.run().await?;
        progress.end();
        let requests = open.meter.total();
        if self.long.json {
            let failed: serde_json::Map<_, _> = done
                .failed
                .iter()
                .map(|(table, error)| (table.to_string(), error.to_string().into()))
                .collect();
            let report = json!({
                "tables": done.tables, "failed": failed, "rows": done.rows, "resumed": done.resumed, "unfinished": done.unfinished,
                "requests": requests,
            });
            print_json(&report)?;
            return incomplete(&done.failed);
        }
        if !self.long.quiet {
            remark(&format!(
                "{} tables with {} rows restored, {requests} requests",
                done.tables, done.rows
            ));
        }
        if done.unfinished > 0 {
            remark(&format!(
                "{} rows belong to writes that were not finished at the backup: run `tables upkeep {} --once`",
                done.unfinished, self.store
            ));
        }
        for (table, error) in &done.failed {
            remark(&format!("{table}: {}", Failure::from(error.clone())));
        }
        incomplete(&done.failed)
    }

    async fn print_checked(
        &self,
        job: &RestoreJob,
        faults: &BTreeMap<TableName, String>,
    ) -> Result<()> {
        if !faults.is_empty() {
            let faults: Vec<_> = faults
                .iter()
                .map(|(table, fault)| format!("{table}: {fault}"))
                .collect();
            return Err(Failure::Damaged(format!(
                "these tables cannot be restored: {}",
                faults.join("; ")
            )));
        }
        for definition in job.definitions().await? {
            remark(&format!(
                "a restore needs --trust-definitions: {definition}"
            ));
        }
        let backup = job.backup();
        let (tables, rows) = (backup.tables.len(), job.rows());
        match self.long.json {
            true => print_json(
                &json!({"tables": tables, "rows": rows, "source": backup.source, "started": backup.started, "since": backup.since}),
            ),
            false => print(&format!(
                "the backup of {} from {} is complete: {tables} tables, {rows} rows, every checksum is right\n",
                one_line(&backup.source),
                backup.started
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of some kilobytes that names gigabytes, or has more rows than the backup says.
    #[test]
    fn a_file_with_more_than_the_backup_names_is_refused() {
        let row = Entity::new("p", "r")
            .unwrap()
            .with("Text", "x".repeat(1000));
        let sound = JsonLines.encode(&[row.clone(), row.clone()]).unwrap();
        let size = RowsSize {
            rows: 2,
            bytes: sound.bytes,
        };
        assert_eq!(
            JsonLines.decode(&sound.content, size).unwrap(),
            [row.clone(), row]
        );
        let bomb = zstd::encode_all(std::io::repeat(b' ').take(1 << 28), 1).unwrap();
        assert!(bomb.len() < 1 << 16);
        let fewer = [
            RowsSize { rows: 1, ..size },
            RowsSize {
                bytes: sound.bytes - 1,
                ..size
            },
        ];
        let refused = fewer.map(|size| JsonLines.decode(&sound.content, size));
        for refused in refused.into_iter().chain([JsonLines.decode(&bomb, size)]) {
            assert!(refused.unwrap_err().to_string().contains("more than"));
        }
    }
}
