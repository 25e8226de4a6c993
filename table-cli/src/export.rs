//! `tables export`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::pin::pin;

use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use table_azure::wire::EntityEncoder;
use table_core::model::{Entity, TableName, ValueRef};
use table_core::store::TableStoreExt as _;

use crate::data_file::{DataFile, DataFormat, DataWriter};
use crate::entity_text::{CsvRows, Types};
use crate::failure::{Failure, Result};
use crate::keys::KeyArgs;
use crate::layouts::check_layouts;
use crate::output::{print_json, remark};
use crate::pace::{LongArgs, at_least_one, until_stopped};
use crate::progress::SharedProgress;
use crate::read_rows::name_problem;
use crate::selection::Selection;
use crate::store::{Access, OpenStore, StoreName, manifest};
#[cfg(feature = "parquet")]
use crate::write_parquet::ParquetRows;

/// The place of the table's name in a path.
const TABLE: &str = "{table}";

/// The arguments of `tables export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The store
    store: StoreName,
    /// The tables
    #[arg(required = true)]
    tables: Vec<TableName>,
    /// The file: .jsonl or .csv, each also with .zst, or .parquet; - for standard output; {table} stands for the table's name
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    to: String,
    /// The format, if the name of the file does not say it
    #[arg(long, value_enum)]
    format: Option<DataFormat>,
    #[command(flatten)]
    selection: Selection,
    /// The property with the time of the last write in the file; otherwise it is left out
    #[arg(long, value_name = "NAME")]
    keep_timestamp: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Tables that are read at once, each into its file
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_least_one())]
    concurrency: usize,
    #[command(flatten)]
    long: LongArgs,
}

/// The outcome of the export of a table.
#[derive(Debug, Default)]
struct Exported {
    rows: u64,
    /// Entities with encrypted properties, which are in the file as they are stored.
    encrypted: u64,
    /// Encrypted properties that are in the file in plaintext.
    decrypted: BTreeSet<String>,
}

impl ExportArgs {
    /// Writes the entities to files. 1 request per page, and 1 per table for the manifest.
    pub(crate) async fn run(&self) -> Result<()> {
        let tables = &self.tables;
        if tables.len() > 1 && !self.to.contains(TABLE) {
            return Err(Failure::misuse(
                "several tables need a file each: give --to with {table}, such as 'backup/{table}.jsonl.zst'",
            ));
        }
        // Every name and format is checked before the first request: a mistake must not end the export after
        // some of the tables.
        let files = tables.iter().map(|table| {
            let path = self.to.replace(TABLE, table.as_str());
            DataFile::to_write(&path, self.format).map(|file| (path, file))
        });
        let files = files.collect::<Result<Vec<_>>>()?;
        if self.long.json && files.iter().any(|(_, file)| file.is_standard()) {
            return Err(Failure::misuse(
                "--json prints the report to standard output, and --to - the entities: choose one of them",
            ));
        }
        if let Some(name) = &self.keep_timestamp
            && let Some(problem) = name_problem(name)
        {
            return Err(Failure::misuse(format!(
                "--keep-timestamp: no property can be called {name:?} ({problem})"
            )));
        }
        let work = async |open: &mut OpenStore| {
            self.keys.apply(open, tables).await?;
            // Complete files stay at an interruption. A file that is being written keeps its name `.partial`.
            let work = self.export_all(open, &files);
            until_stopped(
                work,
                "run the same command again, which starts the files again",
            )
            .await
        };
        self.store
            .with_open(Access::Read, self.long.pace, work)
            .await
    }

    /// Exports each table into its path and file.
    async fn export_all(&self, open: &OpenStore, files: &[(String, DataFile)]) -> Result<()> {
        let all = self.selection.reads_all().then_some(&*self.tables);
        let progress =
            &SharedProgress::new(open.progress_of(all, "exported", self.long.quiet).await);
        let exports =
            stream::iter(self.tables.iter().zip(files)).map(|(table, (path, file))| async move {
                Ok::<_, Failure>((table, path, self.export(open, table, file, progress).await?))
            });
        // In the order of the tables, so that the reports are too.
        let mut exports = pin!(exports.buffered(self.concurrency));
        while let Some((table, path, exported)) = exports.try_next().await? {
            self.print_report(table, &exported, open.meter.total(), path)?;
        }
        progress.end();
        Ok(())
    }

