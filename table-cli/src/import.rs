//! `tables import`.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use table_core::model::{ENCRYPTION_HEADERS, EdmType, Entity, TableName};
use table_core::store::Error;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::data_file::{DataFile, DataFormat};
use crate::failure::{Failure, Outcomes, Result};
use crate::keys::KeyArgs;
use crate::output::{print_json, remark};
use crate::pace::{InFlight, LongArgs, until_stopped};
use crate::progress::{FilePosition, Progress};
use crate::read_rows::{
    ColumnRules, KeyTemplates, LeftOut, PARTITION_KEY, ROW_KEY, ReadOptions, RowReader, edm_type,
    name_problem,
};
use crate::store::{Access, OpenStore, StoreName, create_if_missing};
use crate::write_rows::{Mode, RowWriter, SharedOutcomes, locked};

/// The rows that wait between the reader of the file and the writer of the table.
const QUEUED_ROWS: usize = 1024;
/// Their bytes: a row may be as long as an entity.
const QUEUED_BYTES: usize = 64 << 20;

/// The arguments of `tables import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The store
    store: StoreName,
    /// The table, which is created if it is missing
    table: TableName,
    /// The file: .jsonl, .json or .csv, each also with .zst or .gz, .parquet, or the .manifest of an export of AzCopy 7; - for standard input
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
    /// The property or key that a column becomes, such as 'First Name=FirstName'
    #[arg(long, value_name = "COLUMN=NAME", value_parser = new_name)]
    rename: Vec<(String, String)>,
    /// A column that is left out
    #[arg(long, value_name = "COLUMN")]
    ignore: Vec<String>,
    /// The property that the column Timestamp becomes; otherwise it is left out, because the store sets the Timestamp
    #[arg(long, value_name = "NAME")]
    keep_timestamp: Option<String>,
    /// The type of a column of CSV or JSON, such as zip=String; otherwise it is inferred from the first 1000 rows
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

fn new_name(text: &str) -> Result<(String, String), String> {
    // A name of a property has no `=`, and a column may have one.
    let (column, name) = text.rsplit_once('=').ok_or("use COLUMN=NAME")?;
    Ok((column.to_owned(), name.to_owned()))
}

impl ImportArgs {
    /// Writes the entities of a file. 1 request for each group of up to 100 rows of a partition, and 1 for the manifest; 1 more if the table is
    /// missing. The requests of indexes in addition.
    pub(crate) async fn run(&self) -> Result<()> {
        let ring = self.keys.read()?;
        let keys = KeyTemplates::new(self.partition_key.as_deref(), self.row_key.as_deref())?;
        let files = DataFile::to_read(&self.from, self.format)?;
        let options = self.read_options(keys, &files)?;
        let position = DataFile::position(&files);
        // The header is read before the table is created: a file that cannot be imported changes nothing.
        let read = tokio::task::spawn_blocking(move || RowReader::new(files, options));
        let reader = read.await.map_err(Failure::failed)??;
        if !self.long.quiet {
            reader.facts().remarks.iter().for_each(|text| remark(text));
            let inferred = reader.facts().reported_types();
            if !inferred.is_empty() {
                let types: Vec<_> = inferred
                    .iter()
                    .map(|(name, of)| format!("{name}={}", of.name()))
                    .collect();
                remark(&format!("inferred types: {}", types.join(" ")));
            }
        }
        let work = async |open: &mut OpenStore| {
            create_if_missing(&*open.store, &self.table).await?;
            if let Some(ring) = ring {
                ring.apply(open, std::slice::from_ref(&self.table)).await?;
            }
            self.write_and_report(open, reader, position).await
        };
        self.store
            .with_open(Access::WriteOrCreate, self.long.pace, work)
            .await
    }

