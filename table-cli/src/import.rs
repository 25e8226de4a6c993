//! `tables import`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use clap::Args;
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use table_core::model::{ENCRYPTION_HEADERS, EdmType, Entity, TableName};
use table_core::store::Error;
use tokio::sync::mpsc;

use crate::data_file::{DataFile, DataFormat};
use crate::failure::{Failure, Outcomes, Result};
use crate::keys::KeyArgs;
use crate::output::{print_json, remark};
use crate::pace::{InFlight, LongArgs, until_stopped};
use crate::progress::{FilePosition, Progress};
use crate::read_rows::{CsvOptions, KeyTemplates, RowReader, edm_type};
use crate::store::{Access, OpenStore, StoreName, create_if_missing};
use crate::write_rows::{Mode, RowWriter, SharedOutcomes, locked};

/// The rows that wait between the reader of the file and the writer of the table.
const QUEUED_ROWS: usize = 1024;

/// The arguments of `tables import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The store
    store: StoreName,
    /// The table, which is created if it is missing
    table: TableName,
    /// The file: .jsonl, .json or .csv, each also with .zst, .parquet, or the .manifest of an export of AzCopy 7; - for standard input
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    from: String,
    /// The format, if the name of the file does not say it
    #[arg(long, value_enum)]
    format: Option<DataFormat>,
    /// What happens to an entity that exists
    #[arg(long, value_enum, default_value_t = Mode::Insert)]
    mode: Mode,
    /// The template of the PartitionKey, for a file without keys: {COLUMN} is the value of a column
    #[arg(long, value_name = "TEMPLATE")]
    partition_key: Option<String>,
    /// The template of the RowKey, such as '{carrier}_{flight:u32:04}'
    #[arg(long, value_name = "TEMPLATE")]
    row_key: Option<String>,
    /// The type of a column of CSV, such as zip=String; otherwise it is inferred from the first 1000 rows
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = column_type)]
    types: Vec<(String, EdmType)>,
    /// The text of an absent value in CSV, such as NA
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    in_flight: InFlight,
    #[command(flatten)]
    long: LongArgs,
}

fn column_type(text: &str) -> Result<(String, EdmType), String> {
    let (name, of) = text.split_once('=').ok_or("use COLUMN=TYPE")?;
    let of = edm_type(of)
        .ok_or("the types are Binary, Boolean, DateTime, Double, Guid, Int32, Int64 and String")?;
    Ok((name.to_owned(), of))
}

impl ImportArgs {
    /// Writes the entities of a file. 1 request for each group of up to 100 rows of a partition, and 1 for the manifest; 1 more if the table is
    /// missing. The requests of indexes in addition.
    pub(crate) async fn run(&self) -> Result<()> {
        let ring = self.keys.read()?;
        let keys = KeyTemplates::new(self.partition_key.as_deref(), self.row_key.as_deref())?;
        let files = DataFile::to_read(&self.from, self.format)?;
        let values = CsvOptions {
            types: self.types.iter().cloned().collect(),
            inferred: BTreeMap::new(),
            null: self.null.clone(),
        };
        let is_csv = files.iter().all(|file| file.format == DataFormat::Csv);
        let is_about_csv = !values.types.is_empty() || values.null.is_some();
        if is_about_csv && !is_csv {
            return Err(Failure::misuse(
                "--type and --null are for CSV: JSON and Parquet have types and null",
            ));
        }
        let position = DataFile::position(&files);
        // The header is read before the table is created: a file that cannot be imported changes nothing.
        let read = tokio::task::spawn_blocking(move || RowReader::new(files, keys, values));
        let reader = read.await.map_err(Failure::failed)??;
        let inferred = reader.inferred();
        if !self.long.quiet && !inferred.is_empty() {
            let types: Vec<_> = inferred.iter().map(|(name, of)| format!("{name}={}", of.name())).collect();
            remark(&format!("inferred types: {}", types.join(" ")));
        }
        let work = async |open: &mut OpenStore| {
            create_if_missing(&*open.store, &self.table).await?;
            if let Some(ring) = ring {
                ring.apply(open, std::slice::from_ref(&self.table)).await?;
            }
            self.write_and_report(open, reader, position).await
        };
        self.store.with_open(Access::WriteOrCreate, self.long.pace, work).await
    }

