//! Slices of time: their names, beginnings and ends, and which of them a policy keeps.

use std::fmt::Debug;
use std::ops::Range;

use chrono::{DateTime, Datelike, Months, NaiveDate, TimeDelta, Timelike, Utc};
use table_core::model::{TableName, Ticks};
use table_core::store::{Error, Result};

/// Divides time into slices. [`Every`] implements it; implement it for other divisions.
pub trait Slicing: Debug + Send + Sync + 'static {
    /// The name of the slice of a time: ASCII letters and digits, the same for every time of a slice.
    ///
    /// No name may be another name followed by `G` and a number: such names are generations of a slice.
    fn name(&self, at: Ticks) -> String;

    /// The period of the slice with this name: its start, and its end, which is not in the slice. `None` if no slice has the name.
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
    /// The start of the slice with this name.
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Slice {
    /// The table.
    pub table: TableName,
    /// The name of the slice.
    pub name: String,
    /// 0 for the first table of the slice, more for tables that were created while that name could not be used.
    pub generation: u32,
    /// The start of the slice.
    pub from: Ticks,
    /// The end of the slice, which is not in the slice.
    pub before: Ticks,
}

impl Slice {
    /// The slice of a table; `None` if the table does not belong to the family.
    pub(super) fn of_table(family: &str, slicing: &dyn Slicing, table: &TableName) -> Option<Self> {
        let (start, rest) = table.as_str().split_at_checked(family.len())?;
        if !start.eq_ignore_ascii_case(family) {
            return None;
        }
        let (name, generation) = match (slicing.span(rest), rest.rfind(['G', 'g'])) {
            (Some(_), _) | (None, None) => (rest, 0),
            (None, Some(at)) => (&rest[..at], rest[at + 1..].parse().ok().filter(|n| *n > 0)?),
        };
        let Range {
            start: from,
            end: before,
        } = slicing.span(name)?;
        Some(Self {
            table: table.clone(),
            name: name.to_owned(),
            generation,
            from,
            before,
        })
    }
}

/// The slices that a retention policy keeps.
///
/// A policy never drops the present slice or a slice of the future, which a wrong clock may have made. Drop those with
/// [`drop_before`](super::TimeSlices::drop_before).
///
/// An example of dropping slices is at [`TimeSlices`](super::TimeSlices).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All slices with a time that is younger than this age, which must not be negative.
    Younger(TimeDelta),
    /// This number of the newest existing slices. The present slice counts; slices of the future do not.
    Newest(usize),
}

impl Keep {
    /// The slices to drop, out of all slices in the order of time.
    pub(super) fn expired(self, slices: Vec<Slice>, now: Ticks) -> Result<Vec<Slice>> {
        let horizon = match self {
            Self::Younger(age) if age < TimeDelta::zero() => {
                return Err(Error::invalid_argument(format!(
                    "the age {age} is negative and would reach into the future: use an age of zero or more"
                )));
            }
            Self::Younger(age) => now + -age,
            Self::Newest(0) => now,
            Self::Newest(count) => {
                let begun = slices
                    .iter()
                    .map(|slice| slice.from)
                    .filter(|from| *from <= now);
                let mut starts: Vec<Ticks> = begun.collect();
                // Generations of one period begin at one time: they count as one.
                starts.dedup();
                starts
                    .into_iter()
                    .rev()
                    .nth(count - 1)
                    .unwrap_or(Ticks::MIN)
            }
        };
        let mut expired = slices;
        // Never a slice whose period has not ended, whatever the horizon: entities may still be written to
        // it.
        expired.retain(|slice| slice.before <= horizon.min(now));
        Ok(expired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_contains_the_times_of_its_name() {
        for (every, name) in [
            (Every::Hour, "2012022923"),
            (Every::Day, "20121231"),
            (Every::Month, "201212"),
        ] {
            let span = every.span(name).unwrap();
            let last = Ticks::new(span.end.get() - 1).unwrap();
            assert_eq!(every.name(span.start), name);
            assert_eq!(every.name(last), name);
            assert_ne!(every.name(span.end), name);
        }
        for name in [
            "",
            "2013",
            "20130229",
            "2013012",
            "201313",
            "2013010124",
            "2013010x",
        ] {
            assert!(
                [Every::Hour, Every::Day, Every::Month]
                    .iter()
                    .all(|every| every.span(name).is_none())
            );
        }
    }

    #[test]
    fn names_of_tables_give_slice_and_generation() {
        let of =
            |name: &str| Slice::of_table("Logins", &Every::Day, &TableName::new(name).unwrap());
        assert_eq!(of("Logins20130101").map(|s| s.generation), Some(0));
        assert_eq!(of("logins20130101g12").map(|s| s.generation), Some(12));
        for other in [
            "Logins",
            "LoginsArchive",
            "Logins201301",
            "Logins20130101G0",
            "Other20130101",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