    fn read_options(&self, keys: KeyTemplates, files: &[DataFile]) -> Result<ReadOptions> {
        let has = |format: DataFormat| files.iter().any(|file| file.format == format);
        let twice = |option: &str, column: &str| {
            Failure::misuse(format!(
                "{option} names the column {column:?} twice: a column becomes one property or none"
            ))
        };
        // Before the header: there, the refusal would name the column and not the option.
        if let Some(kept) = &self.keep_timestamp
            && ![PARTITION_KEY, ROW_KEY].contains(&&**kept)
            && let Some(problem) = name_problem(kept)
        {
            return Err(Failure::misuse(format!(
                "--keep-timestamp {kept:?}: no property can have this name: {problem}"
            )));
        }
        let mut rules = ColumnRules {
            keep_timestamp: self.keep_timestamp.clone(),
            ..ColumnRules::default()
        };
        for (column, name) in &self.rename {
            if ![PARTITION_KEY, ROW_KEY].contains(&&**name)
                && let Some(problem) = name_problem(name)
            {
                return Err(Failure::misuse(format!(
                    "--rename {:?}: no property can be called {name:?}: {problem}",
                    format!("{column}={name}")
                )));
            }
            if rules.rename.insert(column.clone(), name.clone()).is_some() {
                return Err(twice("--rename", column));
            }
        }
        rules.ignore.extend(self.ignore.iter().cloned());
        if let Some(column) = self
            .ignore
            .iter()
            .find(|column| rules.rename.contains_key(*column))
        {
            return Err(twice("--rename or --ignore", column));
        }
        if !self.types.is_empty() && has(DataFormat::Parquet) {
            return Err(Failure::misuse(
                "--type is for CSV and JSON: the columns of Parquet have types",
            ));
        }
        if self.null.is_some() && !files.iter().all(|file| file.format == DataFormat::Csv) {
            return Err(Failure::misuse(
                "--null is for CSV: JSON and Parquet have null",
            ));
        }
        Ok(ReadOptions {
            keys,
            rules,
            types: self.types.iter().cloned().collect(),
            null: self.null.clone(),
        })
    }

    async fn write_and_report(
        &self,
        open: &OpenStore,
        reader: RowReader,
        position: Option<FilePosition>,
    ) -> Result<()> {
        let table = &self.table;
        let (inferred, left_out) = (reader.facts().reported_types(), reader.left_out());
        // The names in the manifest and in the file of keys. A file of entities does not have them.
        let encrypted: Vec<_> = open
            .store
            .context()
            .encrypted_names(table)
            .in_every_row()
            .map(str::to_owned)
            .collect();
        if open.store.profile().encrypts && !self.long.quiet {
            remark(&match encrypted.is_empty() {
                true => format!(
                    "{table}: no property is encrypted: the manifest names none, and neither does `encrypt` in the file of keys"
                ),
                false => format!("{table}: encrypted properties: {}", encrypted.join(", ")),
            });
        }
        let report = SharedOutcomes::default();
        let resume =
            "run the same command with --mode upsert to go on, which writes the first rows again";
        // There is no file of progress: groups finish in any order, so the first row that is not written is not known. Writing rows
        // again with `upsert` gives the same result.
        let done = until_stopped(self.write(open, reader, position, &report), resume).await;
        let requests = open.meter.total();
        // The report is printed after an interruption too: it says how many rows are written.
        let is_whole = done.is_ok();
        let end = locked(&report, |report| {
            self.print_report(report, is_whole, &inferred, &encrypted, &left_out, requests)
        });
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
        let unreadable = Unreadable::default();
        let rows = rows(reader, Arc::clone(report), Arc::clone(&unreadable));
        let writer = RowWriter {
            store: &open.store,
            table: &self.table,
            mode: self.mode,
            concurrency: self.in_flight.concurrency,
        };
        let written = writer.write(rows, report, &mut progress).await;
        let unreadable = unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // The rows ended because the file cannot be read: the writer knows the end alone.
        unreadable.map_or(written, Err)?;
        progress.end();
        Ok(())
    }

