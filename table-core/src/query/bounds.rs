use std::fmt;

use super::{AccessPath, Comparison, Filter, FilterNode, Query, Range};
use crate::model::{EdmValue, Key};

/// The largest set of keys that a filter can match: the keys that a store must read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBounds {
    /// Range of PartitionKeys.
    pub partition: Range,
    /// Range of RowKeys, in each partition.
    pub row: Range,
}

impl KeyBounds {
    /// Every key.
    pub const ALL: Self = Self { partition: Range::ALL, row: Range::ALL };
    /// No key.
    pub const EMPTY: Self = Self { partition: Range::EMPTY, row: Range::EMPTY };

    /// Whether the key is within the bounds.
    pub fn contains(&self, key: &Key) -> bool {
        self.partition.contains(key.partition()) && self.row.contains(key.row())
    }

    /// Whether no key can be within the bounds.
    pub fn is_empty(&self) -> bool {
        self.partition.is_empty() || self.row.is_empty()
    }

    /// Returns the cheapest access path by which a service can find the keys within the bounds.
    pub fn access_path(&self) -> AccessPath {
        let one_partition = self.partition.as_single().is_some();
        match (one_partition, self.row.as_single()) {
            (true, Some(_)) => AccessPath::Point,
            (true, None) if self.row == Range::ALL => AccessPath::PartitionScan,
            (true, None) => AccessPath::RowRange,
            (false, _) if self.partition == Range::ALL => AccessPath::TableScan,
            (false, _) => AccessPath::PartitionRange,
        }
    }

    pub(crate) fn intersect(self, other: Self) -> Self {
        Self { partition: self.partition.intersect(other.partition), row: self.row.intersect(other.row) }
    }

    /// Returns comparisons with the meaning of these bounds; `None` for all keys.
    pub fn to_filter(&self) -> Option<Filter> {
        Filter::and_maybe(
            self.partition.to_filter(Filter::PARTITION_KEY),
            self.row.to_filter(Filter::ROW_KEY),
        )
    }

    fn hull(self, other: Self) -> Self {
        // Without this, the range around an empty range and another one would have keys of neither.
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other } else { self };
        }
        Self { partition: self.partition.hull(other.partition), row: self.row.hull(other.row) }
    }

    /// Returns the keys for which the comparison, or its negation, can hold.
    ///
    /// Every entity has its keys, so a negated comparison with a text is the opposite comparison. With any
    /// other literal, `ne` always holds and the other operators never do.
    pub(crate) fn of_comparison(
        property: &str,
        comparison: Comparison,
        value: &EdmValue,
        negated: bool,
    ) -> Self {
        let comparison = if negated { comparison.negated() } else { comparison };
        let range = match value {
            EdmValue::String(text) => Range::of_text(comparison, text),
            _ => Range::ALL,
        };
        match property {
            Filter::PARTITION_KEY => Self { partition: range, row: Range::ALL },
            Filter::ROW_KEY => Self { partition: Range::ALL, row: range },
            _ => Self::ALL,
        }
    }
}

/// Prints for example `PartitionKey 'Sales', RowKey from 'S' before 'T'`.
impl fmt::Display for KeyBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionKey {}, RowKey {}", self.partition, self.row)
    }
}

impl Filter {
    /// Returns the keys that can match, or if `negated`, those that may not match. Returns all keys if the
    /// filter is too deep.
    fn bounds(&self, negated: bool) -> KeyBounds {
        if !self.is_bounded() {
            return KeyBounds::ALL;
        }
        match self.node() {
            FilterNode::Compare { property, comparison, value } => {
                KeyBounds::of_comparison(property, *comparison, value, negated)
            }
            FilterNode::Not(inner) => inner.bounds(!negated),
            // By De Morgan's laws a negated `and` is an `or` of the negated operands, and the reverse.
            FilterNode::And(a, b) if !negated => a.bounds(false).intersect(b.bounds(false)),
            FilterNode::Or(a, b) if negated => a.bounds(true).intersect(b.bounds(true)),
            FilterNode::And(a, b) | FilterNode::Or(a, b) => a.bounds(negated).hull(b.bounds(negated)),
        }
    }
}

impl Query {
    /// Returns the keys that the query can match. An `or` gives the smallest range around both sides.
    pub fn bounds(&self) -> KeyBounds {
        self.filter.as_ref().map_or(KeyBounds::ALL, |filter| filter.bounds(false))
    }
}
