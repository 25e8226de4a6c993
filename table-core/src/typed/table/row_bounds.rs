use std::ops::{self, Bound};

use crate::model::key_order;
use crate::query::Range;
use crate::store::Result;
use crate::typed::RowPrefix;

/// Row keys of `T`: those under a [`RowPrefix`], or in a range of prefixes.
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

impl<T> RowBounds<T> for RowPrefix<T> {
    fn into_range(self) -> Result<Range> {
        let text = self.into_text()?;
        let to = end_of(&text);
        Ok(Range { from: Bound::Included(text), to })
    }
}

impl<T> RowBounds<T> for ops::Range<RowPrefix<T>> {
    fn into_range(self) -> Result<Range> {
        Ok(Range { from: from(self.start)?, to: before(self.end)? })
    }
}

impl<T> RowBounds<T> for ops::RangeInclusive<RowPrefix<T>> {
    fn into_range(self) -> Result<Range> {
        let (start, end) = self.into_inner();
        Ok(Range { from: from(start)?, to: through(end)? })
    }
}

impl<T> RowBounds<T> for ops::RangeFrom<RowPrefix<T>> {
    fn into_range(self) -> Result<Range> {
        Ok(Range { from: from(self.start)?, to: Bound::Unbounded })
    }
}

impl<T> RowBounds<T> for ops::RangeTo<RowPrefix<T>> {
    fn into_range(self) -> Result<Range> {
        Ok(Range { from: Bound::Unbounded, to: before(self.end)? })
    }
}

impl<T> RowBounds<T> for ops::RangeToInclusive<RowPrefix<T>> {
    fn into_range(self) -> Result<Range> {
        Ok(Range { from: Bound::Unbounded, to: through(self.end)? })
    }
}

fn from<T>(prefix: RowPrefix<T>) -> Result<Bound<String>> {
    prefix.into_text().map(Bound::Included)
}

fn before<T>(prefix: RowPrefix<T>) -> Result<Bound<String>> {
    prefix.into_text().map(Bound::Excluded)
}

fn through<T>(prefix: RowPrefix<T>) -> Result<Bound<String>> {
    prefix.into_text().map(|text| end_of(&text))
}

/// Behind everything that starts with the text.
pub(super) fn end_of(text: &str) -> Bound<String> {
    key_order::prefix_end(text).map_or(Bound::Unbounded, Bound::Excluded)
}
