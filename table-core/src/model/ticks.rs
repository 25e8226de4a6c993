use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, TimeDelta, Utc};

use super::ValueError;
use crate::error::{Error, Result};

/// A point in time as .NET ticks: 100 ns intervals since 0001-01-01T00:00:00Z.
///
/// This is the resolution of an `Edm.DateTime`. Converting from [`DateTime<Utc>`] drops finer precision, so
/// compare the converted values, or use [`Ticks::now`].
///
/// ```
/// use table_core::model::Ticks;
/// let epoch = chrono::DateTime::UNIX_EPOCH;
/// assert_eq!(Ticks::from(epoch).get(), 621_355_968_000_000_000);
/// assert_eq!(Ticks::from(epoch).to_datetime(), epoch);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(i64);

/// Ticks in a second.
pub(in crate::model) const PER_SECOND: i64 = 10_000_000;
impl Ticks {
    /// 0001-01-01T00:00:00Z, `DateTime.MinValue` of .NET.
    pub const MIN: Self = Self(0);
    /// 9999-12-31T23:59:59.9999999Z, `DateTime.MaxValue` of .NET.
    pub const MAX: Self = Self(3_155_378_975_999_999_999);
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self(621_355_968_000_000_000);

    /// Creates ticks from their number, if it is between [`Ticks::MIN`] and [`Ticks::MAX`].
    pub const fn new(ticks: i64) -> Option<Self> {
        if ticks < Self::MIN.0 || ticks > Self::MAX.0 {
            None
        } else {
            Some(Self(ticks))
        }
    }

    /// Returns the current time at the stored resolution.
    pub fn now() -> Self {
        Self::from(Utc::now())
    }

    /// Converts a time; precision finer than 100 ns is dropped.
    ///
    /// # Errors
    /// Fails if the year is not 1 to 9999. ([`From`] saturates instead.)
    pub fn checked(time: DateTime<Utc>) -> Result<Self, ValueError> {
        let fits = (1..=9999).contains(&time.year());
        fits.then(|| Self::from(time))
            .ok_or_else(|| ValueError::new("a year from 1 to 9999", time))
    }

    /// Returns the number of ticks.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Converts to a `chrono` time.
    pub fn to_datetime(self) -> DateTime<Utc> {
        let unix = self.0 - Self::UNIX_EPOCH.0;
        let nanos = unix.rem_euclid(PER_SECOND) * 100;
        DateTime::from_timestamp(unix.div_euclid(PER_SECOND), nanos as u32).unwrap_or_default()
    }

    /// Returns `DateTime.MaxValue` minus this time, in ticks: newer times give smaller numbers.
    pub const fn inverted(self) -> i64 {
        Self::MAX.0 - self.0
    }

    /// Reverses [`Ticks::inverted`].
    pub const fn from_inverted(inverted: i64) -> Option<Self> {
        if inverted < 0 || inverted > Self::MAX.0 {
            None
        } else {
            Some(Self(Self::MAX.0 - inverted))
        }
    }

    /// Returns the time without a time zone, for data recorded in local time.
    pub fn to_naive(self) -> NaiveDateTime {
        self.to_datetime().naive_utc()
    }
}

/// Saturates at [`Ticks::MIN`] and [`Ticks::MAX`]. Precision finer than 100 ns is dropped.
impl From<DateTime<Utc>> for Ticks {
    fn from(time: DateTime<Utc>) -> Self {
        let ticks = time
            .timestamp()
            .saturating_mul(PER_SECOND)
            .saturating_add(i64::from(time.timestamp_subsec_nanos() / 100))
            .saturating_add(Self::UNIX_EPOCH.0);
        Self(ticks.clamp(Self::MIN.0, Self::MAX.0))
    }
}

impl From<NaiveDateTime> for Ticks {
    fn from(time: NaiveDateTime) -> Self {
        Self::from(time.and_utc())
    }
}

impl From<Ticks> for DateTime<Utc> {
    fn from(ticks: Ticks) -> Self {
        ticks.to_datetime()
    }
}

/// Saturates at [`Ticks::MIN`] and [`Ticks::MAX`].
impl std::ops::Add<TimeDelta> for Ticks {
    type Output = Self;

