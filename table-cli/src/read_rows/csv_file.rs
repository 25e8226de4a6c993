//! Reads entities from CSV, with given or inferred types.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use csv::StringRecord;
use table_core::model::{EdmType, EdmValue, Entity, Key, Properties, Ticks};

use super::{BadRow, KeyTemplates, PARTITION_KEY, ROW_KEY, Row, SYSTEM_COLUMNS};
use crate::entity_text::TYPE_COLUMN;
use crate::failure::{Failure, Result};

/// The rows from which the types of columns are inferred.
const SAMPLE_ROWS: usize = 1000;

/// How the values of CSV become properties.
#[derive(Clone, Debug, Default)]
pub(crate) struct CsvOptions {
    /// The types that the command line gives.
    pub(crate) types: BTreeMap<String, EdmType>,
    /// The types that the first rows of several files have, for the columns without a given type.
    pub(crate) inferred: BTreeMap<String, EdmType>,
    /// The text of an absent value, besides no text at all.
    pub(crate) null: Option<String>,
}

/// A column with a property.
#[derive(Debug)]
struct Column {
    name: String,
    at: usize,
    /// The column with the types of the values.
    types: Option<usize>,
    /// The type of the values for which that column has no type. Some versions of Azure Storage Explorer write types for the first
    /// entity alone, or for none: <https://github.com/microsoft/AzureStorageExplorer/issues/8772>,
    /// <https://github.com/microsoft/AzureStorageExplorer/issues/8804>.
    edm_type: EdmType,
    is_inferred: bool,
}

/// Reads CSV.
pub(crate) struct CsvReader {
    records: csv::Reader<Box<dyn BufRead + Send>>,
    sample: VecDeque<Result<StringRecord, csv::Error>>,
    columns: Vec<Column>,
    /// The columns of PartitionKey and RowKey.
    key: Option<(usize, usize)>,
    keys: KeyTemplates,
    null: Option<String>,
}

impl CsvReader {
    /// Reads the header, and the rows from which types are inferred.
    pub(crate) fn new(
        file: Box<dyn BufRead + Send>,
        keys: KeyTemplates,
        values: &CsvOptions,
    ) -> Result<Self> {
        let mut records = csv::Reader::from_reader(file);
        let header = records
            .headers()
            .map_err(|error| Failure::misuse(format!("the header cannot be read: {error}")))?;
        let names: Vec<String> =
            // Spreadsheets write a byte order mark before the first name.
            header.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
        let place = |name: &str| names.iter().position(|other| other == name);
        let key = place(PARTITION_KEY).zip(place(ROW_KEY));
        keys.check(key.is_some())?;
        if let Some(unknown) = values.types.keys().find(|name| place(name).is_none()) {
            return Err(Failure::misuse(format!(
                "--type names the column '{unknown}', which the file does not have"
            )));
        }
        let is_property = |name: &str| {
            let is_system = SYSTEM_COLUMNS.contains(&name) || [PARTITION_KEY, ROW_KEY, ""].contains(&name);
            // A column `N@type` belongs to the column `N`, if there is one.
            !is_system && name.strip_suffix(TYPE_COLUMN).is_none_or(|of| place(of).is_none())
        };
        let columns = names.iter().enumerate().filter(|(_, name)| is_property(name)).map(|(at, name)| {
            let types = place(&format!("{name}{TYPE_COLUMN}"));
            let known = values.types.get(name).or_else(|| values.inferred.get(name));
            Column {
                name: name.clone(),
                at,
                types,
                edm_type: known.copied().unwrap_or(EdmType::String),
                is_inferred: known.is_none(),
            }
        });
        let (columns, sample) = (columns.collect(), VecDeque::new());
        let mut reader = Self { records, sample, columns, key, keys, null: values.null.clone() };
        reader.infer();
        Ok(reader)
    }

    /// Infers types from the first rows.
    fn infer(&mut self) {
        while self.sample.len() < SAMPLE_ROWS {
            let Some(record) = self.record() else { break };
            self.sample.push_back(record);
        }
        let sample = || self.sample.iter().flatten();
        for column in self.columns.iter_mut().filter(|column| column.is_inferred) {
            let mut names = sample().filter_map(|record| record.get(column.types?));
            // The first type that the sample names is the type of the values without one: see `Column::edm_type`.
            if let Some(edm_type) = names.find_map(edm_type) {
                (column.edm_type, column.is_inferred) = (edm_type, false);
                continue;
            }
            let texts = sample().filter_map(|record| record.get(column.at));
            let texts: Vec<_> =
                texts.filter(|text| !text.is_empty() && Some(*text) != self.null.as_deref()).collect();
            let fits = |edm_type: &EdmType| {
                !texts.is_empty() && texts.iter().all(|text| is_inferable(text, *edm_type))
            };
            // The narrowest type of every sampled value. A later value that does not fit is a skipped row and never another type: one property
            // with two types would be missed by filters.
            column.edm_type = INFERABLE_TYPES.into_iter().find(fits).unwrap_or(EdmType::String);
        }
    }

