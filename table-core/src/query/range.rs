use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

use super::{AccessPath, Comparison, Filter, FilterNode, Query};
use crate::model::{EdmValue, Key, key_order};

/// A range of texts in the service's key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The start of the range.
    pub from: Bound<String>,
    /// The end of the range.
    pub to: Bound<String>,
}

impl Range {
    /// All texts.
    pub const ALL: Self = Self {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };
    /// No text.
    pub const EMPTY: Self = Self {
        from: Bound::Excluded(String::new()),
        to: Bound::Excluded(String::new()),
    };

    /// Returns the range that contains one text.
    pub fn single(text: &str) -> Self {
        Self {
            from: Bound::Included(text.to_owned()),
            to: Bound::Included(text.to_owned()),
        }
    }

    /// Returns the text, if the range contains exactly one.
    pub fn as_single(&self) -> Option<&str> {
        match (&self.from, &self.to) {
            (Bound::Included(a), Bound::Included(b)) if a == b => Some(a),
            _ => None,
        }
    }

    /// Whether the range is certainly empty. A range between two texts without another text between them is not recognized;
    /// it costs a read that finds nothing.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(a), Bound::Included(b)) => key_order::compare(a, b).is_gt(),
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                key_order::compare(a, b).is_ge()
            }
        }
    }

    /// Whether the text is in the range.
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

    /// Returns the intersection of both ranges.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let from = if compare_starts(&self.from, &other.from).is_ge() {
            self.from
        } else {
            other.from
        };
        let to = if compare_ends(&self.to, &other.to).is_le() {
            self.to
        } else {
            other.to
        };
        Self { from, to }
    }

    /// Returns the smallest range that contains both.
    pub(super) fn hull(self, other: Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other } else { self };
        }
        let from = if compare_starts(&self.from, &other.from).is_le() {
            self.from
        } else {
            other.from
        };
        let to = if compare_ends(&self.to, &other.to).is_ge() {
            self.to
        } else {
            other.to
        };
        Self { from, to }
    }

    /// Returns the keys for which a comparison with a text can hold.
    ///
    /// Keys contain no zero character, because it separates the two parts of a stored key. A bound with a
    /// zero character is cut there, which does not change the set of keys.
    pub(super) fn of_text(comparison: Comparison, text: &str) -> Self {
        // Of the keys, only 'a' itself is between 'a' and "a\0z". So `lt` of such a text includes the text before the
        // zero character, and `ge` excludes it.
        let (whole, text) = (
            !text.contains('\0'),
            text.split('\0').next().unwrap_or_default(),
        );
        let (included, excluded) = (
            Bound::Included(text.to_owned()),
            Bound::Excluded(text.to_owned()),
        );
        match (comparison, whole) {
            (Comparison::Equal, true) => Self::single(text),
            (Comparison::Equal, false) => Self::EMPTY,
            (Comparison::NotEqual, _) => Self::ALL,
            (Comparison::GreaterThanOrEqual, true) => Self {
                from: included,
                ..Self::ALL
            },
            (Comparison::GreaterThan | Comparison::GreaterThanOrEqual, _) => Self {
                from: excluded,
                ..Self::ALL
            },
            (Comparison::LessThan, true) => Self {
                to: excluded,
                ..Self::ALL
            },
            (Comparison::LessThan | Comparison::LessThanOrEqual, _) => Self {
                to: included,
                ..Self::ALL
            },
        }
    }

    /// Returns comparisons of a property with the meaning of this range; `None` for all texts.
    pub(crate) fn to_filter(&self, property: &str) -> Option<Filter> {
        if let Some(text) = self.as_single() {
            return Some(Filter::eq(property, text));
        }
        let from = match &self.from {
            Bound::Unbounded => None,
            Bound::Included(from) => Some(Filter::ge(property, &**from)),
            Bound::Excluded(from) => Some(Filter::gt(property, &**from)),
        };
        let to = match &self.to {
            Bound::Unbounded => None,
            Bound::Included(to) => Some(Filter::le(property, &**to)),
            Bound::Excluded(to) => Some(Filter::lt(property, &**to)),
        };
        Filter::and_maybe(from, to)
    }
}

/// Prints `'Sales'`, `from 'S' before 'T'`, `any` or `none`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.as_single() {
            return f.write_str(&quoted(text));
        }
        if self.is_empty() {
            return f.write_str("none");
        }
        let from = match &self.from {
            Bound::Unbounded => None,
            Bound::Included(from) => Some(format!("from {}", quoted(from))),
            Bound::Excluded(from) => Some(format!("after {}", quoted(from))),
        };
        let to = match &self.to {
            Bound::Unbounded => None,
            Bound::Included(to) => Some(format!("to {}", quoted(to))),
            Bound::Excluded(to) => Some(format!("before {}", quoted(to))),
        };
        let ends: Vec<String> = from.into_iter().chain(to).collect();
        f.write_str(if ends.is_empty() { "any" } else { "" })?;
        f.write_str(&ends.join(" "))
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Orders starts of ranges: unbounded first, and an included text before the same text excluded.
pub(super) fn compare_starts(a: &Bound<String>, b: &Bound<String>) -> Ordering {
    compare_edges(a, b, Ordering::Less)
}

/// Orders ends of ranges: an excluded text before the same text included, and unbounded last.
fn compare_ends(a: &Bound<String>, b: &Bound<String>) -> Ordering {
    compare_edges(a, b, Ordering::Greater)
}

/// Compares ends or starts. `unbounded` is the order of a missing bound relative to any other, and of an
/// included text relative to the same text excluded.
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
    pub const ALL: Self = Self {
        partition: Range::ALL,
        row: Range::ALL,
    };

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
        Self {
            partition: self.partition.intersect(other.partition),
            row: self.row.intersect(other.row),
        }
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
        Self {
            partition: self.partition.hull(other.partition),
            row: self.row.hull(other.row),
        }
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
        let comparison = if negated {
            comparison.negated()
        } else {
            comparison
        };
        let range = match value {
            EdmValue::String(text) => Range::of_text(comparison, text),
            _ => Range::ALL,
        };
        match property {
            Filter::PARTITION_KEY => Self {
                partition: range,
                row: Range::ALL,
            },
            Filter::ROW_KEY => Self {
                partition: Range::ALL,
                row: range,
            },
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
    /// Returns the keys that can match. If `negated`, returns the keys that can match the negated filter. Returns all keys if the
    /// filter is too deep for recursion.
    fn bounds(&self, negated: bool) -> KeyBounds {
        if !self.is_bounded() {
            return KeyBounds::ALL;
        }
        match self.node() {
            FilterNode::Compare {
                property,
                comparison,
                value,
            } => KeyBounds::of_comparison(property, *comparison, value, negated),
            FilterNode::Not(inner) => inner.bounds(!negated),
            // By De Morgan's laws a negated `and` is an `or` of the negated operands, and the reverse.
            FilterNode::And(a, b) if !negated => a.bounds(false).intersect(b.bounds(false)),
            FilterNode::Or(a, b) if negated => a.bounds(true).intersect(b.bounds(true)),
            FilterNode::And(a, b) | FilterNode::Or(a, b) => {
                a.bounds(negated).hull(b.bounds(negated))
            }
        }
    }
}

impl Query {
    /// Returns the keys that the query can match. An `or` gives the smallest range around both sides.
    pub fn bounds(&self) -> KeyBounds {
        self.filter
            .as_ref()
            .map_or(KeyBounds::ALL, |filter| filter.bounds(false))
    }
}
