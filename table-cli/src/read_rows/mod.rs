//! Reads entities from files.

#[cfg(feature = "parquet")]
mod arrow_schema;
mod columns;
mod csv_file;
mod csv_records;
mod json_file;
mod json_texts;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(feature = "parquet")]
mod parquet_pages;
mod template;
mod value;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use table_core::model::{EdmType, Entity};

use self::columns::list;
pub(crate) use self::columns::{ColumnRules, name_problem};
use self::csv_file::CsvReader;
pub(crate) use self::csv_file::edm_type;
use self::json_file::JsonReader;
#[cfg(feature = "parquet")]
pub(crate) use self::parquet_file::type_column;
#[cfg(feature = "parquet")]
use self::parquet_file::{ParquetReader, seekable};
#[cfg(feature = "parquet")]
pub(crate) use self::parquet_pages::ChecksummedPages;
pub(crate) use self::template::KeyTemplates;
use self::value::Evidence;
use crate::data_file::{DataFile, DataFormat};
use crate::failure::{Failure, Result};

pub(crate) const PARTITION_KEY: &str = "PartitionKey";
pub(crate) const ROW_KEY: &str = "RowKey";
/// The rows of a file from which types are inferred.
const SAMPLE_ROWS: usize = 1000;
/// The bytes of rows from which types are inferred.
const SAMPLE_BYTES: usize = 16 << 20;

/// A row that cannot be an entity.
#[derive(Debug)]
pub(crate) struct BadRow {
    /// The place in the file, such as `line 7`.
    pub(crate) place: String,
    pub(crate) reason: String,
}

/// A row of a file.
pub(crate) type Row = Result<Entity, BadRow>;

/// How rows become entities.
#[derive(Clone, Debug)]
pub(crate) struct ReadOptions {
    pub(crate) keys: KeyTemplates,
    pub(crate) rules: ColumnRules,
    /// The types that the command line gives, by column or property.
    pub(crate) types: BTreeMap<String, EdmType>,
    /// The text of an absent value in CSV, besides no text at all.
    pub(crate) null: Option<String>,
}

impl ReadOptions {
    /// The given type of a column.
    fn given_type(&self, column: &str, property: &str) -> Option<EdmType> {
        self.types
            .get(column)
            .or_else(|| self.types.get(property))
            .copied()
    }

    /// Refuses a type of a column that the file does not have.
    fn check_types(&self, columns: &[(String, String)]) -> Result<()> {
        let has = |given: &str| {
            columns
                .iter()
                .any(|(name, property)| name == given || property == given)
        };
        match self.types.keys().find(|given| !has(given)) {
            None => Ok(()),
            Some(unknown) => {
                let names: Vec<_> = columns.iter().map(|(name, _)| name.clone()).collect();
                Err(Failure::misuse(format!(
                    "--type names the column '{unknown}', which the file does not have as a property; it has {}",
                    list(&names)
                )))
            }
        }
    }
}

/// What the first rows of all files show.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// How the files are read, where their names and the command line do not say it.
    pub(crate) remarks: Vec<String>,
    /// Columns with properties: their names, and the names of the properties.
    columns: Vec<(String, String)>,
    /// The types of the properties whose types are inferred.
    inferred: BTreeMap<String, Inferred>,
    json: json_file::JsonFacts,
}

/// The types of the values of a property.
#[derive(Clone, Copy, Debug)]
struct Inferred {
    /// `None` without a value.
    evidence: Option<Evidence>,
    /// Whether the import reports the type: in CSV always, in JSON if numbers become another type than each has by itself.
    is_reported: bool,
}

impl Facts {
    fn add_remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    fn add_column(&mut self, name: String, property: String) {
        let column = (name, property);
        if !self.columns.contains(&column) {
            self.columns.push(column);
        }
    }

    /// Adds values of a property.
    fn add_values(&mut self, property: &str, evidence: Option<Evidence>, is_reported: bool) {
        let new = Inferred {
            evidence,
            is_reported,
        };
        let known = self.inferred.entry(property.to_owned()).or_insert(new);
        known.is_reported |= is_reported;
        known.evidence = match (known.evidence, evidence) {
            (Some(known), Some(new)) => Some(known.and(new)),
            (known, new) => known.or(new),
        };
    }

    /// The inferred type of a property.
    fn type_of(&self, property: &str) -> Option<EdmType> {
        Some(
            self.inferred
                .get(property)?
                .evidence
                .map_or(EdmType::String, Evidence::narrowest),
        )
    }

    /// The inferred types that the import reports.
    pub(crate) fn reported_types(&self) -> Vec<(String, EdmType)> {
        let reported = self
            .inferred
            .iter()
            .filter(|(_, inferred)| inferred.is_reported);
        reported
            .filter_map(|(name, _)| Some((name.clone(), self.type_of(name)?)))
            .collect()
    }

    /// Properties whose times have no zone, or no time of day, in the file.
    fn completed_times(&self) -> Vec<&str> {
        let is_completed =
            |inferred: &Inferred| inferred.evidence.is_some_and(Evidence::completes_times);
        self.inferred
            .iter()
            .filter(|(_, inferred)| is_completed(inferred))
            .map(|(name, _)| &**name)
            .collect()
    }
}

/// Counts the values that an import leaves out or cuts.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    timestamps: AtomicU64,
    cut_times: AtomicU64,
}

