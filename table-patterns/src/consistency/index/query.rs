use table_core::query::{Filter, KeyBounds, Query, Range};

use super::definition::Index;
use super::entry::Entry;

/// Which entries of an index to read.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexQuery {
    partition: String,
    rows: Option<Filter>,
    top: Option<usize>,
    sorts: bool,
}

impl IndexQuery {
    /// The entries in a partition.
    pub fn partition(partition: impl Into<String>) -> Self {
        Self { partition: partition.into(), rows: None, top: None, sorts: false }
    }

    /// The same entries in another partition.
    #[must_use]
    pub fn in_partition(self, partition: impl Into<String>) -> Self {
        Self { partition: partition.into(), ..self }
    }

    /// Those whose row keys start so.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.rows = Filter::and_maybe(self.rows.take(), Some(Filter::starts_with(Filter::ROW_KEY, prefix)));
        self
    }

    /// Those whose row keys are from `from` on, and before `to`.
    #[must_use]
    pub fn range(mut self, from: &str, to: &str) -> Self {
        let range = Filter::ge(Filter::ROW_KEY, from).and(Filter::lt(Filter::ROW_KEY, to));
        self.rows = Filter::and_maybe(self.rows.take(), Some(range));
        self
    }

    /// Those whose row keys are in this range.
    #[must_use]
    pub fn rows(mut self, rows: &Range) -> Self {
        let rows = KeyBounds { partition: Range::ALL, row: rows.clone() }.to_filter();
        self.rows = Filter::and_maybe(self.rows.take(), rows);
        self
    }

    /// At most this many in a page.
    #[must_use]
    pub const fn top(mut self, top: usize) -> Self {
        self.top = Some(top);
        self
    }

    /// Entries in the order of their keys from every store. Of one that does not sort, *everything* that matches is
    /// read and held in memory, and is one page. From any other it changes nothing.
    #[must_use]
    pub const fn sorted_on_client(mut self) -> Self {
        self.sorts = true;
        self
    }

    pub(super) const fn sorts(&self) -> bool {
        self.sorts
    }

    pub(super) fn to_query(&self, index: &Index) -> Query {
        let partition = Filter::eq(Filter::PARTITION_KEY, self.partition.as_str());
        let of_index = Filter::eq(Entry::INDEX, index.id());
        let filter = Filter::and_maybe(Some(partition), self.rows.clone()).map(|f| f.and(of_index));
        Query { filter, select: None, top: self.top }
    }
}
