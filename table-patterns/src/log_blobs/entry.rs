//! Lines, and back.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use table_core::model::Ticks;
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::LogFormat;

/// The first line of a blob.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The version of the format.
    pub(super) log: u32,
    pub(super) first: String,
    pub(super) last: String,
    pub(super) records: u64,
    /// Who wrote it, and which of its flushes it is.
    pub(super) writer: Uuid,
    pub(super) flush: u64,
}

impl Header {
    pub(super) fn line(&self, format: LogFormat) -> Result<String> {
        let json = serde_json::to_string(self).map_err(|e| unwritable(&e))?;
        Ok(if format == LogFormat::JsonLines { format!("{json}\n") } else { format!("#{json}\n") })
    }

    pub(super) fn parse(line: &str) -> Option<(Self, bool)> {
        let json = line.strip_prefix('#').unwrap_or(line);
        let header: Self = serde_json::from_str(json).ok()?;
        (header.log == 1).then_some((header, json.len() == line.len()))
    }
}

/// What a JSON line holds.
#[derive(Deserialize)]
struct ReadLine<'a> {
    time: &'a str,
    #[serde(borrow)]
    record: &'a serde_json::value::RawValue,
}

/// One record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When it was appended, by its writer's clock.
    pub time: Ticks,
    /// The record as it is written: JSON, or fields with their escapes.
    pub text: String,
    delimiter: Option<char>,
}

/// The part of a JSON line after its time. Only raw JSON has line breaks, between its tokens.
pub(super) fn json_record<R: Serialize>(record: &R) -> Result<String> {
    let text = serde_json::to_string(record).map_err(|e| unwritable(&e))?;
    Ok(if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text })
}

/// Fields with a delimiter between them.
pub(super) fn joined<F: AsRef<str>>(fields: &[F], delimiter: char) -> String {
    let mut out = String::new();
    for (n, field) in fields.iter().enumerate() {
        if n > 0 {
            out.push(delimiter);
        }
        field.as_ref().chars().for_each(|c| push_escaped(&mut out, c, delimiter));
    }
    out
}

fn push_escaped(out: &mut String, c: char, delimiter: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        c if c == '\\' || c == delimiter => out.extend(['\\', c]),
        c => out.push(c),
    }
}

/// A whole line.
pub(super) fn line(format: LogFormat, time: Ticks, record: &str) -> String {
    match format {
        LogFormat::JsonLines => format!("{{\"time\":\"{time}\",\"record\":{record}}}\n"),
        LogFormat::Delimited(delimiter) => format!("{time}{delimiter}{record}\n"),
    }
}

impl LogEntry {
    /// A record that was appended as JSON.
    ///
    /// # Errors
    /// It is not an `R`, or was not JSON.
    pub fn json<R: DeserializeOwned>(&self) -> Result<R> {
        serde_json::from_str(&self.text)
            .map_err(|e| Error::corrupt(format!("a log record of {}: {e}", self.time)))
    }

    /// The fields of a record that was appended as fields; a JSON record is one field.
    pub fn fields(&self) -> Vec<String> {
        let Some(delimiter) = self.delimiter else { return vec![self.text.clone()] };
        let (mut fields, mut field, mut escaped) = (Vec::new(), String::new(), false);
        for c in self.text.chars() {
            match (escaped, c) {
                (false, '\\') => {
                    escaped = true;
                    continue;
                }
                (false, c) if c == delimiter => fields.push(std::mem::take(&mut field)),
                (true, 'n') => field.push('\n'),
                (true, 'r') => field.push('\r'),
                (_, c) => field.push(c),
            }
            escaped = false;
        }
        fields.push(field);
        fields
    }

    /// Back from [`line`]; `None` if it is not one.
    pub(super) fn parse(line: &str, is_json: bool) -> Option<Self> {
        if is_json {
            let read: ReadLine<'_> = serde_json::from_str(line).ok()?;
            let text = read.record.get().to_owned();
            return Some(Self { time: read.time.parse().ok()?, text, delimiter: None });
        }
        let end = line.find('Z')? + 1;
        let delimiter = line[end..].chars().next()?;
        let text = line[end + delimiter.len_utf8()..].to_owned();
        Some(Self { time: line[..end].parse().ok()?, text, delimiter: Some(delimiter) })
    }
}

fn unwritable(error: &serde_json::Error) -> Error {
    Error::invalid_request(format!("a log record that has no JSON form: {error}"))
}
