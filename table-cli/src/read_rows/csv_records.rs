//! Parses CSV: <https://www.rfc-editor.org/rfc/rfc4180>. A quote too few is an error: it would make another row of the text after it.

use std::io::{self, BufRead, Cursor, Read as _};

use crate::failure::{Failure, Result};
use crate::text_input::{MAX_ROW_BYTES, too_long};

/// The separators that a header can show, the usual one first.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// A record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The line on which it begins, from 1.
    pub(super) line: u64,
    text: String,
    /// The end of each cell in `text`.
    ends: Vec<usize>,
    /// Whether the file ends before the end of the line, as the last line of a file that was cut.
    pub(super) is_unended: bool,
}

impl Record {
    /// The number of cells.
    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// A cell.
    pub(super) fn get(&self, at: usize) -> Option<&str> {
        let from = if at == 0 { 0 } else { *self.ends.get(at - 1)? };
        self.text.get(from..*self.ends.get(at)?)
    }

    /// The cells.
    pub(super) fn cells(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// The bytes of the cells.
    pub(super) const fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<usize>()
    }
}

/// The next record of a file.
#[derive(Debug)]
pub(super) enum Next {
    Record(Record),
    /// A record that is not UTF-8, on this line. The records after it can be read.
    NotUtf8(u64),
    End,
}

/// Reads records.
pub(super) struct Records {
    bytes: Box<dyn BufRead + Send>,
    separator: u8,
    /// The line of the next byte.
    line: u64,
    /// Whether the last byte was a carriage return: a line feed after it ends no other line.
    after_return: bool,
}

/// The place of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start of a cell.
    Start,
    /// In a cell without quotes.
    Plain,
    /// In a cell with quotes.
    Quoted,
    /// After a quote in a cell with quotes: its end, or the first half of a quote.
    AfterQuote,
}

impl Records {
    /// Finds the separator in the first line: the one of comma, semicolon and tab that it has most often outside quotes, or the one
    /// that a line `sep=;` names, as spreadsheets write it. Returns a remark if it is not the comma.
    pub(super) fn new(mut bytes: Box<dyn BufRead + Send>) -> Result<(Self, Option<String>)> {
        let (mut line, mut after_return) = (1, false);
        let mut first = first_line(&mut *bytes).map_err(|error| unreadable(1, &error))?;
        let mut separator = named_separator(&first);
        if separator.is_some() {
            (line, after_return) = (2, first.ends_with(b"\r"));
            first = Vec::new();
        } else {
            let mut most = 0;
            for candidate in SEPARATORS {
                let count = count_outside_quotes(&first, candidate);
                if count > most {
                    (most, separator) = (count, Some(candidate));
                }
            }
        }
        let separator = separator.unwrap_or(b',');
        let remark = match separator {
            b',' => None,
            b'\t' => Some("the columns are separated by tabs".to_owned()),
            other => Some(format!(
                "the columns are separated by {:?}",
                char::from(other)
            )),
        };
        let bytes = Box::new(Cursor::new(first).chain(bytes));
        Ok((
            Self {
                bytes,
                separator,
                line,
                after_return,
            },
            remark,
        ))
    }

    /// Reads the next record. Lines without a character are left out.
    pub(super) fn read(&mut self) -> Result<Next> {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        let (mut state, mut begin, mut quoted_at) = (State::Start, self.line, 0);
        loop {
            let buffer = match self.bytes.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unreadable(self.line, &error)),
            };
            if buffer.is_empty() {
                return match state {
                    State::Quoted => Err(open_quote(quoted_at)),
                    State::Start if ends.is_empty() => Ok(Next::End),
                    _ => Ok(end(begin, text, ends, true)),
                };
            }
            let (mut used, mut is_done) = (0, false);
            for &byte in buffer {
                used += 1;
                let after_return = std::mem::take(&mut self.after_return);
                let is_second_half = byte == b'\n' && after_return;
                if (byte == b'\n' && !is_second_half) || byte == b'\r' {
                    self.line += 1;
                }
                self.after_return = byte == b'\r';
                state = match (state, byte) {
                    (State::Quoted, b'"') => State::AfterQuote,
                    (State::Quoted, _) => {
                        text.push(byte);
                        State::Quoted
                    }
                    (State::AfterQuote, b'"') => {
                        text.push(b'"');
                        State::Quoted
                    }
                    (_, b'\n' | b'\r') => {
                        if state == State::Start && ends.is_empty() {
                            begin = self.line;
                            continue;
                        }
                        is_done = true;
                        break;
                    }
                    (_, byte) if byte == self.separator => {
                        ends.push(text.len());
                        State::Start
                    }
                    (State::AfterQuote, _) => {
                        return Err(Failure::Damaged(format!(
                            "line {}: text follows the closing quote of a cell that begins on line {quoted_at}: a quote is missing or not doubled",
                            self.line
                        )));
                    }
                    (State::Start, b'"') => {
                        quoted_at = self.line;
                        State::Quoted
                    }
                    (State::Start | State::Plain, _) => {
                        text.push(byte);
                        State::Plain
                    }
                };
            }
            self.bytes.consume(used);
            if text.len() + ends.len() * size_of::<usize>() > MAX_ROW_BYTES {
                return Err(match state {
                    // The most likely reason, and the one with a line to look at.
                    State::Quoted => open_quote(quoted_at),
                    _ => unreadable(begin, &too_long()),
                });
            }
            if is_done {
                return Ok(end(begin, text, ends, false));
            }
        }
    }
}

