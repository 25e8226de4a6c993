use std::fmt::Debug;

use chrono::{Datelike, NaiveDate};
use table_core::store::{Error, Result};

/// A fixed set of slots, in order: what a series has a value for.
///
/// [`Hours`], [`Days`], [`Numbered`] and [`Enumerated`] are such sets; implement it for others. A set may grow at its
/// end: the place and the name of a slot, which is its property's, must not change once data is stored.
pub trait SlotSet: Debug + Send + Sync + 'static {
    /// A slot.
    type Slot: Debug + Send;

    /// How many slots there are.
    fn count(&self) -> usize;

    /// The place of a slot, from 0; `None` if it is not in the set.
    fn index(&self, slot: &Self::Slot) -> Option<usize>;

    /// The slot at a place below [`count`](Self::count).
    fn slot(&self, index: usize) -> Self::Slot;

    /// The property of the slot at a place.
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
    /// The days of a year.
    ///
    /// # Errors
    /// The calendar has no such year.
    pub fn of_year(year: i32) -> Result<Self> {
        let first = NaiveDate::from_ymd_opt(year, 1, 1);
        let first = first.ok_or_else(|| Error::invalid_request(format!("there is no year {year}")))?;
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

/// Slots with numbers from 0: `M0` … `M1439` for the minutes of a day. There may be more later, which changes the names
/// of none.
///
/// ```
/// use table_patterns::series::{Numbered, SlotSet};
///
/// assert_eq!(Numbered::new("M", 1440).name(7), "M7");
/// assert_eq!(Numbered::new("M", 1440).with_digits(4).name(7), "M0007");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    letter: &'static str,
    count: usize,
    digits: usize,
}

impl Numbered {
    /// So many slots, whose names start with a text.
    pub const fn new(letter: &'static str, count: usize) -> Self {
        Self { letter, count, digits: 1 }
    }

    /// At least so many digits in each name, with zeros in front: for rows that other programs read. Never change it
    /// once data is stored.
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
        format!("{}{index:0digits$}", self.letter)
    }
}

/// The values of an enumeration, each with the name of its property. Add new ones at the end.
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
    /// The values in order, with their names.
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
