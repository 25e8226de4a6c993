//! Reads entities from files.

mod csv_file;
mod json_file;
#[cfg(feature = "parquet")]
mod parquet_file;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::ControlFlow;
use std::sync::Arc;

use table_core::manifest::{Evaluator, IndexDefinition, KeyTemplate, Placement};
use table_core::model::{EdmType, Entity, TableName};

pub(crate) use self::csv_file::{CsvOptions, edm_type};
use self::csv_file::{CsvReader, common_type};
use self::json_file::{read_json, read_lines};
#[cfg(feature = "parquet")]
pub(crate) use self::parquet_file::type_column;
#[cfg(feature = "parquet")]
use self::parquet_file::{ParquetReader, seekable};
use crate::data_file::{DataFile, DataFormat};
use crate::failure::{Failure, Result};

const PARTITION_KEY: &str = "PartitionKey";
const ROW_KEY: &str = "RowKey";
/// Columns that the service sets: an import leaves them out.
const SYSTEM_COLUMNS: [&str; 4] = ["Timestamp", "Timestamp@type", "ETag", "odata.etag"];

/// A row that cannot be an entity.
#[derive(Debug)]
pub(crate) struct BadRow {
    /// The place in the file, such as `line 7`.
    pub(crate) place: String,
    pub(crate) reason: String,
}

/// A row of a file.
pub(crate) type Row = Result<Entity, BadRow>;

/// How keys are made from the columns of a file that has none.
#[derive(Clone, Debug)]
pub(crate) struct KeyTemplates(Option<Arc<Evaluator>>);

impl KeyTemplates {
    /// Parses the templates of PartitionKey and RowKey. Both are given, or neither.
    pub(crate) fn new(partition: Option<&str>, row: Option<&str>) -> Result<Self> {
        let (partition, row) = match (partition, row) {
            (None, None) => return Ok(Self(None)),
            (Some(partition), Some(row)) => (template(PARTITION_KEY, partition)?, template(ROW_KEY, row)?),
            _ => return Err(Failure::misuse("give both --partition-key and --row-key, or neither")),
        };
        // The library evaluates templates as the keys of an index. In another table no key is an entity's own.
        let table = TableName::new("Keys").map_err(Failure::misuse)?;
        let definition = IndexDefinition::keyed("key", Placement::OtherTable(table), Some(partition), row);
        Ok(Self(Some(Arc::new(definition.evaluator().map_err(Failure::misuse)?))))
    }

    /// Whether templates are given, so that the file needs no keys.
    pub(crate) const fn are_given(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses a file of columns from which no key can be made.
    pub(crate) fn check(&self, has_key: bool) -> Result<()> {
        match has_key || self.are_given() {
            true => Ok(()),
            false => Err(Failure::misuse(
                "the file has no columns PartitionKey and RowKey: give --partition-key and --row-key, with {COLUMN} for values of columns",
            )),
        }
    }

    /// Gives an entity its key.
    pub(crate) fn apply(&self, entity: Entity) -> Result<Entity, String> {
        let Some(evaluator) = &self.0 else { return Ok(entity) };
        let keys = evaluator.entry_keys(&entity).map_err(|error| error.to_string())?;
        let key = keys.into_iter().next().ok_or("a column of the key templates is absent")?;
        Ok(entity.with_key(key))
    }
}

fn template(name: &str, text: &str) -> Result<KeyTemplate> {
    text.parse().map_err(|error| Failure::misuse(format!("the template of the {name}, {text:?}: {error}")))
}

/// Reads the rows of a file, or of several files one after another.
pub(crate) struct RowReader {
    files: Vec<DataFile>,
    keys: KeyTemplates,
    values: CsvOptions,
    inferred: Vec<(String, EdmType)>,
    /// The file, if it is the only one: standard input cannot be opened twice.
    opened: Option<Opened>,
}

enum Opened {
    Csv(Box<CsvReader>),
    Json(Box<dyn BufRead + Send>),
    Lines(Box<dyn BufRead + Send>),
    #[cfg(feature = "parquet")]
    Parquet(Box<ParquetReader>),
}

impl RowReader {
    /// Opens the first file, and reads the header of CSV with the rows from which types are inferred. A column has the same type in
    /// all files, so these rows of every file are read.
    pub(crate) fn new(files: Vec<DataFile>, keys: KeyTemplates, values: CsvOptions) -> Result<Self> {
        let mut reader = Self { files, keys, values, inferred: Vec::new(), opened: None };
        if let [file] = &*reader.files {
            let opened = reader.open(file)?;
            if let Opened::Csv(csv) = &opened {
                reader.inferred = csv.inferred();
            }
            reader.opened = Some(opened);
            return Ok(reader);
        }
        // The files are closed again and opened one at a time by `read`: an export can have more files than a
        // process may open.
        let mut types = BTreeMap::new();
        for file in &reader.files {
            if let Opened::Csv(csv) = reader.open(file)? {
                for (name, found) in csv.inferred() {
                    types.entry(name).and_modify(|of| *of = common_type(*of, found)).or_insert(found);
                }
            }
        }
        reader.inferred = types.clone().into_iter().collect();
        reader.values.inferred = types;
        Ok(reader)
    }

