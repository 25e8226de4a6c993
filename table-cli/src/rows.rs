//! Entities on standard output: as a table, as lines of JSON, or as CSV.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, Write as _};

use clap::ValueEnum;
use table_azure::wire::{decode_entity, encode_entity};
use table_core::model::Entity;

use crate::entity_text::{entity_json, value_text};
use crate::failure::{Failure, Result};
use crate::output::print;

/// How entities are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people, one for each page; long values are cut
    Table,
    /// One line of JSON for each entity, with types, Timestamp and ETag
    Json,
    /// CSV for spreadsheets, without types
    Csv,
}

/// The longest text in a cell of a table, in characters.
const CELL: usize = 60;

/// Prints entities page after page.
#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
    /// The selected columns, in the order of the selection.
    select: Vec<String>,
    /// The entities of CSV without selected columns: the header needs every column, so the rows wait on disk.
    spool: Option<Spool>,
}

impl Printer {
    /// Makes a printer. `select` is empty if every property is printed.
    pub(crate) fn new(format: Format, select: &[String]) -> Result<Self> {
        let names = ["PartitionKey", "RowKey"];
        let select: Vec<_> = select.iter().filter(|name| !names.contains(&name.as_str())).cloned().collect();
        let spool = (format == Format::Csv && select.is_empty()).then(Spool::new).transpose()?;
        if format == Format::Csv && spool.is_none() {
            print(&csv_line(&header(&select))?)?;
        }
        Ok(Self { format, select, spool })
    }

    /// Prints a page.
    pub(crate) fn page(&mut self, entities: &[Entity]) -> Result<()> {
        match (self.format, &mut self.spool) {
            _ if entities.is_empty() => Ok(()),
            (Format::Json, _) => print(&entities.iter().map(entity_json).collect::<String>()),
            (Format::Table, _) => {
                let mut columns = self.select.clone();
                if columns.is_empty() {
                    entities.iter().for_each(|entity| add_columns(&mut columns, entity));
                }
                print(&text_table(&columns, entities))
            }
            (Format::Csv, Some(spool)) => entities.iter().try_for_each(|entity| spool.add(entity)),
            (Format::Csv, None) => {
                let lines: Result<Vec<_>> =
                    entities.iter().map(|entity| csv_line(&cells(entity, &self.select))).collect();
                print(&lines?.concat())
            }
        }
    }

    /// Prints the rest.
    pub(crate) fn end(self) -> Result<()> {
        self.spool.map_or(Ok(()), Spool::print)
    }
}

/// Entities in a temporary file, and their columns.
#[derive(Debug)]
struct Spool {
    file: BufWriter<File>,
    columns: Vec<String>,
}

impl Spool {
    fn new() -> Result<Self> {
        Ok(Self { file: BufWriter::new(tempfile::tempfile().map_err(temporary)?), columns: Vec::new() })
    }

    fn add(&mut self, entity: &Entity) -> Result<()> {
        add_columns(&mut self.columns, entity);
        let mut line = encode_entity(entity);
        line.push(b'\n');
        self.file.write_all(&line).map_err(temporary)
    }

    fn print(self) -> Result<()> {
        let mut file = self.file.into_inner().map_err(|error| temporary(error.into_error()))?;
        file.rewind().map_err(temporary)?;
        print(&csv_line(&header(&self.columns))?)?;
        for line in BufReader::new(file).split(b'\n') {
            let entity = decode_entity(&line.map_err(temporary)?)?;
            print(&csv_line(&cells(&entity, &self.columns))?)?;
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn temporary(error: std::io::Error) -> Failure {
    Failure::failed(format!("a temporary file failed: {error}"))
}

fn add_columns(columns: &mut Vec<String>, entity: &Entity) {
    for property in entity.properties().iter() {
        if !columns.iter().any(|column| column == property.name()) {
            columns.push(property.name().to_owned());
        }
    }
}

fn header(columns: &[String]) -> Vec<String> {
    ["PartitionKey", "RowKey"].map(str::to_owned).into_iter().chain(columns.iter().cloned()).collect()
}

fn cells(entity: &Entity, columns: &[String]) -> Vec<String> {
    let keys = [entity.key().partition().to_owned(), entity.key().row().to_owned()];
    let value = |column: &String| entity.get(column).map(value_text).unwrap_or_default();
    keys.into_iter().chain(columns.iter().map(value)).collect()
}

fn csv_line(cells: &[String]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(cells).map_err(Failure::failed);
    written
        .and_then(|()| writer.into_inner().map_err(Failure::failed))
        .map(|line| String::from_utf8_lossy(&line).into_owned())
}

fn text_table(columns: &[String], entities: &[Entity]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY).set_header(header(columns));
    for entity in entities {
        table.add_row(cells(entity, columns).iter().map(|cell| shown(cell)));
    }
    format!("{table}\n")
}

/// Returns a text on one line, cut if it is long. Control characters could write to the terminal, so they are escaped.
fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(CELL)
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect();
    if text.chars().nth(CELL).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_short_line_without_control_characters() {
        assert_eq!(shown("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(shown(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
    }
}
