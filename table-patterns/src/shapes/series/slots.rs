//! The slots of a series: their names and order.

use std::fmt::Debug;

use chrono::{Datelike, NaiveDate};
use table_core::store::{Error, Result};

/// An ordered set of slots. A series has at most one value per slot.
///
/// [`Hours`], [`Days`], [`Numbered`] and [`Enumerated`] implement it; implement it for other sets. A set may grow at its
/// end. Once data is stored, the number and the name of a slot must not change: the name is the name of the property.
pub trait SlotSet: Debug + Send + Sync + 'static {
    /// The type of a slot, such as an hour.
    type Slot: Debug + Send;

    /// The number of slots.
    fn count(&self) -> usize;

    /// The number of a slot, from 0; `None` if the slot is not in the set.
    fn index(&self, slot: &Self::Slot) -> Option<usize>;

    /// The slot with a number below [`count`](Self::count).
    fn slot(&self, index: usize) -> Self::Slot;

    /// The name of the property of the slot with this number.
    fn name(&self, index: usize) -> String;
}

/// The hours 0 to 23 of a day: `H00` … `H23`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hours;

impl SlotSet for Hours {
    type Slot = u32;

    fn count(&self) -> usize {
        24
    }

    fn index(&self, hour: &u32) -> Option<usize> {
        (*hour < 24).then_some(*hour as usize)
    }

    fn slot(&self, index: usize) -> u32 {
        index as u32
    }

    fn name(&self, index: usize) -> String {
        format!("H{index:02}")
    }
}

/// The 365 or 366 days of a year: `D001` … `D366`.
#[derive(Clone, Copy, Debug)]
pub struct Days {
    first: NaiveDate,
}

impl Days {
    /// The days of this year.
    ///
    /// # Errors
    /// The calendar does not have the year.
    pub fn of_year(year: i32) -> Result<Self> {
        let first = NaiveDate::from_ymd_opt(year, 1, 1);
        let first = first
            .ok_or_else(|| Error::invalid_argument(format!("the calendar has no year {year}")))?;
        Ok(Self { first })
    }
}

impl SlotSet for Days {
    type Slot = NaiveDate;

    fn count(&self) -> usize {
        if self.first.leap_year() { 366 } else { 365 }
    }

    fn index(&self, day: &NaiveDate) -> Option<usize> {
        (day.year() == self.first.year()).then_some(day.ordinal0() as usize)
    }

    fn slot(&self, index: usize) -> NaiveDate {
        self.first.with_ordinal0(index as u32).unwrap_or(self.first)
    }

    fn name(&self, index: usize) -> String {
        format!("D{:03}", index + 1)
    }
}

/// Slots numbered from 0: `M0` … `M1439` for the minutes of a day. A later version may have more slots; the names stay.
///
/// ```
/// use table_patterns::series::{Numbered, SlotSet};
///
/// assert_eq!(Numbered::new("M", 1440).name(7), "M7");
/// assert_eq!(Numbered::new("M", 1440).with_digits(4).name(7), "M0007");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    prefix: &'static str,
    count: usize,
    digits: usize,
}

impl Numbered {
    /// A set of `count` slots, whose names start with a prefix.
    pub const fn new(prefix: &'static str, count: usize) -> Self {
        Self {
            prefix,
            count,
            digits: 1,
        }
    }

    /// Sets the minimal number of digits in a name, with leading zeros: for rows of other programs. Do not change the
    /// number once data is stored.
    #[must_use]
    pub const fn with_digits(self, digits: usize) -> Self {
        Self { digits, ..self }
    }
}

impl SlotSet for Numbered {
    type Slot = usize;

    fn count(&self) -> usize {
        self.count
    }

    fn index(&self, number: &usize) -> Option<usize> {
        (*number < self.count).then_some(*number)
    }

    fn slot(&self, index: usize) -> usize {
        index
    }

    fn name(&self, index: usize) -> String {
        let digits = self.digits;
        format!("{}{index:0digits$}", self.prefix)
    }
}

/// The values of an enumeration, each with the name of its property. Add new values at the end.
///
/// ```
/// use table_patterns::series::{Enumerated, SlotSet};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Shift {
///     Early,
///     Late,
/// }
///
/// let shifts = Enumerated::new(&[(Shift::Early, "Early"), (Shift::Late, "Late")]);
/// assert_eq!(shifts.index(&Shift::Late), Some(1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Enumerated<T: 'static>(&'static [(T, &'static str)]);

impl<T> Enumerated<T> {
    /// The values in order, each with its property name.
    pub const fn new(values: &'static [(T, &'static str)]) -> Self {
        Self(values)
    }
}

impl<T: Copy + Debug + PartialEq + Send + Sync> SlotSet for Enumerated<T> {
    type Slot = T;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn index(&self, slot: &T) -> Option<usize> {
        self.0.iter().position(|(value, _)| value == slot)
    }

    fn slot(&self, index: usize) -> T {
        self.0[index].0
    }

    fn name(&self, index: usize) -> String {
        self.0[index].1.to_owned()
    }
}
