use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Duration, DurationRound as _, NaiveDate, NaiveDateTime, Timelike as _, Utc};

use super::{KeyPart, KeyPartType, KeyText, KeyWriter};
use crate::model::{Ticks, ValueError};

/// An hour of a day in UTC: the key part of `{at:hour}`.
///
/// ```
/// use table_core::model::{Hour, KeyBuilder, PartFormat, Ticks};
/// let key = KeyBuilder::new("RowKey", "{at:hour}").part("at", &Hour::of(Ticks::MIN), PartFormat::PLAIN)?;
/// assert_eq!(key.finish(), "0001-01-01T00");
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(DateTime<Utc>);

impl Hour {
    /// Returns the hour that contains a time.
    pub fn of(time: Ticks) -> Self {
        let time = time.to_datetime();
        Self(time.duration_trunc(Duration::hours(1)).unwrap_or(time))
    }

    /// Returns the day of the hour.
    pub fn day(self) -> NaiveDate {
        self.0.date_naive()
    }

    /// Returns the start of the hour.
    pub const fn start(self) -> DateTime<Utc> {
        self.0
    }
}

/// `YYYY-MM-DDTHH`.
impl KeyPart for Hour {
    const WIDTH: Option<usize> = Some(13);
    const PART_TYPE: KeyPartType = KeyPartType::Hour;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.text(&self.to_string());
        Ok(())
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        parse(text.as_str()).ok_or_else(|| text.expected(FORM))
    }
}

const FORM: &str = "an hour as YYYY-MM-DDTHH";

/// Parses the only text of an hour.
fn parse(text: &str) -> Option<Hour> {
    let time = NaiveDateTime::parse_from_str(&format!("{text}:00"), "%Y-%m-%dT%H:%M").ok()?;
    let hour = Hour::of(Ticks::checked(time.and_utc()).ok()?);
    (hour.to_string() == text).then_some(hour)
}

/// `YYYY-MM-DDTHH`.
impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{:02}", self.day(), self.0.hour())
    }
}

impl FromStr for Hour {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse(text).ok_or_else(|| ValueError::new(FORM, format_args!("{text:?}")))
    }
}
