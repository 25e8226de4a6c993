use std::fmt;

use chrono::{DateTime, Datelike, NaiveDateTime, TimeDelta, Utc};

use super::ValueError;

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

pub(super) const PER_SECOND: i64 = 10_000_000;
const UNIX_EPOCH: i64 = 621_355_968_000_000_000;

impl Ticks {
    /// 0001-01-01T00:00:00Z, `DateTime.MinValue` of .NET.
    pub const MIN: Self = Self(0);
    /// 9999-12-31T23:59:59.9999999Z, `DateTime.MaxValue` of .NET.
    pub const MAX: Self = Self(3_155_378_975_999_999_999);

    /// Creates ticks from their number, if it is between [`Ticks::MIN`] and [`Ticks::MAX`].
    pub const fn new(ticks: i64) -> Option<Self> {
        if ticks < Self::MIN.0 || ticks > Self::MAX.0 { None } else { Some(Self(ticks)) }
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
        fits.then(|| Self::from(time)).ok_or_else(|| ValueError::new("a year from 1 to 9999", time))
    }

    /// Returns the number of ticks.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Converts to a `chrono` time.
    pub fn to_datetime(self) -> DateTime<Utc> {
        let unix = self.0 - UNIX_EPOCH;
        let nanos = unix.rem_euclid(PER_SECOND) * 100;
        DateTime::from_timestamp(unix.div_euclid(PER_SECOND), nanos as u32).unwrap_or_default()
    }

    /// Returns `DateTime.MaxValue` minus this time, in ticks: newer times give smaller numbers.
    pub const fn inverted(self) -> i64 {
        Self::MAX.0 - self.0
    }

    /// Reverses [`Ticks::inverted`].
    pub const fn from_inverted(inverted: i64) -> Option<Self> {
        if inverted < 0 || inverted > Self::MAX.0 { None } else { Some(Self(Self::MAX.0 - inverted)) }
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
            .saturating_add(UNIX_EPOCH);
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
        let edge = if delta < TimeDelta::zero() { Self::MIN } else { Self::MAX };
        self.to_datetime().checked_add_signed(delta).map_or(edge, Self::from)
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