impl LeftOut {
    fn add_timestamp(&self) {
        self.timestamps.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "parquet")]
    fn add_cut_times(&self, times: u64) {
        self.cut_times.fetch_add(times, Ordering::Relaxed);
    }

    /// The times that had parts of 100 ns, which a DateTime does not have.
    pub(crate) fn cut_times(&self) -> u64 {
        self.cut_times.load(Ordering::Relaxed)
    }

    /// The rows whose Timestamp was left out.
    pub(crate) fn timestamps(&self) -> u64 {
        self.timestamps.load(Ordering::Relaxed)
    }
}

/// Why a column `Timestamp` is refused: its values are no times of a store, so they are data of the user.
fn own_timestamp(place: &str) -> String {
    format!(
        "{place}: the column Timestamp has a value that is no time; the store sets the property Timestamp itself, to the time of the last \
         write: keep the column under another name with --keep-timestamp NAME, or leave it out with --ignore Timestamp"
    )
}

/// Reads the rows of a file, or of several files one after another.
pub(crate) struct RowReader {
    files: Vec<DataFile>,
    options: ReadOptions,
    facts: Facts,
    left_out: Arc<LeftOut>,
    /// The file, if it is the only one: standard input cannot be opened twice.
    opened: Option<Opened>,
}

enum Opened {
    Csv(Box<CsvReader>),
    Json(Box<JsonReader>),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetReader>),
}

impl RowReader {
    /// Opens the first file, and reads its header and the rows from which types are inferred. A column has the same type in all files,
    /// so these rows of every file are read.
    pub(crate) fn new(files: Vec<DataFile>, options: ReadOptions) -> Result<Self> {
        let (facts, left_out) = (Facts::default(), Arc::default());
        let mut reader = Self {
            files,
            options,
            facts,
            left_out,
            opened: None,
        };
        let mut facts = Facts::default();
        let mut opened = Vec::new();
        for file in &reader.files {
            let file = reader.open(file, &mut facts)?;
            // Several files are closed again and opened one at a time by `read`: an export can have more files than a process may open.
            if reader.files.len() == 1 {
                opened.push(file);
            }
        }
        JsonReader::settle(&mut facts, &reader.options)?;
        // A document without entities has no names, and nothing to read.
        if facts.json.entities > 0
            || reader
                .files
                .iter()
                .any(|file| file.format == DataFormat::Csv)
        {
            reader.options.check_types(&facts.columns)?;
        } else if let Some(problem) = reader.options.keys.problem() {
            return Err(Failure::misuse(problem));
        }
        let completed = facts.completed_times().join(", ");
        if !completed.is_empty() {
            facts.add_remark(format!(
                "times without a zone are in UTC, and days are their midnight in UTC: {completed}"
            ));
        }
        reader.facts = facts;
        reader.opened = opened.pop().map(|mut opened| {
            reader.set_types(&mut opened);
            opened
        });
        Ok(reader)
    }

    fn open(&self, file: &DataFile, facts: &mut Facts) -> Result<Opened> {
        Ok(match file.format {
            DataFormat::Csv => Opened::Csv(Box::new(CsvReader::new(
                file.open()?,
                &self.options,
                facts,
            )?)),
            DataFormat::Json | DataFormat::Jsonl => {
                let is_lines = file.format == DataFormat::Jsonl;
                Opened::Json(Box::new(JsonReader::new(
                    file.open()?,
                    is_lines,
                    &self.options,
                    facts,
                )?))
            }
            #[cfg(feature = "parquet")]
            DataFormat::Parquet => {
                let file = file
                    .open_file()?
                    .map_or_else(|| seekable(std::io::stdin()), Ok)?;
                Opened::Parquet(Box::new(ParquetReader::new(file, &self.options, facts)?))
            }
            #[cfg(not(feature = "parquet"))]
            DataFormat::Parquet => {
                return Err(crate::failure::Failure::misuse(
                    crate::data_file::NO_PARQUET,
                ));
            }
        })
    }

    fn set_types(&self, opened: &mut Opened) {
        match opened {
            Opened::Csv(reader) => reader.set_types(&self.facts),
            Opened::Json(reader) => reader.set_types(&self.facts),
            #[cfg(feature = "parquet")]
            Opened::Parquet(_) => {}
        }
    }

    /// What the first rows show.
    pub(crate) const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Counts what is left out while the rows are read.
    pub(crate) fn left_out(&self) -> Arc<LeftOut> {
        Arc::clone(&self.left_out)
    }

    /// Hands every row to `take`, until it breaks. An error ends the rows. Blocks.
    pub(crate) fn read(mut self, take: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<()> {
        if let Some(opened) = self.opened.take() {
            return self.read_opened(opened, take);
        }
        for file in &self.files {
            let mut is_stopped = false;
            let mut take_of_file = |row: Row| {
                let row = row.map_err(|bad| BadRow {
                    place: format!("{file}, {}", bad.place),
                    ..bad
                });
                let taken = take(row);
                // A reader ends without an error at a break too, so the break is kept for the loop over
                // files.
                is_stopped = taken.is_break();
                taken
            };
            let mut opened = self.open(file, &mut Facts::default())?;
            self.set_types(&mut opened);
            self.read_opened(opened, &mut take_of_file)?;
            if is_stopped {
                break;
            }
        }
        Ok(())
    }

    fn read_opened(
        &self,
        opened: Opened,
        take: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<()> {
        match opened {
            Opened::Csv(reader) => reader.read(&self.left_out, take),
            Opened::Json(reader) => reader.read(&self.left_out, take),
            #[cfg(feature = "parquet")]
            Opened::Parquet(reader) => reader.read(&self.left_out, take),
        }
    }
}
