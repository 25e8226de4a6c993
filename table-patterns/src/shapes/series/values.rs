use std::sync::Arc;

use super::SlotSet;
use super::layout::Layout;

/// A series as it was read.
#[derive(Debug)]
pub struct Series<S, V> {
    pub(super) layout: Arc<Layout<S>>,
    pub(super) values: Vec<Option<V>>,
}

impl<S: SlotSet, V> Series<S, V> {
    /// The value of a slot; `None` if it is missing, or no slot.
    pub fn get(&self, slot: &S::Slot) -> Option<&V> {
        self.values.get(self.layout.slots.index(slot)?)?.as_ref()
    }

    /// The values in the order of slots, missing ones included.
    pub fn values(&self) -> &[Option<V>] {
        &self.values
    }

    /// The slots that have a value, with it.
    pub fn iter(&self) -> impl Iterator<Item = (S::Slot, &V)> {
        let slots = self.values.iter().enumerate();
        slots.filter_map(|(index, value)| Some((self.layout.slots.slot(index), value.as_ref()?)))
    }

    /// Whether no slot has a value.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }
}

/// By the place of a slot.
impl<S, V> std::ops::Index<usize> for Series<S, V> {
    type Output = Option<V>;

    fn index(&self, index: usize) -> &Option<V> {
        &self.values[index]
    }
}
