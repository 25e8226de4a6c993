use std::ops::{self, Bound};

use crate::model::key_order;
use crate::query::Range;
use crate::store::Result;
use crate::typed::RowPrefix;

/// Row keys of `T`: those under a [`RowPrefix`], or in a range of prefixes. What `T::row_prefix()` makes
/// will do.
///
/// | rows | keys |
/// |---|---|
/// | `a` | that start with `a` |
/// | `a..b` | from `a` on, before `b` and everything under it |
/// | `a..=b` | from `a` on, to the last under `b` |
/// | `a..`, `..b`, `..=b` | as above, open at the other end |
///
/// The order is the service's, by UTF-16 code unit.
pub trait RowBounds<T> {
    /// The range.
    ///
    /// # Errors
    /// A part of a key could not be encoded.
    fn into_range(self) -> Result<Range>;
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for P {
    fn into_range(self) -> Result<Range> {
        let text = self.into().into_text()?;
        let to = end_of(&text);
        Ok(Range { from: Bound::Included(text), to })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::Range<P> {
    fn into_range(self) -> Result<Range> {
        Ok(Range { from: from(self.start)?, to: before(self.end)? })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::RangeInclusive<P> {
    fn into_range(self) -> Result<Range> {
        let (start, end) = self.into_inner();
        Ok(Range { from: from(start)?, to: through(end)? })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::RangeFrom<P> {
    fn into_range(self) -> Result<Range> {
        Ok(Range { from: from(self.start)?, to: Bound::Unbounded })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::RangeTo<P> {
    fn into_range(self) -> Result<Range> {
        Ok(Range { from: Bound::Unbounded, to: before(self.end)? })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::RangeToInclusive<P> {
    fn into_range(self) -> Result<Range> {
        Ok(Range { from: Bound::Unbounded, to: through(self.end)? })
    }
}

fn from<T>(prefix: impl Into<RowPrefix<T>>) -> Result<Bound<String>> {
    prefix.into().into_text().map(Bound::Included)
}

fn before<T>(prefix: impl Into<RowPrefix<T>>) -> Result<Bound<String>> {
    prefix.into().into_text().map(Bound::Excluded)
}

fn through<T>(prefix: impl Into<RowPrefix<T>>) -> Result<Bound<String>> {
    prefix.into().into_text().map(|text| end_of(&text))
}

/// Behind everything that starts with the text.
pub(super) fn end_of(text: &str) -> Bound<String> {
    key_order::prefix_end(text).map_or(Bound::Unbounded, Bound::Excluded)
}