    fn open(&self, file: &DataFile) -> Result<Opened> {
        Ok(match file.format {
            DataFormat::Csv => {
                Opened::Csv(Box::new(CsvReader::new(file.open()?, self.keys.clone(), &self.values)?))
            }
            DataFormat::Json => Opened::Json(file.open()?),
            DataFormat::Jsonl => Opened::Lines(file.open()?),
            #[cfg(feature = "parquet")]
            DataFormat::Parquet => {
                let file = file.open_file()?.map_or_else(|| seekable(std::io::stdin()), Ok)?;
                Opened::Parquet(Box::new(ParquetReader::new(file, self.keys.clone())?))
            }
            #[cfg(not(feature = "parquet"))]
            DataFormat::Parquet => return Err(crate::failure::Failure::misuse(crate::data_file::NO_PARQUET)),
        })
    }

    /// Returns the types of columns that were inferred, by name.
    pub(crate) fn inferred(&self) -> Vec<(String, EdmType)> {
        self.inferred.clone()
    }

    /// Hands every row to `take`, until it breaks. An error ends the rows. Blocks.
    pub(crate) fn read(mut self, take: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<()> {
        if let Some(opened) = self.opened.take() {
            return self.read_opened(opened, take);
        }
        for file in &self.files {
            let mut is_stopped = false;
            let mut take_of_file = |row: Row| {
                let row = row.map_err(|bad| BadRow { place: format!("{file}, {}", bad.place), ..bad });
                let taken = take(row);
                // A reader ends without an error at a break too, so the break is kept for the loop over
                // files.
                is_stopped = taken.is_break();
                taken
            };
            self.read_opened(self.open(file)?, &mut take_of_file)?;
            if is_stopped {
                break;
            }
        }
        Ok(())
    }

    fn read_opened(&self, opened: Opened, take: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<()> {
        match opened {
            Opened::Csv(reader) => reader.read(take),
            Opened::Json(file) => read_json(file, &self.keys, take),
            Opened::Lines(file) => read_lines(file, &self.keys, take),
            #[cfg(feature = "parquet")]
            Opened::Parquet(reader) => reader.read(take),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::json_file::entity_of;
    use super::*;

    #[test]
    fn keys_are_written_as_the_library_writes_key_parts() {
        let keys =
            KeyTemplates::new(Some("{origin}"), Some("{time_hour:hour}_{carrier}_{flight:u32:04}")).unwrap();
        let line = r#"{"origin":"EWR","carrier":"UA","flight":15,"time_hour@odata.type":"Edm.DateTime","time_hour":"2013-01-01T10:00:00Z"}"#;
        let entity = entity_of(line, &keys).unwrap();
        assert_eq!(entity.key().partition(), "EWR");
        assert_eq!(entity.key().row(), "2013-01-01T10_UA_0015");
        assert!(entity_of(r#"{"origin":"EWR"}"#, &keys).unwrap_err().contains("absent"));
        assert!(KeyTemplates::new(Some("{origin}"), None).is_err());
    }
}
