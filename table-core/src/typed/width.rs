use std::fmt;

use super::field::comparisons;
use super::{Comparable, Condition, Field, Operand};
use crate::model::EdmValue;
use crate::query::{Comparison, Filter, FilterNode};

/// A field whose integers all have the width that its type is stored with: see [`Field::exact_width`].
pub struct ExactWidth<E, V, C>(pub(super) Field<E, V, C>);

impl<E, V, C> ExactWidth<E, V, C> {
    comparisons!();

    /// A comparison with the operator as a value.
    #[must_use]
    pub fn compare(self, comparison: Comparison, value: impl Operand<V>) -> Condition<E>
    where
        C: Comparable<V>,
    {
        self.0.compare_stored(comparison, value)
    }
}

/// The same comparison, of Int32s too: a typed read takes an Int32 for an Int64, so a filter must find it.
pub(super) fn widened(filter: Filter) -> Filter {
    let FilterNode::Compare { property, comparison, value: EdmValue::Int64(value) } = filter.node() else {
        return filter;
    };
    let Some(narrow) = narrow(property, *comparison, *value) else { return filter };
    // An Int32 differs from every Int64 literal, as its type does.
    if *comparison == Comparison::NotEqual { filter.and(narrow) } else { filter.or(narrow) }
}

/// What an Int32 is to be compared with; `None` where the Int64 literal says already what is true of all of them.
fn narrow(property: &str, comparison: Comparison, value: i64) -> Option<Filter> {
    use Comparison::{GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual};
    match (i32::try_from(value), comparison) {
        (Ok(value), _) => Some(Filter::compare(property, comparison, value)),
        (Err(_), LessThan | LessThanOrEqual) if value > 0 => Some(Filter::le(property, i32::MAX)),
        (Err(_), GreaterThan | GreaterThanOrEqual) if value < 0 => Some(Filter::ge(property, i32::MIN)),
        (Err(_), _) => None,
    }
}

impl<E, V, C> Clone for ExactWidth<E, V, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, V, C> Copy for ExactWidth<E, V, C> {}

impl<E, V, C> fmt::Debug for ExactWidth<E, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExactWidth({:?})", self.0)
    }
}