    fn print_report(
        &self,
        report: &Outcomes,
        is_whole: bool,
        inferred: &[(String, EdmType)],
        encrypted: &[String],
        left_out: &LeftOut,
        requests: u64,
    ) -> Result<()> {
        let (
            table,
            Outcomes {
                done: written,
                skipped,
                ambiguous,
                named,
            },
        ) = (&self.table, report);
        let (timestamps, cut_times) = (left_out.timestamps(), left_out.cut_times());
        // With --quiet too: values of the file are not in the table.
        if cut_times > 0 {
            remark(&format!(
                "{table}: {cut_times} times were cut to 100 ns, the unit of a DateTime"
            ));
        }
        if timestamps > 0 {
            remark(&format!(
                "{table}: the Timestamp of {timestamps} rows was left out, because the store sets its own: --keep-timestamp NAME keeps it as \
                 another property"
            ));
        }
        if self.long.json {
            let types: serde_json::Map<_, _> = inferred
                .iter()
                .map(|(name, of)| (name.clone(), Value::from(of.name())))
                .collect();
            let report = json!({
                "table": table.as_str(), "is_complete": is_whole, "written": written, "skipped": skipped, "ambiguous": ambiguous, "requests": requests,
                "inferred": types, "encrypted": encrypted, "first_skipped": named,
                "timestamps_left_out": timestamps, "times_cut": cut_times,
            });
            print_json(&report)?;
        } else {
            named
                .iter()
                .for_each(|row| remark(&format!("skipped: {row}")));
            if !self.long.quiet {
                // An import that ends early leaves requests without an answer, whose rows may be written.
                let at_least = if is_whole { "" } else { "at least " };
                remark(&format!(
                    "{table}: {at_least}{written} rows imported, {skipped} skipped, {requests} requests"
                ));
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

/// Why the rows of a file have ended early.
type Unreadable = Arc<Mutex<Option<Failure>>>;

/// Why a row is not written, although it is an entity.
fn refusal(entity: &Entity) -> Option<&'static str> {
    if entity.key().is_system() {
        return Some(
            "keys that begin with ~~ are for rows of this library, which no query shows; give the entity another key",
        );
    }
    if entity.is_index_entry() {
        return Some(
            "the property IndexName has the id of an index, so the row would be read as an index entry, which no query shows; imports write \
             the entries themselves",
        );
    }
    // Its header is bound to a table name that the file does not have.
    if entity.get(ENCRYPTION_HEADERS[0]).is_some() {
        return Some(
            "its properties are encrypted, and bound to the table of the export: export with --keys, or use `tables copy` or \
             `tables backup`",
        );
    }
    None
}

/// Reads the rows on a thread of its own, because files block. Bad rows are skipped.
fn rows(
    reader: RowReader,
    report: SharedOutcomes,
    unreadable: Unreadable,
) -> impl Stream<Item = Result<Entity, Error>> + Send + Unpin + 'static {
    // Bounded, so that a fast file does not fill the memory while a slow service writes. If the import ends first, the receiver is
    // dropped and the thread stops at its next row.
    let (sender, receiver) = mpsc::channel(QUEUED_ROWS);
    let (room, runtime) = (Arc::new(Semaphore::new(QUEUED_BYTES)), Handle::current());
    let reading = tokio::task::spawn_blocking(move || {
        // Waits until the row has room. The room is free again when the row is taken from the queue.
        let send = |entity: Entity| {
            let bytes = entity.properties().as_packed().len().min(QUEUED_BYTES);
            let taken =
                Arc::clone(&room).acquire_many_owned(u32::try_from(bytes).unwrap_or(u32::MAX));
            runtime
                .block_on(taken)
                .is_ok_and(|taken| sender.blocking_send((entity, taken)).is_ok())
        };
        let skip = |row: String| {
            locked(&report, |report| report.skip(row));
            ControlFlow::Continue(())
        };
        reader.read(&mut |row| match row {
            Ok(entity) => match refusal(&entity) {
                Some(reason) => skip(format!("{}: {reason}", entity.key())),
                None if send(entity) => ControlFlow::Continue(()),
                None => ControlFlow::Break(()),
            },
            Err(bad) => skip(format!("{}: {}", bad.place, bad.reason)),
        })
    });
    let rows = (receiver, Some(reading));
    Box::pin(stream::unfold(rows, move |(mut receiver, mut reading)| {
        let unreadable = Arc::clone(&unreadable);
        async move {
            if let Some((entity, _)) = receiver.recv().await {
                return Some((Ok(entity), (receiver, reading)));
            }
            // Rows that end because the reader has failed are no whole file.
            let failure = match reading.take()?.await {
                Ok(Ok(())) => return None,
                Ok(Err(failure)) => failure,
                Err(stopped) => {
                    Failure::failed(format!("the reader of the file has stopped: {stopped}"))
                }
            };
            let ended = Error::application("the file cannot be read");
            *unreadable.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            Some((Err(ended), (receiver, None)))
        }
    }))
}
