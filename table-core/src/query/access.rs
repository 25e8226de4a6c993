use super::{Filter, FilterNode, KeyBounds, Query};
use crate::access_path::AccessPath;

impl Query {
    /// How the query finds its entities.
    ///
    /// Only what every match must satisfy leads to keys: the parts joined by `and`. The service reads
    /// the whole partition, or table, for an `or` of keys, and so it counts here; what
    /// [`bounds`](Self::bounds) knows in addition makes a local scan shorter.
    pub fn access_path(&self) -> AccessPath {
        self.seek().access_path()
    }

    /// The keys that the service reads.
    pub(super) fn seek(&self) -> KeyBounds {
        self.filter.as_ref().map_or(KeyBounds::ALL, seekable)
    }
}

/// The keys that the parts joined by `and` leave.
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