    /// Reads a record of the file; `None` at the end.
    fn record(&mut self) -> Option<Result<StringRecord, csv::Error>> {
        let mut record = StringRecord::new();
        match self.records.read_record(&mut record) {
            Ok(true) => Some(Ok(record)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Returns the types of columns that were inferred, by name.
    pub(crate) fn inferred(&self) -> Vec<(String, EdmType)> {
        let inferred = self.columns.iter().filter(|column| column.is_inferred);
        inferred.map(|column| (column.name.clone(), column.edm_type)).collect()
    }

    /// Hands every row to `take`, until it breaks. An error ends the file.
    pub(crate) fn read(mut self, take: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<()> {
        while let Some(row) = self.next() {
            if take(row?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Result<Row>> {
        let record = match self.sample.pop_front().or_else(|| self.record())? {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                // A line with another number of cells is one bad row, and the reader goes on after it.
                return Some(match error.is_io_error() {
                    true => Err(Failure::failed(format!("line {line} cannot be read: {error}"))),
                    false => Ok(Err(BadRow { place: format!("line {line}"), reason: error.to_string() })),
                });
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        Some(Ok(self.entity(&record).map_err(|reason| BadRow { place: format!("line {line}"), reason })))
    }

    fn entity(&self, record: &StringRecord) -> Result<Entity, String> {
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let mut properties = Properties::new();
        for column in &self.columns {
            let (text, type_name) = (cell(column.at), column.types.map_or("", cell));
            // An empty text with a type is an empty text; without a type it is an absent value.
            if text.is_empty() && type_name.is_empty() || Some(text) == self.null.as_deref() {
                continue;
            }
            let edm_type = match type_name {
                "" => column.edm_type,
                name => edm_type(name)
                    .ok_or_else(|| format!("the column '{}' has the unknown type {name:?}", column.name))?,
            };
            let value = parse_value(text, edm_type).ok_or_else(|| {
                let (name, expected) = (&column.name, edm_type.name());
                let advice = if type_name.is_empty() { "; --type COLUMN=String keeps any text" } else { "" };
                format!("the value of the column '{name}' is not of the type {expected}{advice}")
            })?;
            properties.push(&column.name, value.as_ref(), false);
        }
        let (partition, row) = self.key.map_or(("", ""), |(partition, row)| (cell(partition), cell(row)));
        let key = Key::new(partition, row).map_err(|error| error.to_string())?;
        self.keys.apply(Entity::from_parts(key, properties))
    }
}

/// Parses the name of a type, with or without `Edm.`.
pub(crate) fn edm_type(name: &str) -> Option<EdmType> {
    EdmType::from_name(name).or_else(|| EdmType::from_name(&format!("Edm.{name}")))
}

/// The types that are inferred, the narrowest first.
const INFERABLE_TYPES: [EdmType; 5] =
    [EdmType::Boolean, EdmType::Int32, EdmType::Int64, EdmType::Double, EdmType::DateTime];

/// The narrowest type of the columns of two files of one table.
pub(crate) const fn common_type(a: EdmType, b: EdmType) -> EdmType {
    match (a, b) {
        (EdmType::Int32, EdmType::Int64) | (EdmType::Int64, EdmType::Int32) => EdmType::Int64,
        (EdmType::Double, EdmType::Int32 | EdmType::Int64)
        | (EdmType::Int32 | EdmType::Int64, EdmType::Double) => EdmType::Double,
        // `==` cannot be used in a const function.
        _ if a as u8 == b as u8 => a,
        _ => EdmType::String,
    }
}

/// Whether a text is certainly a value of the type. A number with zeros in front, such as a postal code, stays text.
fn is_inferable(text: &str, edm_type: EdmType) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && !(digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."));
    match edm_type {
        EdmType::Int32 | EdmType::Int64 | EdmType::Double => {
            is_number && parse_value(text, edm_type).is_some()
        }
        _ => parse_value(text, edm_type).is_some(),
    }
}

/// Parses a value; `None` if the text is not of the type.
fn parse_value(text: &str, edm_type: EdmType) -> Option<EdmValue> {
    Some(match edm_type {
        EdmType::Binary => EdmValue::Binary(STANDARD.decode(text).ok()?),
        EdmType::Boolean if text.eq_ignore_ascii_case("true") => EdmValue::Boolean(true),
        EdmType::Boolean if text.eq_ignore_ascii_case("false") => EdmValue::Boolean(false),
        EdmType::Boolean => return None,
        EdmType::DateTime => EdmValue::DateTime(text.parse::<Ticks>().ok()?),
        // `NaN` and `inf` are numbers here, for columns whose type is given. Inference takes them for text.
        EdmType::Double => EdmValue::Double(text.parse().ok()?),
        EdmType::Guid => EdmValue::Guid(text.parse().ok()?),
        EdmType::Int32 => EdmValue::Int32(text.parse().ok()?),
        EdmType::Int64 => EdmValue::Int64(text.parse().ok()?),
        EdmType::String => EdmValue::String(text.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_inferred_only_where_they_are_certain() {
        let inferred = |text: &str| INFERABLE_TYPES.into_iter().find(|of| is_inferable(text, *of));
        assert_eq!(inferred("-7"), Some(EdmType::Int32));
        assert_eq!(inferred("3000000000"), Some(EdmType::Int64));
        assert_eq!(inferred("0.5"), Some(EdmType::Double));
        assert_eq!(inferred("True"), Some(EdmType::Boolean));
        assert_eq!(inferred("2013-01-01T05:00:00Z"), Some(EdmType::DateTime));
        for text in ["007", "", "inf", "NaN", "1 ", "+1", "2013"] {
            assert_ne!(inferred(text), Some(EdmType::Double), "{text}");
        }
        assert_eq!(inferred("007"), None);
    }

    #[test]
    fn two_files_have_one_type() {
        assert_eq!(common_type(EdmType::Int32, EdmType::Int64), EdmType::Int64);
        assert_eq!(common_type(EdmType::Double, EdmType::Int32), EdmType::Double);
        assert_eq!(common_type(EdmType::Boolean, EdmType::Boolean), EdmType::Boolean);
        assert_eq!(common_type(EdmType::DateTime, EdmType::Int32), EdmType::String);
    }
}
