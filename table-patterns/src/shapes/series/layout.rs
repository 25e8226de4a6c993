//! Which row a slot is in, and under which name.

use std::collections::BTreeSet;

use table_core::model::Key;
use table_core::query::Filter;
use table_core::store::limits::{CUSTOM_PROPERTIES, ENTITY_BYTES, PROPERTY_NAME_CHARS};
use table_core::store::{Error, Result};

use super::{SlotCodec, SlotSet};

/// Properties of a row that are left for adapters, such as write ids.
const SPARE_PROPERTIES: usize = 4;
/// Bytes of a row that are left for its keys and for adapters.
const SPARE_BYTES: usize = 8 * 1024;
/// Bytes of a property of a row beside its value, with the longest name: the same for every set of slots, so that a set
/// that grows stays where it is.
const PROPERTY_BYTES: usize = 8 + 2 * PROPERTY_NAME_CHARS;
/// Digits of a row's number.
const DIGITS: usize = 6;
/// The most rows of a series.
const MOST_ROWS: usize = 1_000_000;

#[derive(Debug)]
pub(super) struct Layout<S> {
    pub(super) slots: S,
    per_row: usize,
    /// The properties of a slot.
    properties: usize,
}

impl<S: SlotSet> Layout<S> {
    /// As many slots to a row as fit, whatever their values.
    pub(super) fn new<V, C: SlotCodec<V>>(slots: S) -> Result<Self> {
        check_names::<S, V, C>(&slots)?;
        let properties = C::suffixes().len();
        if properties == 0 {
            return Err(Error::invalid_request(
                "a slot without properties would never be set: give the type a field",
            ));
        }
        let by_count = most(properties);
        let by_bytes = (ENTITY_BYTES - SPARE_BYTES) / (properties * PROPERTY_BYTES + C::max_bytes());
        match by_count.min(by_bytes) {
            0 => Err(Error::invalid_request("a slot that can be larger than a row: store it another way")),
            per_row => Self { slots, per_row, properties }.checked(),
        }
    }

    fn checked(self) -> Result<Self> {
        if self.rows() > MOST_ROWS {
            return Err(Error::limit("rows of a series", MOST_ROWS, self.rows()));
        }
        Ok(self)
    }

    pub(super) fn with_slots_per_row(self, slots: usize) -> Result<Self> {
        let most = most(self.properties);
        if slots == 0 || slots > most {
            return Err(Error::limit("slots in a row of a series", most, slots));
        }
        Self { per_row: slots, ..self }.checked()
    }

    pub(super) fn rows(&self) -> usize {
        self.slots.count().div_ceil(self.per_row)
    }

    /// The place of a slot.
    pub(super) fn index(&self, slot: &S::Slot) -> Result<usize> {
        let found = self.slots.index(slot).filter(|index| *index < self.slots.count());
        found.ok_or_else(|| Error::invalid_request(format!("{slot:?} is no slot of {:?}", self.slots)))
    }

    /// The row that holds a slot.
    pub(super) const fn row_of(&self, index: usize) -> usize {
        index / self.per_row
    }

    /// The slots of a row.
    pub(super) fn slots_of(&self, row: usize) -> std::ops::Range<usize> {
        row * self.per_row..self.slots.count().min((row + 1) * self.per_row)
    }

    /// The first row is the series' own; `!` sorts the others right behind it.
    pub(super) fn key(&self, series: &Key, row: usize) -> Result<Key> {
        match row {
            0 => Ok(series.clone()),
            row => Key::new(series.partition(), format!("{}!{row:0DIGITS$}", series.row())),
        }
    }

    /// The row with this key, if it is one of the series.
    pub(super) fn row_at(&self, series: &Key, key: &Key) -> Option<usize> {
        let number = match key.row().strip_prefix(series.row())? {
            "" => 0,
            rest => rest.strip_prefix('!')?.parse().ok()?,
        };
        (number < self.rows() && self.key(series, number).is_ok_and(|wanted| wanted == *key))
            .then_some(number)
    }

    /// The rows of a series that has several.
    pub(super) fn range(&self, series: &Key) -> Result<Filter> {
        let (first, last) = (self.key(series, 0)?, self.key(series, self.rows().saturating_sub(1))?);
        Ok(Filter::eq(Filter::PARTITION_KEY, series.partition())
            .and(Filter::ge(Filter::ROW_KEY, first.row()))
            .and(Filter::le(Filter::ROW_KEY, last.row())))
    }
}

/// The most slots of so many properties that a row has room for.
const fn most(properties: usize) -> usize {
    (CUSTOM_PROPERTIES - SPARE_PROPERTIES) / properties
}

/// Two properties of one name would be one value.
fn check_names<S: SlotSet, V, C: SlotCodec<V>>(slots: &S) -> Result<()> {
    let suffixes = C::suffixes();
    let mut names = BTreeSet::new();
    for index in 0..slots.count() {
        let slot = slots.name(index);
        for suffix in &suffixes {
            let name = format!("{slot}{suffix}");
            if !names.insert(name.clone()) {
                return Err(Error::invalid_name("slot", &name, "two slots have this property; rename one"));
            }
        }
    }
    Ok(())
}
