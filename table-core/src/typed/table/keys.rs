use std::ops::{self, Bound};

use crate::model::{Key, PartitionKey, key_order};
use crate::query::Range;
use crate::store::Result;
use crate::typed::{EntityKey, PartitionOf, RowPrefix};

/// A key of an entity of `T`: an [`EntityKey`] of the type, or a [`Key`], whose type is not checked.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of `{T}`",
    note = "make one with `{T}::key(…)`; a key of another type needs `.cast()`"
)]
pub trait KeyOf<T>: Send {
    /// Converts to the key.
    fn into_key(self) -> Key;
}

impl<T> KeyOf<T> for EntityKey<T> {
    fn into_key(self) -> Key {
        Self::into_key(self)
    }
}

impl<T> KeyOf<T> for &EntityKey<T> {
    fn into_key(self) -> Key {
        self.key().clone()
    }
}

impl<T> KeyOf<T> for Key {
    fn into_key(self) -> Key {
        self
    }
}

impl<T> KeyOf<T> for &Key {
    fn into_key(self) -> Key {
        self.clone()
    }
}

/// A partition with entities of `T`: a [`PartitionOf`] the type, or a [`PartitionKey`], whose type is not checked.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a partition of `{T}`",
    note = "make one with `{T}::partition(…)`; a partition of another type needs `.cast()`"
)]
pub trait PartitionIn<T> {
    /// Returns the PartitionKey.
    fn partition_key(&self) -> &PartitionKey;
}

impl<T> PartitionIn<T> for PartitionOf<T> {
    fn partition_key(&self) -> &PartitionKey {
        self.partition_key()
    }
}

impl<T> PartitionIn<T> for PartitionKey {
    fn partition_key(&self) -> &PartitionKey {
        self
    }
}

impl<T, P: PartitionIn<T> + ?Sized> PartitionIn<T> for &P {
    fn partition_key(&self) -> &PartitionKey {
        (**self).partition_key()
    }
}

/// A range of RowKeys of `T`: a [`RowPrefix`], or a Rust range between two of them. `T::row_prefix()` builds a prefix.
///
/// | bounds | RowKeys |
/// |---|---|
/// | `a` | all that start with `a` |
/// | `a..b` | from `a`, up to but not including `b` and all keys that start with `b` |
/// | `a..=b` | from `a`, up to and including all keys that start with `b` |
/// | `a..`, `..b`, `..=b` | like the above, without the other bound |
///
/// RowKeys are ordered by UTF-16 code unit, as the service orders them.
pub trait RowBounds<T> {
    /// Converts to a range of keys.
    ///
    /// # Errors
    /// Fails if a part of a key cannot be encoded.
    fn into_range(self) -> Result<Range>;
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for P {
    fn into_range(self) -> Result<Range> {
        let text = self.into().into_text()?;
        let to = end_of(&text);
        Ok(Range {
            from: Bound::Included(text),
            to,
        })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::Range<P> {
    fn into_range(self) -> Result<Range> {
        Ok(Range {
            from: from(self.start)?,
            to: before(self.end)?,
        })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::RangeInclusive<P> {
    fn into_range(self) -> Result<Range> {
        let (start, end) = self.into_inner();
        Ok(Range {
            from: from(start)?,
            to: through(end)?,
        })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::RangeFrom<P> {
    fn into_range(self) -> Result<Range> {
        Ok(Range {
            from: from(self.start)?,
            to: Bound::Unbounded,
        })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::RangeTo<P> {
    fn into_range(self) -> Result<Range> {
        Ok(Range {
            from: Bound::Unbounded,
            to: before(self.end)?,
        })
    }
}

impl<T, P: Into<RowPrefix<T>>> RowBounds<T> for ops::RangeToInclusive<P> {
    fn into_range(self) -> Result<Range> {
        Ok(Range {
            from: Bound::Unbounded,
            to: through(self.end)?,
        })
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

/// Returns the bound after all keys that start with the text. The bound may have a character that keys cannot have: it is only compared with
/// keys.
pub(super) fn end_of(text: &str) -> Bound<String> {
    key_order::prefix_end(text).map_or(Bound::Unbounded, Bound::Excluded)
}
