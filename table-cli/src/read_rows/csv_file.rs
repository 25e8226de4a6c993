//! Reads entities from CSV, with given or inferred types.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use table_core::model::{EdmType, Properties};

use super::columns::{Repeats, Role, roles};
use super::csv_records::{Next, Record, Records};
use super::template::FileKey;
use super::value::{Evidence, parse_inferred, parse_value};
use super::{BadRow, Facts, LeftOut, ReadOptions, Row, SAMPLE_BYTES, SAMPLE_ROWS};
use crate::entity_text::TYPE_COLUMN;
use crate::failure::{Failure, Result};
use crate::text_input::TextInput;

/// A column with a property.
#[derive(Debug)]
struct Column {
    property: String,
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
pub(super) struct CsvReader {
    records: Records,
    sample: VecDeque<Next>,
    /// The number of cells of every row.
    cells: usize,
    columns: Vec<Column>,
    partition: Option<usize>,
    row: Option<usize>,
    timestamp: Option<usize>,
    options: ReadOptions,
}

impl CsvReader {
    /// Reads the header, and the rows from which types are inferred. Adds their evidence to `facts`.
    pub(super) fn new(input: TextInput, options: &ReadOptions, facts: &mut Facts) -> Result<Self> {
        input
            .remarks
            .into_iter()
            .for_each(|remark| facts.add_remark(remark));
        let (mut records, separated) = Records::new(input.text)?;
        separated
            .into_iter()
            .for_each(|remark| facts.add_remark(remark));
        let header = match records.read()? {
            Next::Record(header) => header,
            Next::NotUtf8(_) => {
                return Err(Failure::misuse(
                    "the header is not UTF-8: write the file in UTF-8",
                ));
            }
            Next::End => Record::default(),
        };
        // Some programs write a blank after each separator.
        let names: Vec<String> = header.cells().map(|name| name.trim().to_owned()).collect();
        let places: HashMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(at, name)| (&**name, at))
            .collect();
        // A column `N@type` belongs to the column `N`, if there is one.
        let is_type = |name: &str| {
            name.strip_suffix(TYPE_COLUMN)
                .is_some_and(|of| places.contains_key(of))
        };
        let own: Vec<(usize, String)> = names
            .iter()
            .cloned()
            .enumerate()
            .filter(|(_, name)| !is_type(name))
            .collect();
        let own_names: Vec<String> = own.iter().map(|(_, name)| name.clone()).collect();
        let (roles, remarks) = roles(&own_names, &options.rules, &options.keys, Repeats::Refused)?;
        remarks
            .into_iter()
            .for_each(|remark| facts.add_remark(remark));
        let mut types = HashMap::new();
        for (at, name) in names.iter().enumerate().filter(|(_, name)| is_type(name)) {
            let of = name.strip_suffix(TYPE_COLUMN).unwrap_or_default();
            if types.insert(of, at).is_some() {
                return Err(Failure::misuse(format!(
                    "two columns are called {name:?}: leave one out of the file"
                )));
            }
        }
        let mut reader = Self {
            records,
            sample: VecDeque::new(),
            cells: names.len(),
            columns: Vec::new(),
            partition: None,
            row: None,
            timestamp: None,
            options: options.clone(),
        };
        for ((at, name), role) in own.iter().zip(roles) {
            match role {
                Role::PartitionKey => reader.partition = Some(*at),
                Role::RowKey => reader.row = Some(*at),
                Role::Timestamp => reader.timestamp = Some(*at),
                Role::LeftOut => {}
                Role::Property(property) => {
                    facts.add_column(name.clone(), property.clone());
                    let given = options.given_type(name, &property);
                    let (types, edm_type) = (
                        types.get(&**name).copied(),
                        given.unwrap_or(EdmType::String),
                    );
                    reader.columns.push(Column {
                        property,
                        at: *at,
                        types,
                        edm_type,
                        is_inferred: given.is_none(),
                    });
                }
            }
        }
        reader.infer(facts)?;
        Ok(reader)
    }

    /// Reads the next row.
    ///
    /// # Errors
    /// The file is damaged, or cut in its last row.
    fn next(&mut self) -> Result<Next> {
        let next = self.records.read()?;
        match &next {
            Next::Record(record) if record.is_unended && record.len() < self.cells => {
                Err(Failure::Damaged(format!(
                    "line {}: the file is cut: its last row has {} cells, and the header has {}",
                    record.line,
                    record.len(),
                    self.cells
                )))
            }
            _ => Ok(next),
        }
    }

