//! Entities as CSV.

use std::io::Write;

use table_core::model::Entity;

use crate::entity_text::value_text;
use crate::failure::{Failure, Result};
use crate::spool::Spool;

/// The end of the name of a column with types, as in the files of Azure Storage Explorer.
pub(crate) const TYPE_COLUMN: &str = "@type";

/// Whether CSV has columns with types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Types {
    Written,
    Omitted,
}

/// Adds the properties of an entity to the columns.
pub(crate) fn add_columns(columns: &mut Vec<String>, entity: &Entity) {
    for property in entity.properties().iter() {
        if !columns.iter().any(|column| column == property.name()) {
            columns.push(property.name().to_owned());
        }
    }
}

/// Returns the names of the columns, keys first.
pub(crate) fn header(columns: &[String], types: Types) -> Vec<String> {
    let keys = ["PartitionKey", "RowKey"].map(str::to_owned);
    let names = columns.iter().flat_map(|name| {
        let types = (types == Types::Written).then(|| format!("{name}{TYPE_COLUMN}"));
        std::iter::once(name.clone()).chain(types)
    });
    keys.into_iter().chain(names).collect()
}

/// Returns the cells of an entity. An absent property has empty cells.
pub(crate) fn cells(entity: &Entity, columns: &[String], types: Types) -> Vec<String> {
    let keys = [entity.key().partition().to_owned(), entity.key().row().to_owned()];
    let values = columns.iter().flat_map(|name| {
        let value = entity.get(name);
        // The type tells an empty text from an absent value, whose cells are both empty, when the file is
        // imported.
        let edm_type =
            (types == Types::Written).then(|| value.map_or("", |value| value.edm_type().name()).to_owned());
        std::iter::once(value.map(value_text).unwrap_or_default()).chain(edm_type)
    });
    keys.into_iter().chain(values).collect()
}

/// Returns a line of CSV.
pub(crate) fn csv_line(cells: &[String]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(cells).map_err(Failure::failed);
    written.and_then(|()| writer.into_inner().map_err(Failure::failed))
}

/// Entities that are written as CSV when all of them are known: the header has the properties of every entity.
#[derive(Debug)]
pub(crate) struct CsvRows {
    entities: Spool,
    columns: Vec<String>,
}

impl CsvRows {
    /// Starts without entities.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { entities: Spool::new()?, columns: Vec::new() })
    }

    /// Adds an entity.
    pub(crate) fn add(&mut self, entity: &Entity) -> Result<()> {
        add_columns(&mut self.columns, entity);
        self.entities.add(entity)
    }

    /// Writes header and entities.
    pub(crate) fn write_to(self, out: &mut dyn Write, types: Types) -> Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(header(&self.columns, types)).map_err(written)?;
        for entity in self.entities.read()? {
            writer.write_record(cells(&entity?, &self.columns, types)).map_err(written)?;
        }
        Ok(writer.flush()?)
    }
}

fn written(error: csv::Error) -> Failure {
    // An error of the output keeps its kind: a closed pipe is no failure.
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        other => Failure::failed(format!("the CSV cannot be written: {other:?}")),
    }
}
