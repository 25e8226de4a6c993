use std::cmp::Ordering;
use std::ops::Bound;

use super::{AccessPath, Comparison, Filter, Query};
use crate::model::{EdmValue, Key, key_order};

/// A range of texts in the service's order of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where it starts.
    pub from: Bound<String>,
    /// Where it ends.
    pub to: Bound<String>,
}

/// The keys that a filter can match at most: what a store must look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBounds {
    /// PartitionKeys.
    pub partition: Range,
    /// RowKeys, within each partition.
    pub row: Range,
}

impl Range {
    /// Everything.
    pub const ALL: Self = Self { from: Bound::Unbounded, to: Bound::Unbounded };
    /// Nothing.
    pub const EMPTY: Self = Self { from: Bound::Excluded(String::new()), to: Bound::Excluded(String::new()) };

    /// The range of one text.
    pub fn single(text: &str) -> Self {
        Self { from: Bound::Included(text.to_owned()), to: Bound::Included(text.to_owned()) }
    }

    /// The text, if it is the only one.
    pub fn as_single(&self) -> Option<&str> {
        match (&self.from, &self.to) {
            (Bound::Included(a), Bound::Included(b)) if a == b => Some(a),
            _ => None,
        }
    }

    /// Whether the ends leave room for nothing.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(a), Bound::Included(b)) => key_order::compare(a, b).is_gt(),
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                key_order::compare(a, b).is_ge()
            }
        }
    }

    /// Whether the text is within.
    pub fn contains(&self, text: &str) -> bool {
        let after_start = match &self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => key_order::compare(text, from).is_ge(),
            Bound::Excluded(from) => key_order::compare(text, from).is_gt(),
        };
        after_start
            && match &self.to {
                Bound::Unbounded => true,
                Bound::Included(to) => key_order::compare(text, to).is_le(),
                Bound::Excluded(to) => key_order::compare(text, to).is_lt(),
            }
    }

    /// What is in both.
    pub(super) fn intersect(self, other: Self) -> Self {
        let from = if compare_starts(&self.from, &other.from).is_ge() { self.from } else { other.from };
        let to = if compare_ends(&self.to, &other.to).is_le() { self.to } else { other.to };
        Self { from, to }
    }

    /// The smallest range around both.
    pub(super) fn hull(self, other: Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other } else { self };
        }
        let from = if compare_starts(&self.from, &other.from).is_le() { self.from } else { other.from };
        let to = if compare_ends(&self.to, &other.to).is_ge() { self.to } else { other.to };
        Self { from, to }
    }

    /// The keys for which a comparison with a text can hold.
    ///
    /// No key has a zero character, which separates the two parts of a stored key: a bound that has
    /// one is cut there, so that it means the same keys.
    fn of_text(comparison: Comparison, text: &str) -> Self {
        let (whole, text) = (!text.contains('\0'), text.split('\0').next().unwrap_or_default());
        let (included, excluded) = (Bound::Included(text.to_owned()), Bound::Excluded(text.to_owned()));
        match (comparison, whole) {
            (Comparison::Equal, true) => Self::single(text),
            (Comparison::Equal, false) => Self::EMPTY,
            (Comparison::NotEqual, _) => Self::ALL,
            (Comparison::GreaterThanOrEqual, true) => Self { from: included, ..Self::ALL },
            (Comparison::GreaterThan | Comparison::GreaterThanOrEqual, _) => {
                Self { from: excluded, ..Self::ALL }
            }
            (Comparison::LessThan, true) => Self { to: excluded, ..Self::ALL },
            (Comparison::LessThan | Comparison::LessThanOrEqual, _) => Self { to: included, ..Self::ALL },
        }
    }
}

/// Orders starts of ranges: none before all, a text before what comes after it.
pub(super) fn compare_starts(a: &Bound<String>, b: &Bound<String>) -> Ordering {
    compare_edges(a, b, Ordering::Less)
}

/// Orders ends of ranges: what stops before a text before the text, none after all.
pub(super) fn compare_ends(a: &Bound<String>, b: &Bound<String>) -> Ordering {
    compare_edges(a, b, Ordering::Greater)
}

/// `unbounded` is how an end that is not there compares with any other, and how an included text
/// compares with the same text excluded.
fn compare_edges(a: &Bound<String>, b: &Bound<String>, unbounded: Ordering) -> Ordering {
    use Bound::*;
    match (a, b) {
        (Unbounded, Unbounded) => Ordering::Equal,
        (Unbounded, _) => unbounded,
        (_, Unbounded) => unbounded.reverse(),
        (Included(x), Included(y)) | (Excluded(x), Excluded(y)) => key_order::compare(x, y),
        (Included(x), Excluded(y)) => key_order::compare(x, y).then(unbounded),
        (Excluded(x), Included(y)) => key_order::compare(x, y).then(unbounded.reverse()),
    }
}

impl KeyBounds {
    /// Every key.
    pub const ALL: Self = Self { partition: Range::ALL, row: Range::ALL };
    /// No key.
    pub const EMPTY: Self = Self { partition: Range::EMPTY, row: Range::EMPTY };

    /// Whether the key is within.
    pub fn contains(&self, key: &Key) -> bool {
        self.partition.contains(key.partition()) && self.row.contains(key.row())
    }

    /// Whether no key can be within.
    pub fn is_empty(&self) -> bool {
        self.partition.is_empty() || self.row.is_empty()
    }

    /// The cheapest path by which a service can find what is within.
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

    pub(super) fn intersect(self, other: Self) -> Self {
        Self { partition: self.partition.intersect(other.partition), row: self.row.intersect(other.row) }
    }

    fn hull(self, other: Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other } else { self };
        }
        Self { partition: self.partition.hull(other.partition), row: self.row.hull(other.row) }
    }

    /// The keys for which the comparison, or its negation, can hold.
    ///
    /// Keys are never missing, so that a negated comparison with a text is the opposite one; with any
    /// other literal, `ne` always holds and nothing else does.
    pub(super) fn of_comparison(
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

impl Filter {
    /// The keys that can match, or those that cannot but not match.
    fn bounds(&self, negated: bool) -> KeyBounds {
        match self {
            Self::Compare { property, comparison, value } => {
                KeyBounds::of_comparison(property, *comparison, value, negated)
            }
            Self::Not(inner) => inner.bounds(!negated),
            Self::And(a, b) if !negated => a.bounds(false).intersect(b.bounds(false)),
            Self::Or(a, b) if negated => a.bounds(true).intersect(b.bounds(true)),
            Self::And(a, b) | Self::Or(a, b) => a.bounds(negated).hull(b.bounds(negated)),
        }
    }
}

impl Query {
    /// The keys that the query can match at most. An `or` is bounded by what surrounds both sides.
    pub fn bounds(&self) -> KeyBounds {
        self.filter.as_ref().map_or(KeyBounds::ALL, |filter| filter.bounds(false))
    }
}
