//! The smallest or largest values of a property in a summary, with the number of entities of each.
//!
//! A row has up to [`KEPT`] values. So the extreme stays right when the entity that has it is deleted: the next value takes
//! its place. Only when all kept values are gone and others exist is the extreme unknown; then the entities must be read.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use table_core::model::{EdmValue, Ticks, ValueRef};

/// The number of values that a row keeps.
const KEPT: usize = 8;

/// A value that has an order with the others of its property.
#[derive(Clone, Copy, Debug)]
enum Extreme {
    Integer(i64),
    Double(f64),
    Time(Ticks),
}

impl Extreme {
    fn of(value: ValueRef<'_>) -> Option<Self> {
        match value {
            ValueRef::Int32(value) => Some(Self::Integer(value.into())),
            ValueRef::Int64(value) => Some(Self::Integer(value)),
            ValueRef::Double(value) if value.is_finite() => Some(Self::Double(value)),
            ValueRef::DateTime(value) => Some(Self::Time(value)),
            _ => None,
        }
    }

    fn to_value(self) -> EdmValue {
        match self {
            Self::Integer(value) => value.into(),
            Self::Double(value) => value.into(),
            Self::Time(value) => value.into(),
        }
    }

    /// The order of numbers is that of the Double values, and of integers among themselves exact.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Time(a), Self::Time(b)) => a.cmp(b),
            (Self::Time(_), _) => Ordering::Greater,
            (_, Self::Time(_)) => Ordering::Less,
            // A number is found again under the type in which it was added.
            (Self::Integer(a), Self::Double(b)) => (*a as f64).total_cmp(b).then(Ordering::Less),
            (Self::Double(a), Self::Integer(b)) => {
                a.total_cmp(&(*b as f64)).then(Ordering::Greater)
            }
            (Self::Double(a), Self::Double(b)) => a.total_cmp(b),
        }
    }
}

impl fmt::Display for Extreme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            // `1.0` and not `1`, which is an integer.
            Self::Double(value) => fmt::Debug::fmt(value, f),
            Self::Time(value) => value.fmt(f),
        }
    }
}

impl FromStr for Extreme {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // Each text has one reading: a Double is printed with a point or an exponent, and a time with colons.
        let integer = text.parse().ok().map(Self::Integer);
        let double = || {
            text.parse()
                .ok()
                .filter(|value: &f64| value.is_finite())
                .map(Self::Double)
        };
        integer
            .or_else(double)
            .or_else(|| text.parse().ok().map(Self::Time))
            .ok_or(())
    }
}

/// Which end of the order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Smallest,
    Largest,
}

/// The values at one end of the order.
#[derive(Clone, Debug)]
pub(super) struct Extremes {
    end: End,
    /// Different values from the end on, each with the number of entities.
    values: Vec<(Extreme, u64)>,
    /// Whether there may be entities with values behind the last.
    has_more: bool,
}

impl Extremes {
    pub(super) const fn new(end: End) -> Self {
        Self {
            end,
            values: Vec::new(),
            has_more: false,
        }
    }

    /// The extremes of one entity; `None` if the value has no order.
    pub(super) fn of(end: End, value: ValueRef<'_>) -> Option<Self> {
        Some(Self {
            values: vec![(Extreme::of(value)?, 1)],
            ..Self::new(end)
        })
    }

    /// Parses `1000*3,1100*1,+`: values and their numbers, and a plus sign if there may be more.
    pub(super) fn parse(end: End, text: &str) -> Option<Self> {
        let mut extremes = Self::new(end);
        for part in text.split(',').filter(|part| !part.is_empty()) {
            if part == "+" {
                extremes.has_more = true;
                continue;
            }
            let (value, count) = part.split_once('*')?;
            extremes
                .values
                .push((value.parse().ok()?, count.parse().ok()?));
        }
        Some(extremes)
    }

    /// The extreme; `None` if no entity has a value, or if the extreme is unknown.
    pub(super) fn extreme(&self) -> Option<EdmValue> {
        self.values.first().map(|(value, _)| value.to_value())
    }

    /// Whether the row has lost the extreme.
    pub(super) const fn is_unknown(&self) -> bool {
        self.values.is_empty() && self.has_more
    }

    /// Adds the values of other entities, or removes them.
    pub(super) fn add(&mut self, other: &Self, sign: i64) {
        for (value, count) in &other.values {
            if sign >= 0 {
                self.insert(*value, *count);
            } else {
                self.remove(*value, *count);
            }
        }
        if sign >= 0 && other.has_more {
            // `other` may have values after its last stored value, so the values of `self` beyond it may not be the next ones.
            if let Some((last, _)) = other.values.last() {
                let last = *last;
                self.values
                    .retain(|(value, _)| order(self.end, value, &last) != Ordering::Greater);
            } else {
                self.values.clear();
            }
            self.has_more = true;
        }
    }

    fn place(&self, value: &Extreme) -> Result<usize, usize> {
        self.values
            .binary_search_by(|(known, _)| order(self.end, known, value))
    }

