//! Splits a document of JSON into the texts of its entities, one at a time: a file may be larger than memory.

use std::io::{self, BufRead};

use serde::de::IgnoredAny;

use crate::failure::{Failure, Result};
use crate::text_input::{MAX_ROW_BYTES, read_line, too_long};

/// How a document has entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A line for each entity.
    Lines,
    /// An array.
    Array,
    /// The member `value` of an answer of the service.
    /// <https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations>
    Answer,
    /// The member `items` of the output of `az storage entity query`.
    Items,
}

/// The texts of the entities of a document.
pub(super) struct JsonTexts {
    bytes: Box<dyn BufRead + Send>,
    pub(super) form: Form,
    /// The number of the last entity or of the last line.
    number: u64,
    is_done: bool,
}

impl JsonTexts {
    /// Reads lines.
    pub(super) fn lines(bytes: Box<dyn BufRead + Send>) -> Self {
        Self {
            bytes,
            form: Form::Lines,
            number: 0,
            is_done: false,
        }
    }

    /// Reads a document up to its array of entities.
    pub(super) fn document(bytes: Box<dyn BufRead + Send>) -> Result<Self> {
        let mut texts = Self {
            bytes,
            form: Form::Array,
            number: 0,
            is_done: false,
        };
        texts.find_array().map_err(|error| texts.failed(&error))?;
        Ok(texts)
    }

    /// The place of the last text.
    pub(super) fn place(&self) -> String {
        let unit = if self.form == Form::Lines {
            "line"
        } else {
            "entity"
        };
        format!("{unit} {}", self.number)
    }

    /// Reads the text of the next entity into `text`; `false` at the end.
    pub(super) fn read(&mut self, text: &mut Vec<u8>) -> Result<bool> {
        if self.form == Form::Lines {
            let has_line = self.next_line(text).map_err(|error| {
                let line = self.number + 1;
                Failure::of_input(format!("line {line} cannot be read: {error}"), &error)
            })?;
            if has_line && is_cut(text) {
                return Err(Failure::Damaged(format!(
                    "line {}: the file is cut: its last line ends in the middle of an entity",
                    self.number
                )));
            }
            return Ok(has_line);
        }
        self.next_element(text).map_err(|error| self.failed(&error))
    }

    /// Reads the next line that is not blank into `text`.
    fn next_line(&mut self, text: &mut Vec<u8>) -> io::Result<bool> {
        // Blanks are passed without a copy: a small compressed file may have any number of blank lines.
        loop {
            let buffer = match self.bytes.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            let blanks = buffer
                .iter()
                .position(|byte| !byte.is_ascii_whitespace())
                .unwrap_or(buffer.len());
            let lines = buffer[..blanks].iter().filter(|byte| **byte == b'\n');
            self.number += lines.count() as u64;
            let is_end = blanks < buffer.len() || buffer.is_empty();
            self.bytes.consume(blanks);
            if is_end {
                break;
            }
        }
        let has_line = read_line(&mut *self.bytes, text)?;
        self.number += u64::from(has_line);
        Ok(has_line)
    }

    fn failed(&self, error: &io::Error) -> Failure {
        let number = self.number;
        Failure::of_input(
            format!("the JSON cannot be read after entity {number}: {error}"),
            error,
        )
    }

    fn next_element(&mut self, text: &mut Vec<u8>) -> io::Result<bool> {
        if self.is_done {
            return Ok(false);
        }
        let mut next = self.peek()?;
        if self.number > 0 && next == Some(b',') {
            self.bytes.consume(1);
            next = self.peek()?;
        } else if next == Some(b']') {
            self.bytes.consume(1);
            self.is_done = true;
            return self.finish().map(|()| false);
        } else if self.number > 0 {
            return Err(unexpected(next, "a comma or the end of the array"));
        }
        if matches!(next, None | Some(b']')) {
            return Err(unexpected(next, "an entity"));
        }
        self.value(Some(text))?;
        self.number += 1;
        Ok(true)
    }

    /// Reads up to the first entity.
    fn find_array(&mut self) -> io::Result<()> {
        match self.peek()? {
            Some(b'[') => {
                self.bytes.consume(1);
                return Ok(());
            }
            Some(b'{') => self.bytes.consume(1),
            other => {
                return Err(unexpected(
                    other,
                    "an array of entities, or an object with such an array as `value` or `items`",
                ));
            }
        }
        let mut is_first = true;
        while let Some(name) = self.next_name(is_first)? {
            is_first = false;
            let form = match &*name {
                b"\"value\"" => Form::Answer,
                b"\"items\"" => Form::Items,
                _ => Form::Array,
            };
            if form != Form::Array && self.peek()? == Some(b'[') {
                self.bytes.consume(1);
                self.form = form;
                return Ok(());
            }
            self.skip_member(&name)?;
        }
        Err(refused(
            "the object has no array `value` or `items` of entities; for a file with a line for each entity, give --format jsonl",
        ))
    }

