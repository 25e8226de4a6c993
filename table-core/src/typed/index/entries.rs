use std::fmt;
use std::marker::PhantomData;

use crate::model::PartitionKey;
use crate::query::Range;
use crate::store::Result;

/// Entries of one declared index of `T`, in one partition: made by `T::by_…(…)`.
pub struct IndexEntries<T> {
    index: &'static str,
    partition: PartitionKey,
    rows: Range,
    of: PhantomData<fn() -> T>,
}

impl<T> IndexEntries<T> {
    /// Claims that an index of `T` has its entries there.
    pub const fn new(index: &'static str, partition: PartitionKey, rows: Range) -> Self {
        Self { index, partition, rows, of: PhantomData }
    }

    /// The name of the index.
    pub const fn index(&self) -> &'static str {
        self.index
    }

    /// The partition of the entries.
    pub const fn partition(&self) -> &PartitionKey {
        &self.partition
    }

    /// The row keys of the entries.
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

/// What names entries of a declared index of `T`: `T::by_…(…)` and the key parts that follow.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name entries of an index of `{T}`",
    note = "declare one with `#[index(name, …)]` and make the entries' name with `{T}::by_name(…)`"
)]
pub trait EntriesOf<T> {
    /// [`OneEntry`] where the whole key of a unique index is given, otherwise [`ManyEntries`].
    type Kind;

    /// The entries.
    ///
    /// # Errors
    /// A key part could not be encoded.
    fn into_entries(self) -> Result<IndexEntries<T>>;
}

/// One entry or none: the whole key of a unique index is given.
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
