//! The format of log blobs: their names, the header, and the lines of records.

use chrono::{DateTime, Utc};
use object_store::path::Path;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use table_core::model::Ticks;
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::{LogFormat, LogPeriod};
use crate::blobs::blob_error;

/// The first line of a blob.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The version of the format: 1.
    pub(super) log: u32,
    pub(super) first: String,
    pub(super) last: String,
    pub(super) records: u64,
    /// The writer and the number of its buffer: they identify the blob after a lost answer.
    pub(super) writer: Uuid,
    pub(super) flush: u64,
}

impl Header {
    pub(super) fn line(&self, format: LogFormat) -> Result<String> {
        let json = serde_json::to_string(self).map_err(|e| no_json_form(&e))?;
        // Programs that read delimited text take `#` for the start of a comment.
        Ok(if format == LogFormat::JsonLines {
            format!("{json}\n")
        } else {
            format!("#{json}\n")
        })
    }

    /// Parses a header; the flag says whether the records are JSON lines. `None` for any other line.
    pub(super) fn parse(line: &str) -> Option<(Self, bool)> {
        let json = line.strip_prefix('#').unwrap_or(line);
        let header: Self = serde_json::from_str(json).ok()?;
        (header.log == 1).then_some((header, json.len() == line.len()))
    }
}

/// A JSON line.
#[derive(Deserialize)]
struct JsonLine<'a> {
    time: &'a str,
    #[serde(borrow)]
    record: &'a serde_json::value::RawValue,
}

/// One record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The time of the append, by the writer's clock.
    pub time: Ticks,
    /// The stored text of the record: JSON, or fields with their escapes.
    pub text: String,
    delimiter: Option<char>,
}

/// A record as JSON without line breaks. Only raw JSON values have line breaks, and only between tokens: a space may
/// replace them.
pub(super) fn json_record<R: Serialize>(record: &R) -> Result<String> {
    let text = serde_json::to_string(record).map_err(|e| no_json_form(&e))?;
    Ok(if text.contains(['\n', '\r']) {
        text.replace(['\n', '\r'], " ")
    } else {
        text
    })
}

/// The fields with their escapes, separated by the delimiter.
pub(super) fn delimited_record<F: AsRef<str>>(fields: &[F], delimiter: char) -> String {
    let mut out = String::new();
    for (n, field) in fields.iter().enumerate() {
        if n > 0 {
            out.push(delimiter);
        }
        field
            .as_ref()
            .chars()
            .for_each(|c| push_escaped(&mut out, c, delimiter));
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

/// The line of a record.
pub(super) fn line(format: LogFormat, time: Ticks, record: &str) -> String {
    match format {
        LogFormat::JsonLines => format!("{{\"time\":\"{time}\",\"record\":{record}}}\n"),
        LogFormat::Delimited(delimiter) => format!("{time}{delimiter}{record}\n"),
    }
}

impl LogEntry {
    /// The value of a record that was appended as JSON.
    ///
    /// # Errors
    /// The record is not JSON, or not an `R`.
    pub fn json<R: DeserializeOwned>(&self) -> Result<R> {
        serde_json::from_str(&self.text)
            .map_err(|e| Error::corrupt(format!("a log record of {}: {e}", self.time)))
    }

    /// The fields of a record that was appended as fields. A JSON record is one field.
    pub fn fields(&self) -> Vec<String> {
        let Some(delimiter) = self.delimiter else {
            return vec![self.text.clone()];
        };
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

    /// Parses a [`line`]; `None` for any other text.
    pub(super) fn parse(line: &str, is_json: bool) -> Option<Self> {
        if is_json {
            let read: JsonLine<'_> = serde_json::from_str(line).ok()?;
            let text = read.record.get().to_owned();
            return Some(Self {
                time: read.time.parse().ok()?,
                text,
                delimiter: None,
            });
        }
        // The time ends in `Z`, and no time has another one. The delimiter is the character after it,
        // whatever the options of the reader.
        let end = line.find('Z')? + 1;
        let delimiter = line[end..].chars().next()?;
        let text = line[end + delimiter.len_utf8()..].to_owned();
        Some(Self {
            time: line[..end].parse().ok()?,
            text,
            delimiter: Some(delimiter),
        })
    }
}

fn no_json_form(error: &serde_json::Error) -> Error {
    Error::invalid_argument(format!("the log record cannot be written as JSON: {error}"))
}

/// Checks that every blob store takes the service's name as a directory.
pub(super) fn check_service(service: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if service.is_empty() || !service.chars().all(legal) {
        let reason = "use lower-case ASCII letters, digits, `-` and `_`";
        return Err(Error::invalid_name("service", service, reason));
    }
    Ok(())
}

/// The directory of a time: `{service}/2014/07/31/1800`.
pub(super) fn directory(service: &str, at: Ticks, period: LogPeriod) -> String {
    let minutes = match period {
        LogPeriod::Hour => "%H00",
        LogPeriod::Minute => "%H%M",
    };
    format!(
        "{service}/{}",
        at.to_datetime().format(&format!("%Y/%m/%d/{minutes}"))
    )
}

/// The path of a blob: `{directory}/000001.log`.
pub(super) fn path(directory: &str, number: u32) -> Result<Path> {
    parse(&format!("{directory}/{number:06}.log"))
}

/// The directory of a day.
pub(super) fn day(service: &str, day: DateTime<Utc>) -> Result<Path> {
    parse(&format!("{service}/{}", day.format("%Y/%m/%d")))
}

pub(super) fn parse(text: &str) -> Result<Path> {
    Path::parse(text).map_err(|e| blob_error(e.into()))
}

/// The number in a log blob's name; `None` for any other blob.
pub(super) fn number(path: &Path) -> Option<u32> {
    path.filename()?.strip_suffix(".log")?.parse().ok()
}

/// The time of day of a blob's directory, in minutes.
pub(super) fn minute_of_day(path: &Path) -> Option<u32> {
    let hhmm = path.as_ref().rsplit('/').nth(1)?;
    let (hour, minute) = hhmm.split_at_checked(2)?;
    Some(hour.parse::<u32>().ok()? * 60 + minute.parse::<u32>().ok()?)
}
