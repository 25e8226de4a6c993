use std::ops::{Bound, Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};

use crate::typed::Operand;

/// A range of values of a key part of type `V`: any of Rust's ranges, of what may stand for a `V`.
#[diagnostic::on_unimplemented(
    message = "expected a range of `{V}`, found a `{Self}`",
    note = "give a range such as `a..b`, `a..=b`, `a..` or `..b`"
)]
pub trait PartRange<V> {
    /// The ends.
    fn into_bounds(self) -> (Bound<V>, Bound<V>);
}

impl<V, U: Operand<V>> PartRange<V> for Range<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (Bound::Included(self.start.into_operand()), Bound::Excluded(self.end.into_operand()))
    }
}

impl<V, U: Operand<V>> PartRange<V> for RangeInclusive<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        let (start, end) = self.into_inner();
        (Bound::Included(start.into_operand()), Bound::Included(end.into_operand()))
    }
}

impl<V, U: Operand<V>> PartRange<V> for RangeFrom<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (Bound::Included(self.start.into_operand()), Bound::Unbounded)
    }
}

impl<V, U: Operand<V>> PartRange<V> for RangeTo<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (Bound::Unbounded, Bound::Excluded(self.end.into_operand()))
    }
}

impl<V, U: Operand<V>> PartRange<V> for RangeToInclusive<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (Bound::Unbounded, Bound::Included(self.end.into_operand()))
    }
}

impl<V, U: Operand<V>> PartRange<V> for (Bound<U>, Bound<U>) {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (self.0.map(Operand::into_operand), self.1.map(Operand::into_operand))
    }
}
