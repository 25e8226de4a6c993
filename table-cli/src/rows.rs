//! Entities on standard output: as a table, as lines of JSON, or as CSV.

use clap::ValueEnum;
use table_core::model::Entity;

use crate::entity_text::entity_json;
use crate::entity_text::{Columns, CsvRows, Types, add_columns, cells, csv_line, header};
use crate::failure::Result;
use crate::output::{DataOutput, one_line, print, print_data};

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
const MAX_CELL_CHARS: usize = 60;

/// Prints entities page after page.
#[derive(Debug)]
pub(crate) struct Printer {
    format: Format,
    /// The selected columns, in the order of the selection.
    select: Columns,
    /// The entities of CSV without selected columns: the header needs every column, so the rows wait on disk.
    rows: Option<CsvRows>,
}

impl Printer {
    /// Makes a printer. `select` is empty if every property is printed.
    pub(crate) fn new(format: Format, select: &[String]) -> Result<Self> {
        let names = ["PartitionKey", "RowKey"];
        let select: Vec<_> = select
            .iter()
            .filter(|name| !names.contains(&name.as_str()))
            .cloned()
            .collect();
        let select = Columns::new(&select);
        let rows = (format == Format::Csv && select.is_empty())
            .then(CsvRows::new)
            .transpose()?;
        // The columns are known, so pages are printed as they come, after this header.
        if format == Format::Csv && rows.is_none() {
            print_data(&csv_line(&header(&select, Types::Omitted))?)?;
        }
        Ok(Self {
            format,
            select,
            rows,
        })
    }

    /// Prints a page.
    pub(crate) fn page(&mut self, entities: &[Entity]) -> Result<()> {
        match (self.format, &mut self.rows) {
            _ if entities.is_empty() => Ok(()),
            (Format::Json, _) => print_data(
                entities
                    .iter()
                    .map(entity_json)
                    .collect::<String>()
                    .as_bytes(),
            ),
            (Format::Table, _) => {
                let mut columns = self.select.clone();
                if columns.is_empty() {
                    entities
                        .iter()
                        .for_each(|entity| add_columns(&mut columns, entity));
                }
                print(&text_table(&columns, entities))
            }
            (Format::Csv, Some(rows)) => entities.iter().try_for_each(|entity| rows.add(entity)),
            (Format::Csv, None) => {
                let lines: Result<Vec<_>> = entities
                    .iter()
                    .map(|entity| csv_line(&cells(entity, &self.select, Types::Omitted)))
                    .collect();
                print_data(&lines?.concat())
            }
        }
    }

    /// Prints the rows that have waited for the header of CSV.
    pub(crate) fn end(self) -> Result<()> {
        self.rows.map_or(Ok(()), |rows| {
            rows.write_to(&mut DataOutput::new(), Types::Omitted)
        })
    }
}

fn text_table(columns: &Columns, entities: &[Entity]) -> String {
    let mut table = comfy_table::Table::new();
    table
        .load_style(comfy_table::presets::UTF8_BORDERS_ONLY)
        .set_header(
            header(columns, Types::Omitted)
                .iter()
                .map(|name| one_line(name)),
        );
    for entity in entities {
        table.add_row(
            cells(entity, columns, Types::Omitted)
                .iter()
                .map(|cell| shown(cell)),
        );
    }
    format!("{table}\n")
}

/// Returns a text on one line, cut if it is long.
fn shown(text: &str) -> String {
    match text.char_indices().nth(MAX_CELL_CHARS) {
        None => one_line(text).into_owned(),
        Some((end, _)) => format!("{}…", one_line(&text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_short_line_without_control_characters() {
        assert_eq!(shown("a\u{1b}[2J\nb"), r"a\u001b[2J\u000ab");
        assert_eq!(shown(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
    }
}
