//! Entities as CSV.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, Write};

use table_azure::wire::{decode_entity, encode_entity};
use table_core::model::Entity;

use crate::entity_text::value_text;
use crate::failure::{Failure, Result};

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

/// Entities that wait in a temporary file: the header of CSV needs the properties of every entity.
#[derive(Debug)]
pub(crate) struct Spool {
    file: BufWriter<File>,
    columns: Vec<String>,
}

impl Spool {
    /// Creates the temporary file.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile().map_err(temporary)?), columns: Vec::new() })
    }

    /// Adds an entity.
    pub(crate) fn add(&mut self, entity: &Entity) -> Result<()> {
        add_columns(&mut self.columns, entity);
        let mut line = encode_entity(entity);
        line.push(b'\n');
        self.file.write_all(&line).map_err(temporary)
    }

    /// Writes header and entities.
    pub(crate) fn write_to(self, out: &mut dyn Write, types: Types) -> Result<()> {
        let mut file = self.file.into_inner().map_err(|error| temporary(error.into_error()))?;
        file.rewind().map_err(temporary)?;
        out.write_all(&csv_line(&header(&self.columns, types))?)?;
        for line in BufReader::new(file).split(b'\n') {
            let entity = decode_entity(&line.map_err(temporary)?)?;
            out.write_all(&csv_line(&cells(&entity, &self.columns, types))?)?;
        }
        Ok(out.flush()?)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn temporary(error: io::Error) -> Failure {
    Failure::failed(format!("a temporary file failed: {error}"))
}