    /// Reads the document after the array. More text may be rows, which would be lost.
    fn finish(&mut self) -> io::Result<()> {
        if self.form != Form::Array {
            while let Some(name) = self.next_name(false)? {
                if matches!(&*name, b"\"value\"" | b"\"items\"") && self.peek()? == Some(b'[') {
                    return Err(refused("the object has a second array of entities"));
                }
                self.skip_member(&name)?;
            }
        }
        match self.peek()? {
            None => Ok(()),
            Some(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "trailing characters follow the document",
            )),
        }
    }

    /// Reads the value of a member that is not the array.
    ///
    /// # Errors
    /// The member says that the file is one page of an answer, and more entities follow.
    fn skip_member(&mut self, name: &[u8]) -> io::Result<()> {
        if !matches!(name, b"\"odata.nextLink\"" | b"\"nextMarker\"") {
            return self.value(None);
        }
        let mut next = Vec::new();
        self.value(Some(&mut next))?;
        next.retain(|byte| !byte.is_ascii_whitespace());
        match &*next {
            b"null" | b"\"\"" | b"{}" => Ok(()),
            _ => Err(refused(
                "the file is one page of an answer, and more entities follow: query all of them, and import that file",
            )),
        }
    }

    /// Reads the name of the next member of the object, with its quotes, and the colon; `None` after the last member.
    fn next_name(&mut self, is_first: bool) -> io::Result<Option<Vec<u8>>> {
        let mut next = self.peek()?;
        if next == Some(b'}') {
            self.bytes.consume(1);
            return Ok(None);
        }
        if !is_first {
            if next != Some(b',') {
                return Err(unexpected(next, "a comma or the end of the object"));
            }
            self.bytes.consume(1);
            next = self.peek()?;
        }
        if next != Some(b'"') {
            return Err(unexpected(next, "the name of a member"));
        }
        let mut name = Vec::new();
        self.value(Some(&mut name))?;
        match self.peek()? {
            Some(b':') => self.bytes.consume(1),
            other => return Err(unexpected(other, "a colon")),
        }
        Ok(Some(name))
    }

    /// Returns the next byte that is no blank, which stays unread.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let buffer = self.bytes.fill_buf()?;
            if buffer.is_empty() {
                return Ok(None);
            }
            match buffer.iter().position(|byte| !byte.is_ascii_whitespace()) {
                Some(at) => {
                    let byte = buffer[at];
                    self.bytes.consume(at);
                    return Ok(Some(byte));
                }
                None => {
                    let blanks = buffer.len();
                    self.bytes.consume(blanks);
                }
            }
        }
    }

    /// Reads a value: an object, an array or a text up to its end, another up to the next separator. What is in it is not checked.
    fn value(&mut self, mut text: Option<&mut Vec<u8>>) -> io::Result<()> {
        if let Some(text) = &mut text {
            text.clear();
        }
        let first = self.peek()?;
        if matches!(first, None | Some(b',' | b':' | b']' | b'}')) {
            return Err(unexpected(first, "a value"));
        }
        let (mut depth, mut is_text, mut is_escaped) = (0_u64, false, false);
        loop {
            let buffer = self.bytes.fill_buf()?;
            if buffer.is_empty() {
                return match depth == 0 && !is_text {
                    true => Ok(()),
                    false => Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file ends in the middle of a value",
                    )),
                };
            }
            let (mut used, mut is_done) = (0, false);
            for &byte in buffer {
                if is_text {
                    is_text = is_escaped || byte != b'"';
                    is_escaped = !is_escaped && byte == b'\\';
                    used += 1;
                    is_done = !is_text && depth == 0;
                } else {
                    match byte {
                        b'}' | b']' | b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => {
                            is_done = true;
                        }
                        b'{' | b'[' => (depth, used) = (depth + 1, used + 1),
                        b'}' | b']' => {
                            (depth, used) = (depth - 1, used + 1);
                            is_done = depth == 0;
                        }
                        _ => (is_text, used) = (byte == b'"', used + 1),
                    }
                }
                if is_done {
                    break;
                }
            }
            if let Some(text) = &mut text {
                text.extend_from_slice(&buffer[..used]);
                if text.len() > MAX_ROW_BYTES {
                    return Err(too_long());
                }
            }
            self.bytes.consume(used);
            if is_done {
                return Ok(());
            }
        }
    }
}

