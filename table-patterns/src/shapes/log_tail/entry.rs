use std::fmt;
use std::str::FromStr;

use table_core::model::{ETag, Entity, Ticks};
use table_core::store::{Error, Result};
use table_core::typed::Record;
use uuid::Uuid;

/// The digits of inverted ticks.
const DIGITS: usize = 19;
/// The hexadecimal digits of the count behind them.
pub(super) const COUNT_DIGITS: usize = 12;
/// Those of the writer's UUID behind that.
const WRITER_DIGITS: usize = 32;

/// Names an entry of a log: its time, and what makes it unique.
///
/// Print it with [`Display`](fmt::Display), read it with [`str::parse`]: a web client can hold it as the
/// cursor of its page. It is the row key behind the log's prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryId {
    text: Box<str>,
    at: Ticks,
}

impl EntryId {
    /// The id of a row that another program wrote with the guide's formula and no suffix.
    pub fn of_guide(at: Ticks) -> Self {
        Self { text: inverted(at.inverted()).into(), at }
    }

    pub(super) fn unique(at: Ticks, suffix: &str) -> Self {
        Self { text: format!("{}_{suffix}", inverted(at.inverted())).into(), at }
    }

    /// When it was appended.
    pub const fn at(&self) -> Ticks {
        self.at
    }

    /// The text behind the log's prefix.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether its suffix is one that no other append is given: a count and the UUID of a handle.
    pub(super) fn is_unique(&self) -> bool {
        let suffix = self.text[DIGITS..].strip_prefix('_').and_then(|suffix| suffix.split_once('_'));
        suffix.is_some_and(|(count, writer)| {
            count.len() == COUNT_DIGITS && writer.len() == WRITER_DIGITS && Uuid::try_parse(writer).is_ok()
        })
    }

    fn read(text: &str) -> Option<Self> {
        let digits = text.get(..DIGITS).filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
        let at = Ticks::from_inverted(digits.parse().ok()?)?;
        Some(Self { text: text.into(), at })
    }
}

/// As the guide writes them: `{0:D19}`.
pub(super) fn inverted(ticks: i64) -> String {
    format!("{ticks:0DIGITS$}")
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for EntryId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::read(text).ok_or_else(|| {
            Error::invalid_key("RowKey", text, "an entry's id starts with inverted ticks in 19 digits")
        })
    }
}

/// An entry as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged<E> {
    /// Its name.
    pub id: EntryId,
    /// When it was appended.
    pub at: Ticks,
    /// What was appended.
    pub value: E,
    /// The version that was read.
    pub etag: Option<ETag>,
}

impl<E: Record> Logged<E> {
    pub(super) fn read(entity: &Entity, prefix: &str) -> Result<Self> {
        let row = entity.key().row();
        let id = row.strip_prefix(prefix).and_then(EntryId::read).ok_or_else(|| {
            let expected = format!("{prefix:?} and inverted ticks in 19 digits");
            Error::decode("log entry", entity.key(), "RowKey", expected, format!("{row:?}"))
        })?;
        Ok(Self { at: id.at, id, value: E::read_from(entity)?, etag: entity.etag().cloned() })
    }
}