fn end(line: u64, text: Vec<u8>, mut ends: Vec<usize>, is_unended: bool) -> Next {
    ends.push(text.len());
    let Ok(text) = String::from_utf8(text) else {
        return Next::NotUtf8(line);
    };
    // A cell may end in the middle of a character only if the whole is not UTF-8: separators and quotes are ASCII.
    Next::Record(Record {
        line,
        text,
        ends,
        is_unended,
    })
}

fn open_quote(line: u64) -> Failure {
    Failure::Damaged(format!(
        "line {line}: a cell begins with a quote that is not closed: the file is cut, or a quote is missing"
    ))
}

fn unreadable(line: u64, error: &io::Error) -> Failure {
    Failure::of_input(format!("line {line} cannot be read: {error}"), error)
}

/// Reads up to the first end of a line outside quotes.
fn first_line(bytes: &mut dyn BufRead) -> io::Result<Vec<u8>> {
    let (mut line, mut is_quoted, mut has_text) = (Vec::new(), false, false);
    loop {
        let buffer = bytes.fill_buf()?;
        let is_end = |byte: &u8| {
            is_quoted ^= *byte == b'"';
            !is_quoted && matches!(byte, b'\n' | b'\r')
        };
        let end = buffer.iter().position(is_end);
        let used = end.map_or(buffer.len(), |at| at + 1);
        line.extend_from_slice(&buffer[..used]);
        has_text |= buffer[..used]
            .iter()
            .any(|byte| !matches!(byte, b'\n' | b'\r'));
        bytes.consume(used);
        if used == 0 || end.is_some() && has_text {
            return Ok(line);
        }
        if line.len() > MAX_ROW_BYTES {
            return Err(too_long());
        }
    }
}

/// The separator that a line `sep=;` names.
fn named_separator(line: &[u8]) -> Option<u8> {
    let line = line.trim_ascii_end();
    let line = line
        .strip_prefix(b"\"")
        .and_then(|line| line.strip_suffix(b"\""))
        .unwrap_or(line);
    let name = line
        .get(..4)
        .filter(|name| name.eq_ignore_ascii_case(b"sep="));
    name?;
    match &line[4..] {
        // The tab is trimmed as the blank that it is.
        [] => Some(b'\t'),
        [separator] if separator.is_ascii() && !matches!(separator, b'"' | b'\n' | b'\r') => {
            Some(*separator)
        }
        _ => None,
    }
}

fn count_outside_quotes(line: &[u8], byte: u8) -> usize {
    let mut is_quoted = false;
    let is_outside = |other: &&u8| {
        is_quoted ^= **other == b'"';
        !is_quoted && **other == byte
    };
    line.iter().filter(is_outside).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(u64, Vec<String>)>> {
        let (mut records, _) = Records::new(Box::new(Cursor::new(text.as_bytes().to_vec())))?;
        let mut rows = Vec::new();
        while let Next::Record(record) = records.read()? {
            rows.push((record.line, record.cells().map(str::to_owned).collect()));
        }
        Ok(rows)
    }

    fn row(line: u64, cells: &[&str]) -> (u64, Vec<String>) {
        (line, cells.iter().map(|cell| (*cell).to_owned()).collect())
    }

    #[test]
    fn cells_are_read_as_the_standard_says() {
        let expected = [
            row(1, &["a", "b"]),
            row(3, &["x\r\n,", "\"y\""]),
            row(5, &["", ""]),
            row(6, &["5\" disk", "z"]),
        ];
        for text in [
            "a,b\r\n\r\n\"x\r\n,\",\"\"\"y\"\"\"\r\n,\r\n5\" disk,z",
            "a,b\n\n\"x\r\n,\",\"\"\"y\"\"\"\n,\n5\" disk,z\n",
            "a,b\r\r\"x\r\n,\",\"\"\"y\"\"\"\r,\r5\" disk,z\r",
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text:?}");
        }
        assert_eq!(read("").unwrap(), []);
        assert_eq!(read("a,\"\"").unwrap(), [row(1, &["a", ""])]);
    }

    #[test]
    fn the_header_shows_the_separator() {
        for (text, cells) in [
            ("a;b,c;d\n", &["a", "b,c", "d"][..]),
            ("a\tb\n", &["a", "b"]),
            ("\"a;;;;\",b\n", &["a;;;;", "b"]),
            ("a\n", &["a"]),
        ] {
            assert_eq!(read(text).unwrap(), [row(1, cells)], "{text:?}");
        }
        for text in ["sep=;\r\na;b,c\r\n", "\"sep=;\"\na;b,c\n", "SEP=;\na;b,c"] {
            assert_eq!(read(text).unwrap(), [row(2, &["a", "b,c"])], "{text:?}");
        }
        assert_eq!(
            read("sep=\t\na,b,c\td\n").unwrap(),
            [row(2, &["a,b,c", "d"])]
        );
    }

    #[test]
    fn a_quote_too_few_is_an_error_with_its_line() {
        for (text, line, reason) in [
            ("a,b\n1,\"x\n2,y\n", "line 2", "not closed"),
            ("a,b\n1,\"x\n2,\"y\"\n", "line 3", "begins on line 2"),
            ("a,b\n1,\"x\" y\n", "line 2", "not doubled"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(line) && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_row_has_a_bound() {
        let long = "x".repeat(MAX_ROW_BYTES + 1);
        assert!(
            read(&format!("a,b\n{long}\n"))
                .unwrap_err()
                .to_string()
                .contains("line 2")
        );
        assert!(read(&",".repeat(MAX_ROW_BYTES / 4)).is_err());
        let error = read(&format!("a,b\n\"{long}\n")).unwrap_err().to_string();
        assert!(error.contains("not closed"), "{error}");
    }
}
