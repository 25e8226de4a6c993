use super::{Filter, FilterNode, KeyBounds, Query};
use crate::access_path::AccessPath;

impl Query {
    /// Returns how the query finds its entities.
    ///
    /// Only conditions that every match must satisfy restrict the keys: those joined by `and`. For an `or` of
    /// keys the service reads the whole partition or table, and this classification says so.
    /// [`bounds`](Self::bounds) may be narrower, which makes a local scan shorter.
    pub fn access_path(&self) -> AccessPath {
        self.seek().access_path()
    }

    /// Returns the keys that the service reads.
    pub(super) fn seek(&self) -> KeyBounds {
        self.filter.as_ref().map_or(KeyBounds::ALL, seekable)
    }
}

/// Returns the keys allowed by the conditions joined by `and`.
fn seekable(filter: &Filter) -> KeyBounds {
    match filter.node() {
        _ if !filter.is_bounded() => KeyBounds::ALL,
        FilterNode::And(a, b) => seekable(a).intersect(seekable(b)),
        FilterNode::Compare { property, comparison, value } => {
            KeyBounds::of_comparison(property, *comparison, value, false)
        }
        FilterNode::Or(..) | FilterNode::Not(_) => KeyBounds::ALL,
    }
}