    fn insert(&mut self, value: Extreme, count: u64) {
        match self.place(&value) {
            Ok(place) => self.values[place].1 = self.values[place].1.saturating_add(count),
            // Behind the last value that is known, where others may be.
            Err(place) if place == self.values.len() && self.has_more => {}
            Err(place) => {
                self.values.insert(place, (value, count));
                if self.values.len() > KEPT {
                    self.values.pop();
                    self.has_more = true;
                }
            }
        }
    }

    fn remove(&mut self, value: Extreme, count: u64) {
        match self.place(&value) {
            Ok(place) if self.values[place].1 > count => self.values[place].1 -= count,
            Ok(place) if self.values[place].1 == count => drop(self.values.remove(place)),
            Err(place) if place == self.values.len() && self.has_more => {}
            // The row does not have the entity that is removed, so nothing is known of it any more.
            _ => (self.values, self.has_more) = (Vec::new(), true),
        }
    }

    /// Whether the values are a start of the values of a recount.
    pub(super) fn agrees_with(&self, recounted: &Self) -> bool {
        let is_same =
            |(a, b): (&(Extreme, u64), &(Extreme, u64))| a.1 == b.1 && a.0.compare(&b.0).is_eq();
        let is_start = self.values.len() <= recounted.values.len()
            && self.values.iter().zip(&recounted.values).all(is_same);
        let is_whole = self.values.len() == recounted.values.len() && !recounted.has_more;
        is_start && !self.is_unknown() && (self.has_more || is_whole)
    }
}

fn order(end: End, a: &Extreme, b: &Extreme) -> Ordering {
    match end {
        End::Smallest => a.compare(b),
        End::Largest => b.compare(a),
    }
}

impl fmt::Display for Extremes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (value, count)) in self.values.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{value}*{count}")?;
        }
        match (self.has_more, self.values.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => f.write_str("+"),
            (true, false) => f.write_str(",+"),
        }
    }
}

impl PartialEq for Extremes {
    fn eq(&self, other: &Self) -> bool {
        self.end == other.end && self.to_string() == other.to_string()
    }
}

impl Eq for Extremes {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(end: End, values: &[i64]) -> Extremes {
        let mut all = Extremes::new(end);
        values
            .iter()
            .for_each(|value| all.insert(Extreme::Integer(*value), 1));
        all
    }

    #[test]
    fn values_follow_deletes_and_are_unknown_when_all_kept_are_gone() {
        let mut all = of(End::Smallest, &(0..20).rev().collect::<Vec<_>>());
        assert_eq!(all.to_string(), "0*1,1*1,2*1,3*1,4*1,5*1,6*1,7*1,+");
        for value in 0..8 {
            assert_eq!(all.extreme(), Some(value.into()));
            all.remove(Extreme::Integer(value), 1);
        }
        assert!(all.is_unknown() && all.extreme().is_none());
        all.insert(Extreme::Integer(3), 1);
        assert!(all.is_unknown(), "a smaller value may exist");
        let mut few = of(End::Largest, &[1, 3, 3]);
        assert_eq!(few.to_string(), "3*2,1*1");
        few.remove(Extreme::Integer(7), 1);
        assert!(few.is_unknown(), "a removed value that was never added");
    }

    #[test]
    fn texts_are_read_back() {
        let now: Ticks = "2013-01-01T05:15:00.1234567Z".parse().unwrap();
        for value in [
            ValueRef::Int32(-3),
            ValueRef::Int64(i64::MAX),
            ValueRef::Double(1e300),
            ValueRef::Double(2.0),
            ValueRef::DateTime(now),
        ] {
            let one = Extremes::of(End::Smallest, value).unwrap();
            assert_eq!(
                Extremes::parse(End::Smallest, &one.to_string()).unwrap(),
                one,
                "{one}"
            );
        }
        assert!(Extremes::of(End::Smallest, ValueRef::Double(f64::NAN)).is_none());
        assert!(Extremes::of(End::Smallest, ValueRef::String("1")).is_none());
        assert!(Extremes::parse(End::Smallest, "one*1").is_none());
        assert_eq!(
            Extremes::parse(End::Smallest, "+").unwrap().to_string(),
            "+"
        );
    }

    proptest! {
        /// After any inserts and deletes the extreme is right or unknown, and agrees with a recount unless it is unknown.
        #[test]
        fn extremes_agree_with_a_recount(steps in prop::collection::vec((any::<bool>(), -12i64..12), 0..120)) {
            for end in [End::Smallest, End::Largest] {
                let (mut kept, mut all) = (Extremes::new(end), Vec::new());
                for (insert, value) in &steps {
                    if *insert {
                        all.push(*value);
                        kept.insert(Extreme::Integer(*value), 1);
                    } else if let Some(at) = all.iter().position(|known| known == value) {
                        all.swap_remove(at);
                        kept.remove(Extreme::Integer(*value), 1);
                    }
                    let wanted = if end == End::Smallest { all.iter().min() } else { all.iter().max() };
                    if !kept.is_unknown() {
                        prop_assert_eq!(kept.extreme(), wanted.map(|value| (*value).into()));
                        prop_assert!(kept.agrees_with(&of(end, &all)), "{} {}", kept, of(end, &all));
                    }
                    prop_assert_eq!(Extremes::parse(end, &kept.to_string()).unwrap().to_string(), kept.to_string());
                }
            }
        }
    }
}
