//! Prints answers for people and for programs.

use std::io::{self, Write};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::Result;
use crate::answer::Answered;

/// Number of characters in a line of the table.
const WIDTH: u16 = 120;
const HEADER: [&str; 6] = ["question", "pattern", "access path", "requests", "time", "answer"];

/// An explanation of the last question.
const SCAN: &str = "\
delayed_lga reads every flight, because no key starts with the day or the airport, and a service bills every page.
delayed_lga_indexed asks the same of an index that was built online over the loaded table: a row range.";

/// Writes the answers, and nothing else, to standard output.
pub(crate) fn print(answers: &[Answered], json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if json {
        return answers
            .iter()
            .try_for_each(|answered| Ok(writeln!(out, "{}", serde_json::to_string(answered)?)?));
    }
    writeln!(out, "{}\n{SCAN}", table(answers))?;
    Ok(())
}

fn table(answers: &[Answered]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH).set_header(HEADER);
    table.add_rows(answers.iter().map(cells));
    for numbers in [3, 4] {
        if let Some(column) = table.column_mut(numbers) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn cells(answered: &Answered) -> [String; 6] {
    [
        answered.question.to_owned(),
        answered.pattern.to_owned(),
        answered.access_path.clone(),
        answered.requests.to_string(),
        format!("{:.1?}", answered.time),
        answered.answer.to_string(),
    ]
}
