//! Queries of an index.

use table_core::model::TableName;
use table_core::query::{Filter, KeyBounds, Query, Range};

use crate::entry::{Entry, Index};

/// A query of an index: a partition and a range of its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexQuery {
    partition: String,
    rows: Option<Filter>,
    top: Option<usize>,
    sorts: bool,
}

impl IndexQuery {
    /// All entries of a partition.
    pub fn partition(partition: impl Into<String>) -> Self {
        Self {
            partition: partition.into(),
            rows: None,
            top: None,
            sorts: false,
        }
    }

    /// The same query in another partition.
    #[must_use]
    pub fn in_partition(self, partition: impl Into<String>) -> Self {
        Self {
            partition: partition.into(),
            ..self
        }
    }

    /// Restricts to row keys with a prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.rows = Filter::and_maybe(
            self.rows.take(),
            Some(Filter::starts_with(Filter::ROW_KEY, prefix)),
        );
        self
    }

    /// Restricts to row keys from `from`, inclusive, to `to`, exclusive.
    #[must_use]
    pub fn range(mut self, from: &str, to: &str) -> Self {
        let range = Filter::ge(Filter::ROW_KEY, from).and(Filter::lt(Filter::ROW_KEY, to));
        self.rows = Filter::and_maybe(self.rows.take(), Some(range));
        self
    }

    /// Restricts to row keys in a range.
    #[must_use]
    pub fn rows(mut self, rows: &Range) -> Self {
        let rows = KeyBounds {
            partition: Range::ALL,
            row: rows.clone(),
        }
        .to_filter();
        self.rows = Filter::and_maybe(self.rows.take(), rows);
        self
    }

    /// Returns at most `top` entries in a page.
    #[must_use]
    pub const fn top(mut self, top: usize) -> Self {
        self.top = Some(top);
        self
    }

    /// Returns entries in the order of their keys from every store. From a store that does not sort, *all*
    /// matching entries are read, held in memory and returned as one page. No effect on a store that sorts.
    #[must_use]
    pub const fn sorted_on_client(mut self) -> Self {
        self.sorts = true;
        self
    }

    pub(crate) const fn sorts(&self) -> bool {
        self.sorts
    }

    pub(crate) fn to_query(&self, index: &Index, table: &TableName) -> Query {
        let partition = Filter::eq(Filter::PARTITION_KEY, self.partition.as_str());
        let of_index = Filter::eq(Entry::INDEX, &*index.entry_id(table));
        let filter = Filter::and_maybe(Some(partition), self.rows.clone()).map(|f| f.and(of_index));
        Query {
            filter,
            select: None,
            top: self.top,
            ..Query::new()
        }
    }
}

/// Whether a lookup returns the content of an entry, or verifies it with the entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Returns the entry's content if it has the wanted properties: 1 request. A remote entry can be stale. References are
    /// followed.
    #[default]
    Entry,
    /// Reads the entity, which must still have the entry: 1 request more, never stale.
    Entity,
}