/// Whether the last line of a file ends in the middle of an entity.
fn is_cut(line: &[u8]) -> bool {
    !line.ends_with(b"\n")
        && serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

/// The error of a document that is whole, and is refused.
fn refused(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

fn unexpected(found: Option<u8>, expected: &str) -> io::Error {
    let found = match found {
        None => "the end of the file".to_owned(),
        Some(byte) => format!("{:?}", char::from(byte)),
    };
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{expected} is expected, and {found} was found"),
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    fn read(text: &str) -> (Vec<String>, Result<()>) {
        let mut rows = Vec::new();
        // A small buffer, so that values are read in several parts.
        let bytes = BufReader::with_capacity(3, Cursor::new(text.as_bytes().to_vec()));
        let mut texts = match JsonTexts::document(Box::new(bytes)) {
            Ok(texts) => texts,
            Err(failure) => return (rows, Err(failure)),
        };
        let mut text = Vec::new();
        loop {
            match texts.read(&mut text) {
                Ok(true) => rows.push(String::from_utf8(text.clone()).unwrap()),
                Ok(false) => return (rows, Ok(())),
                Err(failure) => return (rows, Err(failure)),
            }
        }
    }

    #[test]
    fn blank_lines_are_counted_and_a_cut_line_is_damage() {
        let read = |text: &'static str| {
            let bytes = BufReader::with_capacity(3, Cursor::new(text));
            let mut texts = JsonTexts::lines(Box::new(bytes));
            let (mut places, mut line) = (Vec::new(), Vec::new());
            loop {
                match texts.read(&mut line) {
                    Ok(true) => places.push(texts.place()),
                    Ok(false) => return (places, Ok(())),
                    Err(failure) => return (places, Err(failure)),
                }
            }
        };
        let (places, done) = read("\n\r\n  \n  {}\n\n{}\n \n");
        done.unwrap();
        assert_eq!(places, ["line 4", "line 6"]);
        // What is no JSON at all is a row that is skipped, also in the last line.
        let (places, done) = read("{}\n{\n{} x");
        done.unwrap();
        assert_eq!(places, ["line 1", "line 2", "line 3"]);
        for cut in ["{}\n{\"a\":", "{}\n{\"a\":\"x", "{}\n\n{"] {
            let (places, done) = read(cut);
            assert_eq!(places, ["line 1"], "{cut}");
            assert!(matches!(done, Err(Failure::Damaged(_))), "{cut}");
        }
    }

    #[test]
    fn the_entities_of_every_form_are_found() {
        let entities = r#"{"a":"]}\"\\","b":[{}]} , 7,"x,]"  ,{} "#;
        let expected = [r#"{"a":"]}\"\\","b":[{}]}"#, "7", r#""x,]""#, "{}"];
        for text in [
            format!("[{entities}]"),
            format!(" [ {entities} ] \n"),
            format!(r#"{{"odata.metadata":"x]","value":[{entities}]}}"#),
            format!(r#"{{"items":[{entities}],"nextMarker": {{ }}, "n": {{"a":[1]}} }}"#),
            format!(r#"{{"value": 5 ,"items":[{entities}]}}"#),
        ] {
            let (rows, done) = read(&text);
            done.unwrap();
            assert_eq!(rows, expected, "{text}");
        }
        let (rows, done) = read(r#"{"value":[]}"#);
        done.unwrap();
        assert!(rows.is_empty());
    }

    #[test]
    fn other_json_is_refused() {
        for (text, reason) in [
            (r#"{"PartitionKey":"p","RowKey":"1"}"#, "--format jsonl"),
            ("7", "an array of entities"),
            ("", "the end of the file"),
            (
                r#"{"value":[{"PartitionKey":"p","RowKey":"1"}"#,
                "after entity 1",
            ),
            (
                r#"[{"PartitionKey":"p","RowKey":"1"},{"Part"#,
                "after entity 1: the file ends in the middle",
            ),
            (
                r#"{"odata.nextLink":"x","value":[]}"#,
                "more entities follow",
            ),
            (
                r#"{"items":[],"nextMarker":{"nextpartitionkey":"p"}}"#,
                "more entities follow",
            ),
            ("[] []", "trailing characters"),
            ("[{} {}]", "a comma"),
            ("[{},]", "an entity is expected"),
            ("[,{}]", "a value is expected"),
            (r#"{"a":,"value":[]}"#, "a value is expected"),
            (r#"{"value":[],"items":[{}]}"#, "a second array"),
        ] {
            let error = read(text).1.unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let long = format!("[\"{}\"]", "x".repeat(MAX_ROW_BYTES));
        assert!(read(&long).1.unwrap_err().to_string().contains("16 MiB"));
    }
}
