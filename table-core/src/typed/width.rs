use std::fmt;

use super::field::comparisons;
use super::{Comparable, Condition, Field, Operand};
use crate::model::EdmValue;
use crate::query::{Comparison, Filter, FilterNode};

/// A field whose comparisons match only values of the stored type of `V`: see [`Field::exact_width`].
pub struct ExactWidth<E, V, C>(pub(super) Field<E, V, C>);

impl<E, V, C> ExactWidth<E, V, C> {
    comparisons!();

    /// Compares with an operator that is given as a value.
    #[must_use]
    pub fn compare(self, comparison: Comparison, value: impl Operand<V>) -> Condition<E>
    where
        C: Comparable<V>,
    {
        self.0.compare_stored(comparison, value)
    }
}

/// Extends a comparison to integers of other widths: a typed read accepts an Int32 for an Int64, and an integer for a
/// Double, so a filter must find them.
pub(super) fn widened(filter: Filter) -> Filter {
    let FilterNode::Compare {
        property,
        comparison,
        value,
    } = filter.node()
    else {
        return filter;
    };
    let (comparison, others) = match value {
        EdmValue::Int64(value) => (*comparison, int32_for_int64(property, *comparison, *value)),
        EdmValue::Double(value) => (
            *comparison,
            integers_for_double(property, *comparison, *value),
        ),
        _ => return filter,
    };
    let Some(others) = others else { return filter };
    // A property of another type differs from every literal.
    if comparison == Comparison::NotEqual {
        filter.and(others)
    } else {
        filter.or(others)
    }
}

/// Returns the comparison of integers for a comparison with a Double; `None` if the Double literal alone gives the right
/// result for every integer.
///
/// The service compares an Int32 literal with Int64 and Double values too. So the bound is rounded to the side where every
/// number between the Double and the integer matches, too. Of the Int64 values that a Double cannot represent exactly,
/// a read accepts none, and the comparison need not find them.
fn integers_for_double(property: &str, comparison: Comparison, value: f64) -> Option<Filter> {
    if value.is_nan() {
        return None;
    }
    // Outside of the range of all integers, and small enough to add 1 to it as an i128.
    let near = value.clamp(-1e19, 1e19);
    let (floor, ceil) = (near.floor() as i128, near.ceil() as i128);
    match comparison {
        Comparison::Equal | Comparison::NotEqual if floor != ceil || near != value => None,
        Comparison::Equal | Comparison::NotEqual => {
            match (i32::try_from(floor), i64::try_from(floor)) {
                (Ok(value), _) => Some(Filter::compare(property, comparison, value)),
                (Err(_), Ok(value)) => Some(Filter::compare(property, comparison, value)),
                (Err(_), Err(_)) => None,
            }
        }
        // `>` needs the smallest bound of `ge` that the Double `value` itself does not satisfy. Above 2^53 an Int64 literal is rounded when it is
        // compared with a Double: `floor + 1` becomes `value` again, and the Double `value` would match. `next_up` is the
        // next number that stays distinct. The Int64 values in between are no Doubles, so a read refuses them anyway. `<` is the mirror image.
        Comparison::GreaterThan => {
            at_least(property, (floor + 1).max(near.next_up().floor() as i128))
        }
        Comparison::GreaterThanOrEqual => at_least(property, ceil),
        Comparison::LessThan => at_most(property, (ceil - 1).min(near.next_down().ceil() as i128)),
        Comparison::LessThanOrEqual => at_most(property, floor),
    }
}

fn at_least(property: &str, least: i128) -> Option<Filter> {
    if let Ok(least) = i32::try_from(least) {
        return Some(Filter::ge(property, least));
    }
    let of_int64 =
        (least <= i64::MAX.into()).then(|| Filter::ge(property, least.max(i64::MIN.into()) as i64));
    // Below all Int32 values: each of them matches, but no Int64 literal finds them.
    let every_int32 = (least < 0).then(|| Filter::ge(property, i32::MIN));
    or_both(of_int64, every_int32)
}

fn at_most(property: &str, most: i128) -> Option<Filter> {
    if let Ok(most) = i32::try_from(most) {
        return Some(Filter::le(property, most));
    }
    let of_int64 =
        (most >= i64::MIN.into()).then(|| Filter::le(property, most.min(i64::MAX.into()) as i64));
    // Above all Int32 values: each of them matches.
    let every_int32 = (most > 0).then(|| Filter::le(property, i32::MAX));
    or_both(of_int64, every_int32)
}

fn or_both(left: Option<Filter>, right: Option<Filter>) -> Option<Filter> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.or(right)),
        (left, right) => left.or(right),
    }
}

/// Returns the comparison of Int32 values for a comparison with an Int64; `None` if the Int64 literal alone gives the right
/// result for every Int32.
fn int32_for_int64(property: &str, comparison: Comparison, value: i64) -> Option<Filter> {
    use Comparison::{GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual};
    match (i32::try_from(value), comparison) {
        (Ok(value), _) => Some(Filter::compare(property, comparison, value)),
        (Err(_), LessThan | LessThanOrEqual) if value > 0 => Some(Filter::le(property, i32::MAX)),
        (Err(_), GreaterThan | GreaterThanOrEqual) if value < 0 => {
            Some(Filter::ge(property, i32::MIN))
        }
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
