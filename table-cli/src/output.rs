//! Standard output and standard error.

use std::io::{self, Write as _};

use clap::Args;

use crate::failure::Result;

/// The options of a command that prints a report for an index.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print a report as JSON, a line for each index
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and no waits
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Prints lines of the result. Flushes, so that a reader of a pipe sees each page at once.
pub(crate) fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// Prints text in UTF-8; see [`print`].
pub(crate) fn print_bytes(text: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(())
}

/// Prints a report as a line of JSON.
pub(crate) fn print_json(report: &serde_json::Value) -> Result<()> {
    print(&format!("{report}\n"))
}

/// Prints a remark for a person. A standard error that is closed is no failure of the command.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Asks a person, who answers on standard input. No answer is no.
pub(crate) fn ask(question: &str) -> bool {
    let mut err = io::stderr();
    let _ = write!(err, "{question} [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let is_read = io::stdin().read_line(&mut answer).is_ok_and(|bytes| bytes > 0);
    if !is_read {
        let _ = writeln!(err);
    }
    // Anything else is no, the end of input too: a program without a terminal must not delete by accident.
    ["y", "yes"].contains(&&*answer.trim().to_lowercase())
}
