//! Typed ranges of entries of declared indexes, for lookups.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{self, Bound};

use super::Operand;
use crate::model::{KeyBuilder, KeyPart, PartFormat, PartitionKey, key_order};
use crate::query::Range;
use crate::store::Result;

/// A range of entries of a declared index of `T`, in one partition. `T::by_…(…)` creates it.
pub struct IndexEntries<T> {
    index: &'static str,
    partition: PartitionKey,
    rows: Range,
    of: PhantomData<fn() -> T>,
}

impl<T> IndexEntries<T> {
    /// Creates a range of entries, without a check that the index has entries there.
    pub const fn new(index: &'static str, partition: PartitionKey, rows: Range) -> Self {
        Self {
            index,
            partition,
            rows,
            of: PhantomData,
        }
    }

    /// Returns the name of the index.
    pub const fn index(&self) -> &'static str {
        self.index
    }

    /// Returns the partition of the entries.
    pub const fn partition(&self) -> &PartitionKey {
        &self.partition
    }

    /// Returns the RowKeys of the entries.
    pub const fn rows(&self) -> &Range {
        &self.rows
    }
}

impl<T> Clone for IndexEntries<T> {
    fn clone(&self) -> Self {
        Self::new(self.index, self.partition.clone(), self.rows.clone())
    }
}

impl<T> fmt::Debug for IndexEntries<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexEntries")
            .field("index", &self.index)
            .field("partition", &self.partition)
            .field("rows", &self.rows)
            .finish()
    }
}

/// Entries of a declared index of `T`: the result of `T::by_…(…)` and of the methods that add further key parts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name entries of an index of `{T}`",
    note = "declare an index with `#[index(name, …)]` and select its entries with `{T}::by_name(…)`"
)]
pub trait EntriesOf<T> {
    /// [`OneEntry`] if the complete key of a unique index is given, the lookup itself if a part of that key is missing, otherwise
    /// [`ManyEntries`].
    type Kind;

    /// Converts to a range of entries.
    ///
    /// # Errors
    /// Fails if a key part cannot be encoded.
    fn into_entries(self) -> Result<IndexEntries<T>>;
}

/// The [kind](EntriesOf::Kind) of a lookup that finds at most one entity of `T`. The derive macro also implements it for lookups of unique
/// indexes with missing parts, under a bound that never holds and names these parts.
#[diagnostic::on_unimplemented(
    message = "this lookup can find several entities of `{T}`",
    note = "read them with `all`, `first`, `page` or `stream`; only the whole key of a unique index finds one entity"
)]
pub trait FindsOne<T> {}

impl<T> FindsOne<T> for OneEntry {}

/// At most one entry: the complete key of a unique index is given.
#[derive(Clone, Copy, Debug)]
pub enum OneEntry {}

/// Any number of entries.
#[derive(Clone, Copy, Debug)]
pub enum ManyEntries {}

impl<T> EntriesOf<T> for IndexEntries<T> {
    type Kind = ManyEntries;

    fn into_entries(self) -> Result<Self> {
        Ok(self)
    }
}

/// A range of values of a key part of type `V`: any Rust range of [operands](Operand) for `V`.
#[diagnostic::on_unimplemented(
    message = "expected a range of `{V}`, found a `{Self}`",
    note = "give a range such as `a..b`, `a..=b`, `a..` or `..b`"
)]
pub trait PartRange<V> {
    /// Returns the lower and the upper bound.
    fn into_bounds(self) -> (Bound<V>, Bound<V>);
}

impl<V, U: Operand<V>> PartRange<V> for ops::Range<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (
            Bound::Included(self.start.into_operand()),
            Bound::Excluded(self.end.into_operand()),
        )
    }
}

impl<V, U: Operand<V>> PartRange<V> for ops::RangeInclusive<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        let (start, end) = self.into_inner();
        (
            Bound::Included(start.into_operand()),
            Bound::Included(end.into_operand()),
        )
    }
}

impl<V, U: Operand<V>> PartRange<V> for ops::RangeFrom<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (Bound::Included(self.start.into_operand()), Bound::Unbounded)
    }
}

impl<V, U: Operand<V>> PartRange<V> for ops::RangeTo<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (Bound::Unbounded, Bound::Excluded(self.end.into_operand()))
    }
}

impl<V, U: Operand<V>> PartRange<V> for ops::RangeToInclusive<U> {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (Bound::Unbounded, Bound::Included(self.end.into_operand()))
    }
}

impl<V, U: Operand<V>> PartRange<V> for (Bound<U>, Bound<U>) {
    fn into_bounds(self) -> (Bound<V>, Bound<V>) {
        (
            self.0.map(Operand::into_operand),
            self.1.map(Operand::into_operand),
        )
    }
}

