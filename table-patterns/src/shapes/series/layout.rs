//! The row of each slot.

use std::collections::BTreeSet;

use table_core::model::Key;
use table_core::query::Filter;
use table_core::store::limits::{CUSTOM_PROPERTIES, ENTITY_BYTES, PROPERTY_NAME_CHARS};
use table_core::store::{Error, Result};

use super::{SlotCodec, SlotSet};

/// The number of properties of a row that are left for adapters, such as write ids.
const SPARE_PROPERTIES: usize = 4;
/// The number of bytes of a row that are left for its keys and for adapters.
const SPARE_BYTES: usize = 8 * 1024;
/// The size of a property without its value and with the longest name, in bytes. The same for every set of slots:
/// otherwise the slots of a growing set would move to other rows.
const PROPERTY_BYTES: usize = 8 + 2 * PROPERTY_NAME_CHARS;
/// The number of digits of a row number.
const DIGITS: usize = 6;
/// The maximal number of rows of a series.
const MAX_ROWS: usize = 1_000_000;

/// The distribution of slots over rows: row `n` has the slots from `n * per_row`.
#[derive(Debug)]
pub(super) struct Layout<S> {
    pub(super) slots: S,
    per_row: usize,
    /// The number of properties of a slot.
    properties: usize,
}

impl<S: SlotSet> Layout<S> {
    /// A layout with as many slots per row as fit with the largest values.
    pub(super) fn new<V, C: SlotCodec<V>>(slots: S) -> Result<Self> {
        check_names::<S, V, C>(&slots)?;
        let properties = C::suffixes().len();
        if properties == 0 {
            return Err(Error::invalid_declaration(
                "the type of the values has no fields, so a slot would have no property: give the type a field",
            ));
        }
        let by_count = max_slots(properties);
        // By the largest values, so that a row with every slot can always be stored.
        let by_bytes =
            (ENTITY_BYTES - SPARE_BYTES) / (properties * PROPERTY_BYTES + C::max_bytes());
        match by_count.min(by_bytes) {
            0 => Err(Error::invalid_declaration(
                "the largest value of a slot does not fit into a row: use a smaller type, or a row per value",
            )),
            per_row => Self {
                slots,
                per_row,
                properties,
            }
            .checked(),
        }
    }

    fn checked(self) -> Result<Self> {
        if self.rows() > MAX_ROWS {
            return Err(Error::limit("rows of a series", MAX_ROWS, self.rows()));
        }
        Ok(self)
    }

    pub(super) fn with_slots_per_row(self, slots: usize) -> Result<Self> {
        let max = max_slots(self.properties);
        if slots == 0 || slots > max {
            return Err(Error::limit("slots in a row of a series", max, slots));
        }
        Self {
            per_row: slots,
            ..self
        }
        .checked()
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.slots.count().div_ceil(self.per_row)
    }

    /// The number of a slot, from 0.
    pub(super) fn index(&self, slot: &S::Slot) -> Result<usize> {
        let found = self
            .slots
            .index(slot)
            .filter(|index| *index < self.slots.count());
        found.ok_or_else(|| {
            Error::invalid_argument(format!("{slot:?} is not a slot of {:?}", self.slots))
        })
    }

    /// The number of the row that has a slot.
    pub(super) const fn row_of(&self, index: usize) -> usize {
        index / self.per_row
    }

    /// The numbers of a row's slots.
    pub(super) fn slots_of(&self, row: usize) -> std::ops::Range<usize> {
        row * self.per_row..self.slots.count().min((row + 1) * self.per_row)
    }

    /// The key of a row. Row 0 has the key of the series; `!` is the first legal character, so the other rows follow it.
    pub(super) fn key(&self, series: &Key, row: usize) -> Result<Key> {
        match row {
            0 => Ok(series.clone()),
            row => Key::new(
                series.partition(),
                format!("{}!{row:0DIGITS$}", series.row()),
            ),
        }
    }

    /// The number of the row with this key; `None` if the row does not belong to the series.
    pub(super) fn row_at(&self, series: &Key, key: &Key) -> Option<usize> {
        // The range of RowKeys may also have rows of other series, for example of one whose key begins with
        // this key and a `!`. The number has to give the key again.
        let number = match key.row().strip_prefix(series.row())? {
            "" => 0,
            rest => rest.strip_prefix('!')?.parse().ok()?,
        };
        (number < self.rows() && self.key(series, number).is_ok_and(|wanted| wanted == *key))
            .then_some(number)
    }

    /// The filter for all rows of a series.
    pub(super) fn range(&self, series: &Key) -> Result<Filter> {
        let (first, last) = (
            self.key(series, 0)?,
            self.key(series, self.rows().saturating_sub(1))?,
        );
        Ok(Filter::eq(Filter::PARTITION_KEY, series.partition())
            .and(Filter::ge(Filter::ROW_KEY, first.row()))
            .and(Filter::le(Filter::ROW_KEY, last.row())))
    }
}

/// The maximal number of slots in a row, for slots with this number of properties.
const fn max_slots(properties: usize) -> usize {
    (CUSTOM_PROPERTIES - SPARE_PROPERTIES) / properties
}

/// Refuses two properties with one name: they would be one value.
fn check_names<S: SlotSet, V, C: SlotCodec<V>>(slots: &S) -> Result<()> {
    let suffixes = C::suffixes();
    let mut names = BTreeSet::new();
    for index in 0..slots.count() {
        let slot = slots.name(index);
        for suffix in &suffixes {
            let name = format!("{slot}{suffix}");
            if !names.insert(name.clone()) {
                return Err(Error::invalid_name(
                    "slot",
                    &name,
                    "two slots have this property: rename one",
                ));
            }
        }
    }
    Ok(())
}
