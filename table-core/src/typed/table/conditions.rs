use crate::model::EdmValue;
use crate::query::{Comparison, Filter, FilterNode, KeyBounds, Range};

/// What a query asks of keys, of types and of properties.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    keys: KeyBounds,
    filter: Option<Filter>,
}

impl Conditions {
    pub(super) const NONE: Self = Self { keys: KeyBounds::ALL, filter: None };

    pub(super) fn partitions(&mut self, partition: Range) {
        self.within(KeyBounds { partition, row: Range::ALL });
    }

    pub(super) fn rows(&mut self, row: Range) {
        self.within(KeyBounds { partition: Range::ALL, row });
    }

    pub(super) fn filter(&mut self, filter: Filter) {
        self.filter = Filter::and_maybe(self.filter.take(), Some(filter));
    }

    /// Adds the condition of a type: where it is a range of keys, it narrows the one there is, so
    /// that it costs no comparisons within.
    pub(super) fn of_type(&mut self, filter: Filter) {
        match filter.node() {
            FilterNode::And(a, b) if filter.is_bounded() => {
                self.of_type(a.clone());
                self.of_type(b.clone());
            }
            FilterNode::Compare { property, comparison, value } if is_range(property, *comparison, value) => {
                self.within(KeyBounds::of_comparison(property, *comparison, value, false));
            }
            _ => self.filter(filter),
        }
    }

    /// Whether a property is compared.
    pub(super) fn name(&self, property: &str) -> bool {
        let mut named = false;
        if let Some(filter) = &self.filter {
            filter.for_each_property(&mut |name| named |= name == property);
        }
        named
    }

    pub(super) fn into_filter(self) -> Option<Filter> {
        Filter::and_maybe(self.keys.to_filter(), self.filter)
    }

    fn within(&mut self, bounds: KeyBounds) {
        self.keys = std::mem::replace(&mut self.keys, KeyBounds::ALL).intersect(bounds);
    }
}

fn is_range(property: &str, comparison: Comparison, value: &EdmValue) -> bool {
    matches!(property, Filter::PARTITION_KEY | Filter::ROW_KEY)
        && comparison != Comparison::NotEqual
        && matches!(value, EdmValue::String(_))
}