    fn add(self, delta: TimeDelta) -> Self {
        let edge = if delta < TimeDelta::zero() {
            Self::MIN
        } else {
            Self::MAX
        };
        self.to_datetime()
            .checked_add_signed(delta)
            .map_or(edge, Self::from)
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Ticks in a day.
pub(crate) const PER_DAY: i64 = 86_400 * PER_SECOND;
/// Days from 0000-03-01, where the calendar below starts, to 0001-01-01.
const CALENDAR_START: i64 = 306;

// The text form `2013-01-01T05:15:00.1234567Z` is written and parsed without a general date parser, because every row
// contains at least one time.

impl Ticks {
    /// Returns the text form as ASCII bytes.
    ///
    /// ```
    /// use table_core::model::Ticks;
    /// assert_eq!(&Ticks::MAX.to_ascii(), b"9999-12-31T23:59:59.9999999Z");
    /// ```
    pub fn to_ascii(self) -> [u8; 28] {
        let (year, month, day) = civil(self.get() / PER_DAY);
        let time = self.get() % PER_DAY;
        let seconds = time / PER_SECOND;
        let mut out = *b"0000-00-00T00:00:00.0000000Z";
        digits(&mut out[0..4], year);
        digits(&mut out[5..7], month);
        digits(&mut out[8..10], day);
        digits(&mut out[11..13], seconds / 3600);
        digits(&mut out[14..16], seconds / 60 % 60);
        digits(&mut out[17..19], seconds % 60);
        digits(&mut out[20..27], time % PER_SECOND);
        out
    }
}

/// Prints the service's text form: `2013-01-01T05:15:00.1234567Z`.
impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ascii = self.to_ascii();
        f.write_str(std::str::from_utf8(&ascii).map_err(|_| fmt::Error)?)
    }
}

/// Parses RFC 3339 with any number of decimals (precision finer than 100 ns is dropped) and any offset.
///
/// ```
/// use table_core::model::Ticks;
/// let utc: Ticks = "2013-01-01T05:15:00Z".parse()?;
/// assert_eq!("2013-01-01T06:15:00.0+01:00".parse::<Ticks>()?, utc);
/// # Ok::<(), table_core::Error>(())
/// ```
impl FromStr for Ticks {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse_utc(text.as_bytes())
            .or_else(|| parse_with_offset(text))
            .ok_or_else(|| {
                Error::invalid_value(
                    "DateTime",
                    format!("{text:?} is not a time such as 2013-01-01T05:15:00Z"),
                )
            })
    }
}

/// Parses a time with the offset `Z`, the form that all services write.
fn parse_utc(text: &[u8]) -> Option<Ticks> {
    let (date_time, rest) = text.split_first_chunk::<19>()?;
    let fraction = match rest {
        [b'Z'] => 0,
        [b'.', digits @ .., b'Z'] => fraction(digits)?,
        _ => return None,
    };
    let separators = [4, 7, 10, 13, 16].map(|at: usize| date_time[at]);
    let number = |from: usize, to: usize| number(&date_time[from..to]);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_time = separators == *b"--T::" && hour < 24 && minute < 60 && second < 60;
    let days = days(year, month, day).filter(|_| is_time)?;
    // Cannot overflow: a year has four digits, and the last day of 9999 is far below the end of an `i64`.
    Ticks::new(days * PER_DAY + (hour * 3600 + minute * 60 + second) * PER_SECOND + fraction)
}

fn parse_with_offset(text: &str) -> Option<Ticks> {
    let time = DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc);
    (DateTime::from(Ticks::MIN)..=DateTime::from(Ticks::MAX))
        .contains(&time)
        .then(|| Ticks::from(time))
}

/// Converts decimals to ticks.
fn fraction(digits: &[u8]) -> Option<i64> {
    // A tick is the seventh decimal. Further decimals are dropped.
    let kept = digits.len().min(7);
    let valid = !digits.is_empty() && digits[kept..].iter().all(u8::is_ascii_digit);
    number(&digits[..kept])
        .filter(|_| valid)
        .map(|n| n * 10_i64.pow(7 - kept as u32))
}

/// Parses decimal digits. The callers pass at most 7 digits, so the number cannot overflow.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, d| {
        d.is_ascii_digit().then(|| n * 10 + i64::from(d - b'0'))
    })
}

/// Fills `out` with the last decimal digits of a number.
fn digits(out: &mut [u8], mut number: i64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Returns the days from 0001-01-01 to a date; `None` if the date does not exist.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32)?;
    Some(i64::from(chrono::Datelike::num_days_from_ce(&date)) - 1)
}

/// Returns the date `days` after 0001-01-01. Years start in March, so that the leap day is the last day.
/// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>
const fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + CALENDAR_START;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + carry, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_equals_chronos_and_survives_a_round_trip(ticks in 0..=Ticks::MAX.get()) {
            let ticks = Ticks::new(ticks).unwrap();
            let expected = ticks.to_datetime().format("%Y-%m-%dT%H:%M:%S").to_string();
            prop_assert!(ticks.to_string().starts_with(&expected));
            prop_assert_eq!(ticks.to_string().parse::<Ticks>().unwrap(), ticks);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = text.parse::<Ticks>();
        }
    }

    #[test]
    fn first_and_last_days_of_the_calendar() {
        assert_eq!(Ticks::MIN.to_string(), "0001-01-01T00:00:00.0000000Z");
        assert_eq!("0001-01-01T00:00:00Z".parse::<Ticks>().unwrap(), Ticks::MIN);
        assert_eq!(
            "9999-12-31T23:59:59.9999999999Z".parse::<Ticks>().unwrap(),
            Ticks::MAX
        );
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in [
            "",
            "2013-02-29T00:00:00Z",
            "2013-01-01",
            "2013-01-01T24:00:00Z",
            "2013-01-01T00:00:00.Z",
        ] {
            assert!(text.parse::<Ticks>().is_err(), "{text}");
        }
    }
}