    /// Infers types from the first rows.
    fn infer(&mut self, facts: &mut Facts) -> Result<()> {
        let mut bytes = 0;
        while self.sample.len() < SAMPLE_ROWS && bytes < SAMPLE_BYTES {
            match self.next()? {
                Next::End => break,
                Next::Record(record) => {
                    bytes += record.bytes();
                    self.sample.push_back(Next::Record(record));
                }
                bad @ Next::NotUtf8(_) => self.sample.push_back(bad),
            }
        }
        let sample = || {
            let records = self.sample.iter().filter_map(|next| match next {
                Next::Record(record) => Some(record),
                _ => None,
            });
            records.filter(|record| record.len() == self.cells)
        };
        let null = self.options.null.as_deref();
        if let Some(at) = self.timestamp {
            let is_no_time = |text: &str| parse_value(text, EdmType::DateTime).is_err();
            let texts = sample().filter_map(|record| Some((record.line, record.get(at)?)));
            let mut texts = texts.filter(|(_, text)| !text.is_empty() && Some(*text) != null);
            if let Some((line, _)) = texts.find(|(_, text)| is_no_time(text)) {
                return Err(Failure::misuse(super::own_timestamp(&format!(
                    "line {line}"
                ))));
            }
        }
        for column in &mut self.columns {
            let names = sample()
                .filter_map(|record| record.get(column.types?))
                .filter(|name| !name.is_empty());
            let (mut known, mut unknown) = (None, None);
            for name in names {
                match edm_type(name) {
                    Some(edm_type) => known = known.or(Some(edm_type)),
                    None => unknown = unknown.or(Some(name)),
                }
            }
            if let (None, Some(unknown)) = (known, unknown) {
                return Err(Failure::misuse(format!(
                    "the column '{}{TYPE_COLUMN}' has {unknown:?}, which is no type, and no property can have its name: rename the column in the file",
                    column.property
                )));
            }
            if !column.is_inferred {
                continue;
            }
            // The first type that the sample names is the type of the values without one: see `Column::edm_type`.
            if let Some(known) = known {
                (column.edm_type, column.is_inferred) = (known, false);
                continue;
            }
            let texts = sample().filter_map(|record| record.get(column.at));
            let texts = texts.filter(|text| !text.is_empty() && Some(*text) != null);
            facts.add_values(
                &column.property,
                texts.map(Evidence::of_text).reduce(Evidence::and),
                true,
            );
        }
        Ok(())
    }

    /// Sets the types that the first rows of all files show. A later value that does not fit is a skipped row and never another type:
    /// filters would miss values of one property with two types.
    pub(super) fn set_types(&mut self, facts: &Facts) {
        for column in self.columns.iter_mut().filter(|column| column.is_inferred) {
            column.edm_type = facts.type_of(&column.property).unwrap_or(EdmType::String);
        }
    }

    /// Hands every row to `take`, until it breaks. An error ends the file.
    pub(super) fn read(
        mut self,
        left_out: &LeftOut,
        take: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<()> {
        loop {
            let next = match self.sample.pop_front() {
                Some(next) => next,
                None => self.next()?,
            };
            let (line, row) = match next {
                Next::End => return Ok(()),
                Next::NotUtf8(line) => (line, Err("the text is not UTF-8".to_owned())),
                Next::Record(record) => (record.line, self.entity(&record, left_out)),
            };
            if take(row.map_err(|reason| BadRow {
                place: format!("line {line}"),
                reason,
            }))
            .is_break()
            {
                return Ok(());
            }
        }
    }

    fn entity(
        &self,
        record: &Record,
        left_out: &LeftOut,
    ) -> Result<table_core::model::Entity, String> {
        if record.len() != self.cells {
            return Err(format!(
                "the row has {} cells, and the header has {}",
                record.len(),
                self.cells
            ));
        }
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let null = self.options.null.as_deref();
        let mut properties = Properties::new();
        for column in &self.columns {
            let (text, type_name) = (cell(column.at), column.types.map_or("", cell));
            // An empty text with a type is an empty text; without a type it is an absent value.
            if text.is_empty() && type_name.is_empty() || Some(text) == null {
                continue;
            }
            let edm_type = match type_name {
                "" => column.edm_type,
                name => edm_type(name).ok_or_else(|| {
                    format!(
                        "the column '{}' has the unknown type {name:?}",
                        column.property
                    )
                })?,
            };
            let parse = match column.is_inferred && type_name.is_empty() {
                true => parse_inferred,
                false => parse_value,
            };
            let value = parse(text, edm_type).map_err(|reason| {
                let (name, expected) = (&column.property, edm_type.name());
                let advice = if type_name.is_empty() { "; --type COLUMN=String keeps any text" } else { "" };
                format!("the value of the column '{name}' is not of the type {expected}: {reason}{advice}")
            })?;
            properties.push(&column.property, value.as_ref(), false);
        }
        if self
            .timestamp
            .is_some_and(|at| !cell(at).is_empty() && Some(cell(at)) != null)
        {
            left_out.add_timestamp();
        }
        let text = |at: Option<usize>| at.map(|at| cell(at).to_owned());
        self.options.keys.entity(
            FileKey {
                partition: text(self.partition),
                row: text(self.row),
            },
            properties,
        )
    }
}

/// Parses the name of a type, with or without `Edm.`.
pub(crate) fn edm_type(name: &str) -> Option<EdmType> {
    EdmType::from_name(name).or_else(|| EdmType::from_name(&format!("Edm.{name}")))
}