/// Builds the range of entries of a derived index lookup, step by step. It keeps the first error.
#[derive(Clone, Debug)]
pub struct EntriesBuilder {
    index: &'static str,
    partition: Result<PartitionKey>,
    rows: Result<Rows>,
}

#[derive(Clone, Debug)]
enum Rows {
    /// All RowKeys that start with the text of the builder.
    Prefix(KeyBuilder),
    /// A finished range.
    Range(Range),
}

impl EntriesBuilder {
    /// Starts with all entries in a partition of an index.
    pub fn new(index: &'static str, partition: Result<String>, template: &'static str) -> Self {
        let rows = Ok(Rows::Prefix(KeyBuilder::new("RowKey", template)));
        Self {
            index,
            partition: partition.and_then(PartitionKey::new),
            rows,
        }
    }

    /// Appends text of the template.
    #[must_use]
    pub fn literal(self, text: &str) -> Self {
        self.then(|key| Ok(Rows::Prefix(key.literal(text))))
    }

    /// Appends a whole part.
    #[must_use]
    pub fn part<P: KeyPart>(self, name: &str, value: &P, format: PartFormat) -> Self {
        self.then(|key| key.part(name, value, format).map(Rows::Prefix))
    }

    /// Appends the start of a text part. Must be the last step.
    #[must_use]
    pub fn starting(self, prefix: &str, format: PartFormat) -> Self {
        self.then(|key| {
            Ok(Rows::Range(starting_with(
                &key.text_prefix(prefix, format).finish(),
            )))
        })
    }

    /// Appends a range of a part. Must be the last step. `ends` says whether the key ends with the part.
    #[must_use]
    pub fn range<P: KeyPart>(
        self,
        name: &str,
        (from, to): (Bound<P>, Bound<P>),
        format: PartFormat,
        ends: bool,
    ) -> Self {
        self.then(|key| {
            let text = |value: P| {
                key.clone()
                    .part(name, &value, format)
                    .map(KeyBuilder::finish)
            };
            // An open end of the range is the end of the prefix that the earlier parts give, not of the partition.
            let all = starting_with(&key.clone().finish());
            let from = match from {
                Bound::Unbounded => all.from,
                Bound::Included(value) => Bound::Included(text(value)?),
                Bound::Excluded(value) if ends => Bound::Excluded(text(value)?),
                // Further parts follow in the key. A range that excludes a value must exclude all keys that start
                // with it.
                Bound::Excluded(value) => bound_after(starting_with(&text(value)?)),
            };
            let to = match to {
                Bound::Unbounded => all.to,
                Bound::Excluded(value) => Bound::Excluded(text(value)?),
                Bound::Included(value) if ends => Bound::Included(text(value)?),
                Bound::Included(value) => starting_with(&text(value)?).to,
            };
            Ok(Rows::Range(Range { from, to }))
        })
    }

    /// Declares the key complete: the range is one RowKey.
    #[must_use]
    pub fn whole(self) -> Self {
        self.then(|key| Ok(Rows::Range(Range::single(&key.finish()))))
    }

    /// Returns the entries.
    ///
    /// # Errors
    /// Fails if a part could not be encoded.
    pub fn finish<T>(self) -> Result<IndexEntries<T>> {
        let rows = match self.rows? {
            Rows::Prefix(key) => starting_with(&key.finish()),
            Rows::Range(range) => range,
        };
        Ok(IndexEntries::new(self.index, self.partition?, rows))
    }

    fn then(self, step: impl FnOnce(KeyBuilder) -> Result<Rows>) -> Self {
        // A finished range ignores further steps. The generated types offer none after it.
        let rows = self.rows.and_then(|rows| match rows {
            Rows::Prefix(key) => step(key),
            done @ Rows::Range(_) => Ok(done),
        });
        Self { rows, ..self }
    }
}

/// Returns the range of all texts that start with this text. Its end may have a character that keys cannot have: the end is only compared with
/// keys.
fn starting_with(text: &str) -> Range {
    if text.is_empty() {
        return Range::ALL;
    }
    let to = key_order::prefix_end(text).map_or(Bound::Unbounded, Bound::Excluded);
    Range {
        from: Bound::Included(text.to_owned()),
        to,
    }
}

/// Returns the lower bound of the keys after a range.
fn bound_after(range: Range) -> Bound<String> {
    match (range.from, range.to) {
        (_, Bound::Excluded(end)) => Bound::Included(end),
        (start, _) => start,
    }
}
