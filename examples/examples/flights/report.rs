//! Answers for people and for programs.

use std::io::{self, Write};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::Result;
use crate::answer::Answered;

/// Characters in a line of the table.
const WIDTH: u16 = 120;
const HEADER: [&str; 6] = ["question", "pattern", "access path", "requests", "time", "answer"];

/// Writes the answers to standard output, and nothing else.
pub(crate) fn print(answers: &[Answered], json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if !json {
        writeln!(out, "{}", table(answers)?)?;
        return Ok(());
    }
    for answer in answers {
        writeln!(out, "{}", serde_json::to_string(answer)?)?;
    }
    Ok(())
}

fn table(answers: &[Answered]) -> Result<Table> {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH).set_header(HEADER);
    for answer in answers {
        table.add_row(cells(answer)?);
    }
    for numbers in [3, 4] {
        if let Some(column) = table.column_mut(numbers) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Ok(table)
}

fn cells(answered: &Answered) -> Result<[String; 6]> {
    Ok([
        answered.question.to_owned(),
        answered.pattern.to_owned(),
        answered.access_path.clone(),
        answered.requests.to_string(),
        format!("{:.1?}", answered.time),
        serde_json::to_string(&answered.answer)?.replace("\",\"", "\", \"").replace(",\"", ", \""),
    ])
}
