//! The ids of entries: RowKeys that sort the latest entry first.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use table_core::model::{ETag, Entity, Ticks};
use table_core::store::{Error, Result};
use table_core::typed::Record;
use uuid::Uuid;

use crate::clock::{Clock, SystemClock};

/// The number of decimal digits of inverted ticks.
const TICK_DIGITS: usize = 19;
/// The number of hexadecimal digits of the inverted count.
const COUNT_DIGITS: usize = 12;
/// The number of hexadecimal digits of the writer's UUID.
const WRITER_DIGITS: usize = 32;

/// Identifies an entry of a log: the entry's time and a unique suffix.
///
/// The text of an id is the entry's row key without the log's prefix. [`Display`](fmt::Display) writes it and
/// [`str::parse`] reads it: a web client can keep the id as the cursor of its page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryId {
    text: Box<str>,
    at: Ticks,
}

impl EntryId {
    /// The id of a row that another program wrote with the Table design guide's formula and no suffix.
    pub fn of_guide(at: Ticks) -> Self {
        Self {
            text: inverted(at.inverted()).into(),
            at,
        }
    }

    fn unique(at: Ticks, suffix: &str) -> Self {
        Self {
            text: format!("{}_{suffix}", inverted(at.inverted())).into(),
            at,
        }
    }

    /// The time of the entry.
    pub const fn at(&self) -> Ticks {
        self.at
    }

    /// The row key without the log's prefix.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the suffix is a count and the UUID of a handle, so that no other append has the id.
    pub(super) fn is_unique(&self) -> bool {
        let suffix = self.text[TICK_DIGITS..]
            .strip_prefix('_')
            .and_then(|suffix| suffix.split_once('_'));
        suffix.is_some_and(|(count, writer)| {
            count.len() == COUNT_DIGITS
                && writer.len() == WRITER_DIGITS
                && Uuid::try_parse(writer).is_ok()
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text
            .get(..TICK_DIGITS)
            .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
        let at = Ticks::from_inverted(digits.parse().ok()?)?;
        Some(Self {
            text: text.into(),
            at,
        })
    }
}

/// Inverted ticks as the Table design guide writes them: `{0:D19}`.
pub(super) fn inverted(ticks: i64) -> String {
    format!("{ticks:0TICK_DIGITS$}")
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for EntryId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| {
            Error::invalid_key(
                "RowKey",
                text,
                "the id of a log entry starts with inverted ticks in 19 digits",
            )
        })
    }
}

/// An entry that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged<E> {
    /// The id of the entry.
    pub id: EntryId,
    /// The time of the entry.
    pub at: Ticks,
    /// The value that was appended.
    pub value: E,
    /// The version that was read; `None` if the store returned none.
    pub etag: Option<ETag>,
}

impl<E: Record> Logged<E> {
    pub(super) fn read(entity: &Entity, prefix: &str) -> Result<Self> {
        let row = entity.key().row();
        let id = row
            .strip_prefix(prefix)
            .and_then(EntryId::parse)
            .ok_or_else(|| {
                let expected = format!("{prefix:?} and inverted ticks in 19 digits");
                Error::decode(
                    "log entry",
                    entity.key(),
                    "RowKey",
                    expected,
                    format!("{row:?}"),
                )
            })?;
        Ok(Self {
            at: id.at,
            id,
            value: E::read_from(entity)?,
            etag: entity.etag().cloned(),
        })
    }
}

/// The count of the first append. The count decreases, so that later appends have smaller keys.
const FIRST_COUNT: u64 = 0xFFFF_FFFF_FFFF;

/// Makes the ids of entries that one handle and its clones append.
#[derive(Debug)]
pub(super) struct IdGenerator {
    clock: Arc<dyn Clock>,
    /// The UUID in every id of this handle.
    writer: Uuid,
    /// The latest time that was given, in ticks.
    latest: AtomicI64,
    /// The number of ids that were given.
    appended: AtomicU64,
}

impl IdGenerator {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let writer = Uuid::new_v4();
        Self {
            clock,
            writer,
            latest: AtomicI64::new(0),
            appended: AtomicU64::new(0),
        }
    }

    /// The current time, but never earlier than the result of an earlier call.
    pub(super) fn now(&self) -> Ticks {
        let now = self.clock.now();
        // A clock that goes back gives no earlier times. The order is relaxed, because no other memory depends on the number.
        let latest = self.latest.fetch_max(now.get(), Ordering::Relaxed);
        Ticks::new(latest).map_or(now, |latest| latest.max(now))
    }

    /// A new id of this time.
    pub(super) fn next(&self, at: Ticks) -> EntryId {
        // The count decreases, as inverted ticks do: of two entries with one time the later one comes first.
        let count = FIRST_COUNT.saturating_sub(self.appended.fetch_add(1, Ordering::Relaxed));
        EntryId::unique(
            at,
            &format!("{count:0COUNT_DIGITS$x}_{}", self.writer.simple()),
        )
    }
}

impl Default for IdGenerator {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}