    fn print_report(
        &self,
        table: &TableName,
        exported: &Exported,
        requests: u64,
        path: &str,
    ) -> Result<()> {
        let Exported {
            rows,
            encrypted,
            decrypted,
        } = exported;
        // With --quiet too: a remark about secrets in a file is not progress.
        if !decrypted.is_empty() {
            let names: Vec<_> = decrypted.iter().map(String::as_str).collect();
            remark(&format!(
                "{table}: encrypted properties are in the file in plaintext: {}",
                names.join(", ")
            ));
        }
        if *encrypted > 0 {
            remark(&format!(
                "{table}: {encrypted} entities have encrypted properties, which are in the file as they are stored, and no import can read \
                 them: give --keys FILE for their values"
            ));
        }
        if self.long.json {
            let report = json!({
                "table": table.as_str(), "rows": rows, "encrypted": encrypted, "decrypted": decrypted, "requests_so_far": requests,
                "file": path,
            });
            return print_json(&report);
        }
        if !self.long.quiet {
            remark(&format!(
                "{table}: {rows} rows exported, {requests} requests"
            ));
        }
        Ok(())
    }

    async fn export(
        &self,
        open: &OpenStore,
        table: &TableName,
        file: &DataFile,
        progress: &SharedProgress,
    ) -> Result<Exported> {
        let query = self.selection.query();
        let manifest = manifest(&*open.store, table).await?;
        check_layouts(&manifest, table)?;
        let mut pages = open.store.query_pages(table.clone(), query);
        // The first page before the file: a table that does not exist leaves no file.
        let mut page = pages.try_next().await?;
        let mut body = Body::new(file)?;
        let mut exported = Exported::default();
        while let Some(entities) = page {
            let before = exported.rows;
            for entity in entities
                .items
                .iter()
                .filter(|entity| self.selection.shows(entity))
            {
                match &self.keep_timestamp {
                    Some(name) => body.add(&with_timestamp(entity, name)?)?,
                    None => body.add(entity)?,
                }
                exported.add(entity);
            }
            progress.add_with_read(exported.rows - before, entities.items.len() as u64);
            page = pages.try_next().await?;
        }
        body.finish()?;
        Ok(exported)
    }
}

/// Adds the time of the last write as a property.
fn with_timestamp(entity: &Entity, name: &str) -> Result<Entity> {
    let mut entity = entity.clone();
    let Some(time) = entity.timestamp() else {
        return Ok(entity);
    };
    if entity.get(name).is_some() {
        return Err(Failure::failed(format!(
            "{} has a property '{name}' already: give another name to --keep-timestamp",
            entity.key()
        )));
    }
    entity
        .properties_mut()
        .push(name, ValueRef::DateTime(time), false);
    Ok(entity)
}

impl Exported {
    fn add(&mut self, entity: &Entity) {
        self.rows += 1;
        self.encrypted += u64::from(entity.is_ciphertext());
        for property in entity
            .properties()
            .iter()
            .filter(|property| property.is_encrypted())
        {
            if !self.decrypted.contains(property.name()) {
                self.decrypted.insert(property.name().to_owned());
            }
        }
    }
}

/// The content of a file that is being written. The head of a file of columns needs the properties of every entity, so the entities wait
/// in a temporary file.
enum Body {
    Lines {
        out: DataWriter,
        encoder: EntityEncoder,
        text: Vec<u8>,
    },
    Csv(DataWriter, CsvRows),
    #[cfg(feature = "parquet")]
    Parquet(DataWriter, ParquetRows),
}

impl Body {
    fn new(file: &DataFile) -> Result<Self> {
        let out = file.create()?;
        Ok(match file.format {
            DataFormat::Csv => Self::Csv(out, CsvRows::new()?),
            #[cfg(feature = "parquet")]
            DataFormat::Parquet => Self::Parquet(out, ParquetRows::new()?),
            _ => Self::Lines {
                out,
                encoder: EntityEncoder::default(),
                text: Vec::new(),
            },
        })
    }

    fn add(&mut self, entity: &Entity) -> Result<()> {
        match self {
            Self::Lines { out, encoder, text } => {
                text.clear();
                encoder.encode(entity, text);
                text.push(b'\n');
                Ok(out.write_all(text)?)
            }
            Self::Csv(_, rows) => rows.add(entity),
            #[cfg(feature = "parquet")]
            Self::Parquet(_, rows) => rows.add(entity),
        }
    }

    /// Writes the entities that have waited for the head of the file, and gives the file its name.
    fn finish(self) -> Result<()> {
        match self {
            Self::Lines { out, .. } => out.finish(),
            Self::Csv(mut out, rows) => {
                rows.write_to(&mut out, Types::Written)?;
                out.finish()
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(mut out, rows) => {
                rows.write_to(&mut out)?;
                out.finish()
            }
        }
    }
}
