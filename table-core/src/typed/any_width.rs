use std::fmt;

use super::field::comparisons;
use super::{Comparable, Condition, Field, Operand};
use crate::model::EdmValue;
use crate::query::{Comparison, Filter};

/// A field whose property is an Int64 in some rows and an Int32 in others: see [`Field::any_width`].
pub struct AnyWidth<E, V, C>(Field<E, V, C>);

impl<E, V, C> Field<E, V, C> {
    /// The field for comparisons that find an Int32 as well as an Int64, in two comparisons each.
    ///
    /// For fields of `i64`, `u32` and `u64` in tables that other clients write too: Node and Python store small
    /// numbers as Int32, which such a field reads, but to the service an Int64 literal equals no Int32. Of
    /// other fields the comparisons stay as they are.
    ///
    /// ```
    /// use table_core::model::Entity;
    /// use table_core::typed::Field;
    /// struct Employee;
    /// const AGE: Field<Employee, u32> = Field::new("Age");
    /// let theirs = Entity::new("Sales", "223")?.with("Age", 41);
    /// assert!(!AGE.gt(40).into_filter()?.matches(&theirs));
    /// let filter = AGE.any_width().gt(40).into_filter()?;
    /// assert!(filter.matches(&theirs));
    /// assert_eq!(filter.to_string(), "Age gt 40L or Age gt 40");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub const fn any_width(self) -> AnyWidth<E, V, C> {
        AnyWidth(self)
    }
}

impl<E, V, C> AnyWidth<E, V, C> {
    comparisons!();

    /// A comparison with the operator as a value.
    #[must_use]
    pub fn compare(self, comparison: Comparison, value: impl Operand<V>) -> Condition<E>
    where
        C: Comparable<V>,
    {
        self.0.compare(comparison, value).map(widened)
    }
}

/// The same comparison, of Int32s too.
fn widened(filter: Filter) -> Filter {
    let Filter::Compare { property, comparison, value: EdmValue::Int64(value) } = &filter else {
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

impl<E, V, C> Clone for AnyWidth<E, V, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, V, C> Copy for AnyWidth<E, V, C> {}

impl<E, V, C> fmt::Debug for AnyWidth<E, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyWidth({:?})", self.0)
    }
}