    async fn write_and_report(
        &self,
        open: &OpenStore,
        reader: RowReader,
        position: Option<FilePosition>,
    ) -> Result<()> {
        let table = &self.table;
        let inferred = reader.inferred();
        // The names in the manifest and in the file of keys. A file of entities does not have them.
        let encrypted: Vec<_> = open.store.encrypted_names(table).in_every_row().map(str::to_owned).collect();
        if open.store.profile().encrypts && !self.long.quiet {
            remark(&match encrypted.is_empty() {
                true => format!(
                    "{table}: no property is encrypted: the manifest names none, and neither does `encrypt` in the file of keys"
                ),
                false => format!("{table}: encrypted properties: {}", encrypted.join(", ")),
            });
        }
        let report = SharedOutcomes::default();
        let resume = "run the same command with --mode upsert to go on, which writes the first rows again";
        // There is no file of progress: groups finish in any order, so the first row that is not written is not known. Writing rows
        // again with `upsert` gives the same result.
        let done = until_stopped(self.write(open, reader, position, &report), resume).await;
        let requests = open.meter.total();
        // The report is printed after an interruption too: it says how many rows are written.
        let end = locked(&report, |report| self.print_report(report, &inferred, &encrypted, requests));
        done.map_err(|failure| failure.with_resume(resume)).and(end)
    }

    async fn write(
        &self,
        open: &OpenStore,
        reader: RowReader,
        position: Option<FilePosition>,
        report: &SharedOutcomes,
    ) -> Result<()> {
        let progress = Progress::new("imported", open.meter.clone(), self.long.quiet);
        let mut progress = progress.with_file(position);
        let rows = rows(reader, Arc::clone(report));
        let writer = RowWriter {
            store: &open.store,
            table: &self.table,
            mode: self.mode,
            concurrency: self.in_flight.concurrency,
        };
        writer.write(rows, report, &mut progress).await?;
        progress.end();
        Ok(())
    }

    fn print_report(
        &self,
        report: &Outcomes,
        inferred: &[(String, EdmType)],
        encrypted: &[String],
        requests: u64,
    ) -> Result<()> {
        let (table, Outcomes { done: written, skipped, ambiguous, named }) = (&self.table, report);
        if self.long.json {
            let types: serde_json::Map<_, _> =
                inferred.iter().map(|(name, of)| (name.clone(), Value::from(of.name()))).collect();
            let report = json!({
                "table": table.as_str(), "written": written, "skipped": skipped, "ambiguous": ambiguous, "requests": requests,
                "inferred": types, "encrypted": encrypted, "first_skipped": named,
            });
            print_json(&report)?;
        } else {
            named.iter().for_each(|row| remark(&format!("skipped: {row}")));
            if !self.long.quiet {
                remark(&format!("{table}: {written} rows imported, {skipped} skipped, {requests} requests"));
            }
        }
        match (skipped, ambiguous) {
            (0, 0) => Ok(()),
            (_, 0) => Err(Failure::Skipped(format!("{skipped} rows were skipped"))),
            _ => Err(Failure::failed(format!(
                "{ambiguous} rows were perhaps written: run the command again with --mode upsert"
            ))),
        }
    }
}

/// Reads the rows on a thread of its own, because files block. Bad rows are skipped.
fn rows(
    reader: RowReader,
    report: SharedOutcomes,
) -> impl Stream<Item = Result<Entity, Error>> + Send + Unpin + 'static {
    // Bounded, so that a fast file does not fill the memory while a slow service writes. If the import ends first, the receiver is
    // dropped and the thread stops at its next row.
    let (sender, receiver) = mpsc::channel(QUEUED_ROWS);
    let reading = tokio::task::spawn_blocking(move || {
        reader.read(&mut |row| match row {
            // Its header is bound to a table name that the file does not have.
            Ok(entity) if entity.get(ENCRYPTION_HEADERS[0]).is_some() => {
                let reason = "its properties are encrypted, and bound to the table of the export: export with --keys, or use `tables copy` or \
                              `tables backup`";
                locked(&report, |report| report.skip(format!("{}: {reason}", entity.key())));
                ControlFlow::Continue(())
            }
            Ok(entity) => match sender.blocking_send(entity) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            },
            Err(bad) => {
                locked(&report, |report| report.skip(format!("{}: {}", bad.place, bad.reason)));
                ControlFlow::Continue(())
            }
        })
    });
    let rows = (receiver, Some(reading));
    Box::pin(stream::unfold(rows, |(mut receiver, mut reading)| async move {
        if let Some(entity) = receiver.recv().await {
            return Some((Ok(entity), (receiver, reading)));
        }
        // Rows that end because the reader has failed are no whole file.
        let failure = match reading.take()?.await {
            Ok(Ok(())) => return None,
            Ok(Err(failure)) => failure.to_string(),
            Err(stopped) => format!("the reader of the file has stopped: {stopped}"),
        };
        Some((Err(Error::invalid_request(failure)), (receiver, None)))
    }))
}
