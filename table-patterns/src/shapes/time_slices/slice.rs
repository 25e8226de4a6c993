use std::fmt::Debug;
use std::ops::Range;

use chrono::{DateTime, Datelike, Months, NaiveDate, TimeDelta, Timelike, Utc};
use table_core::model::{TableName, Ticks};
use table_core::store::{Error, Result};

/// How time is cut into slices. Implement it for others than [`Every`].
pub trait Slicing: Debug + Send + Sync + 'static {
    /// The name of the slice that a moment is in: ASCII letters and digits, the same for every moment of a slice. None
    /// may be another with `G` and a number behind it, which name the generations of a slice.
    fn name(&self, at: Ticks) -> String;

    /// From when on and before when the slice of a name is; `None` if it is no slice's name.
    fn span(&self, name: &str) -> Option<Range<Ticks>>;
}

/// Slices of the calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// `2013010115`
    Hour,
    /// `20130101`
    Day,
    /// `201301`
    Month,
}

impl Every {
    fn start(self, name: &str) -> Option<DateTime<Utc>> {
        let digits = if self == Self::Hour { 10 } else { 8 };
        let whole = format!("{name}{}", if self == Self::Month { "01" } else { "" });
        if whole.len() != digits || !whole.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let part = |range: Range<usize>| whole[range].parse::<u32>().ok();
        let date = NaiveDate::from_ymd_opt(part(0..4)?.cast_signed(), part(4..6)?, part(6..8)?)?;
        let hour = if self == Self::Hour { part(8..10)? } else { 0 };
        Some(date.and_hms_opt(hour, 0, 0)?.and_utc())
    }
}

impl Slicing for Every {
    fn name(&self, at: Ticks) -> String {
        let at = at.to_datetime();
        let (year, month, day) = (at.year(), at.month(), at.day());
        match self {
            Self::Hour => format!("{year:04}{month:02}{day:02}{:02}", at.hour()),
            Self::Day => format!("{year:04}{month:02}{day:02}"),
            Self::Month => format!("{year:04}{month:02}"),
        }
    }

    fn span(&self, name: &str) -> Option<Range<Ticks>> {
        let start = self.start(name)?;
        let end = match self {
            Self::Hour => start + TimeDelta::hours(1),
            Self::Day => start + TimeDelta::days(1),
            Self::Month => start + Months::new(1),
        };
        Some(Ticks::from(start)..Ticks::from(end))
    }
}

/// A table of the family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The table.
    pub table: TableName,
    /// The slice's name.
    pub name: String,
    /// 0 for the first table of the slice, more where a name could not be used again yet.
    pub generation: u32,
    /// From when on.
    pub from: Ticks,
    /// Before when.
    pub before: Ticks,
}

impl Slice {
    /// The slice that a table of the family is, if it is one.
    pub(super) fn of_table(family: &str, slicing: &dyn Slicing, table: &TableName) -> Option<Self> {
        let (start, rest) = table.as_str().split_at_checked(family.len())?;
        if !start.eq_ignore_ascii_case(family) {
            return None;
        }
        let (name, generation) = match (slicing.span(rest), rest.rfind(['G', 'g'])) {
            (Some(_), _) | (None, None) => (rest, 0),
            (None, Some(at)) => (&rest[..at], rest[at + 1..].parse().ok().filter(|n| *n > 0)?),
        };
        let Range { start: from, end: before } = slicing.span(name)?;
        Some(Self { table: table.clone(), name: name.to_owned(), generation, from, before })
    }
}

/// What retention keeps, of the slices that have begun and ended. It never drops the present slice, nor one of the future,
/// which a clock that is ahead makes: drop those by [`drop_before`](super::TimeSlices::drop_before).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything that is younger than this, in whole slices. Not negative.
    Younger(TimeDelta),
    /// So many of the newest slices that are there, the present one among them, those of the future not.
    Newest(usize),
}

impl Keep {
    /// The slices to drop, of all there are in the order of time.
    pub(super) fn expired(self, slices: Vec<Slice>, now: Ticks) -> Result<Vec<Slice>> {
        let horizon = match self {
            Self::Younger(age) if age < TimeDelta::zero() => {
                return Err(Error::invalid_request(format!("an age of {age} would reach into the future")));
            }
            Self::Younger(age) => now + -age,
            Self::Newest(0) => now,
            Self::Newest(count) => {
                let begun = slices.iter().map(|slice| slice.from).filter(|from| *from <= now);
                let mut starts: Vec<Ticks> = begun.collect();
                starts.dedup();
                starts.into_iter().rev().nth(count - 1).unwrap_or(Ticks::MIN)
            }
        };
        let mut expired = slices;
        expired.retain(|slice| slice.before <= horizon.min(now));
        Ok(expired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_spans_agree() {
        for (every, name) in [(Every::Hour, "2012022923"), (Every::Day, "20121231"), (Every::Month, "201212")]
        {
            let span = every.span(name).unwrap();
            let last = Ticks::new(span.end.get() - 1).unwrap();
            assert_eq!((every.name(span.start), every.name(last)), (name.to_owned(), name.to_owned()));
            assert_ne!(every.name(span.end), name);
        }
        for name in ["", "2013", "20130229", "2013012", "201313", "2013010124", "2013010x"] {
            assert!([Every::Hour, Every::Day, Every::Month].iter().all(|every| every.span(name).is_none()));
        }
    }

    #[test]
    fn tables_of_the_family_are_known_by_their_names() {
        let of = |name: &str| Slice::of_table("Logins", &Every::Day, &TableName::new(name).unwrap());
        assert_eq!(of("Logins20130101").map(|s| s.generation), Some(0));
        assert_eq!(of("logins20130101g12").map(|s| s.generation), Some(12));
        for other in ["Logins", "LoginsArchive", "Logins201301", "Logins20130101G0", "Other20130101"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
