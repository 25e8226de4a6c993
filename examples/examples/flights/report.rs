//! Prints answers for people and for programs.

use std::io::{self, Write};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use examples::Result;

use crate::answer::QuestionResult;

/// Number of characters in a line of the table.
const WIDTH: u16 = 120;
const HEADER: [&str; 6] = [
    "question",
    "pattern",
    "access path",
    "table requests",
    "time",
    "answer",
];

/// Explains the difference between `delayed_lga` and `delayed_lga_indexed`.
const SCAN: &str = "\
delayed_lga reads every flight: no key starts with the day or the airport. The service bills each page.
delayed_lga_indexed finds the same flights by the index FlightsByDelay in a row range.";

/// Writes the answers, and nothing else, to standard output.
pub(crate) fn print(results: &[QuestionResult], json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if json {
        return results
            .iter()
            .try_for_each(|result| Ok(writeln!(out, "{}", serde_json::to_string(result)?)?));
    }
    writeln!(out, "{}\n{SCAN}", table(results))?;
    Ok(())
}

fn table(results: &[QuestionResult]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(HEADER);
    table.add_rows(results.iter().map(cells));
    for numbers in [3, 4] {
        if let Some(column) = table.column_mut(numbers) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(result: &QuestionResult) -> [String; 6] {
    [
        result.question.to_owned(),
        result.pattern.to_owned(),
        result.access_path.clone(),
        result.requests.to_string(),
        format!("{:.1?}", result.time),
        result.answer.to_string(),
    ]
}
