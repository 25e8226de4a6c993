//! Standard output and standard error: the one place of the program that prints.
//!
//! Much of the printed text comes from others: keys, names in manifests and files, error texts of services. A control character in it could
//! write to the terminal (`ESC [ 2 J` clears the screen), and a character that turns the direction of text could show another text than
//! there is. Text for people is therefore printed without such characters. Data for programs (JSON, CSV, exported entities) is printed as it
//! is, unless standard output is a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Stderr, Stdout, Write};

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

/// Whether a character acts on a terminal instead of being shown, or changes the place of the characters around it:
/// <https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters>.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes active characters except `layout`, as JSON escapes them: JSON keeps its meaning.
fn escaped<'a>(text: &'a str, layout: &[char]) -> Cow<'a, str> {
    let must_escape = |c: char| is_active(c) && !layout.contains(&c);
    if !text.contains(must_escape) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match must_escape(c) {
            // Every active character has at most four hexadecimal digits.
            true => _ = write!(shown, "\\u{:04x}", u32::from(c)),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Returns a foreign text as a part of a line: without line ends and tabs too, which could look like the program's own.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, &[])
}

/// The characters that lay out the lines of the program.
const LAYOUT: [char; 2] = ['\n', '\t'];

/// Prints lines for people. Foreign text within a line goes through [`one_line`]. Flushes, so that a reader of a pipe sees each page at once.
pub(crate) fn print(text: &str) -> Result<()> {
    print_exact(escaped(text, &LAYOUT).as_bytes())
}

/// Prints data for programs: as it is, or escaped on a terminal; see [`print`].
pub(crate) fn print_data(data: &[u8]) -> Result<()> {
    let mut out = DataOutput::new();
    out.write_all(data)?;
    out.flush()?;
    Ok(())
}

fn print_exact(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Prints a report as a line of JSON.
pub(crate) fn print_json(report: &serde_json::Value) -> Result<()> {
    print_data(format!("{report}\n").as_bytes())
}

/// Prints a remark for a person. A standard error that is closed is no failure of the command.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "{}", indented(text));
}

/// The lines of a remark. Those after the first are indented: a line end within foreign text begins no remark of the program.
fn indented(text: &str) -> String {
    let text = escaped(text, &LAYOUT);
    let lines = text.trim_end_matches('\n').split('\n').enumerate();
    let lines = lines.map(|(number, line)| match number == 0 || line.is_empty() {
        true => line.to_owned(),
        false => format!("  {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Asks a person, who answers on standard input. No answer is no.
pub(crate) fn ask(question: &str) -> bool {
    let mut err = io::stderr();
    let _ = write!(err, "{} [y/N] ", indented(question));
    let _ = err.flush();
    let mut answer = String::new();
    let is_read = io::stdin()
        .read_line(&mut answer)
        .is_ok_and(|bytes| bytes > 0);
    if !is_read {
        let _ = writeln!(err);
    }
    // Anything else is no, the end of input too: a program without a terminal must not delete by accident.
    ["y", "yes"].contains(&&*answer.trim().to_lowercase())
}

/// Standard output for data of programs: as it is, or escaped if it is a terminal.
#[derive(Debug)]
pub(crate) enum DataOutput {
    Exact(Stdout),
    Terminal(Escaping<Stdout>),
}

impl DataOutput {
    /// Standard output of the process.
    pub(crate) fn new() -> Self {
        let out = io::stdout();
        if out.is_terminal() {
            Self::Terminal(Escaping::new(out))
        } else {
            Self::Exact(out)
        }
    }
}

impl Write for DataOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Exact(out) => out.write(bytes),
            Self::Terminal(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Exact(out) => out.flush(),
            Self::Terminal(out) => out.flush(),
        }
    }
}

/// Writes text without its active characters.
#[derive(Debug)]
pub(crate) struct Escaping<W> {
    out: W,
    /// The first bytes of a character whose other bytes come with the next write.
    incomplete: Vec<u8>,
}

impl<W> Escaping<W> {
    const fn new(out: W) -> Self {
        Self {
            out,
            incomplete: Vec::new(),
        }
    }
}

/// Standard error for a log, whose events have foreign text.
pub(crate) fn log_output() -> Escaping<Stderr> {
    Escaping::new(io::stderr())
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = std::mem::take(&mut self.incomplete);
        text.extend_from_slice(bytes);
        let mut shown = String::with_capacity(text.len());
        let mut chunks = text.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            shown.push_str(&escaped(chunk.valid(), &LAYOUT));
            match chunk.invalid() {
                [] => {}
                // A character has at most four bytes.
                tail if chunks.peek().is_none() && tail.len() < 4 => {
                    self.incomplete = tail.to_vec();
                }
                _ => shown.push('\u{fffd}'),
            }
        }
        self.out.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clears a screen, sets the title of a window, ends a line, and turns the direction of text.
    const FOREIGN: &str = "a\u{1b}[2Jb\u{9b}c\u{7f}\r\n\u{202e}d\u{2066}\u{61c}é\u{1b}]0;t\u{7}";

    #[test]
    fn foreign_text_is_one_line_of_visible_characters() {
        let shown = one_line(FOREIGN);
        assert_eq!(
            shown,
            r"a\u001b[2Jb\u009bc\u007f\u000d\u000a\u202ed\u2066\u061cé\u001b]0;t\u0007"
        );
        assert!(matches!(
            one_line("Grüße, 世界 \u{1f600}"),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn a_line_end_in_foreign_text_begins_no_remark() {
        assert_eq!(
            indented("error: no\n\nerror: \u{1b}yes\n"),
            "error: no\n\n  error: \\u001byes"
        );
    }

    #[test]
    fn json_keeps_its_meaning_on_a_terminal() {
        let json = serde_json::json!({ FOREIGN: FOREIGN });
        let mut out = Escaping::new(Vec::new());
        // Byte by byte: a write may end within a character.
        json.to_string()
            .bytes()
            .for_each(|byte| out.write_all(&[byte]).unwrap());
        let shown = String::from_utf8(out.out).unwrap();
        assert!(!shown.contains(is_active), "{shown:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            json
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut out = Escaping::new(Vec::new());
        out.write_all(b"a\xff\x1bb").unwrap();
        assert_eq!(String::from_utf8(out.out).unwrap(), "a\u{fffd}\\u001bb");
    }
}
