use std::ops::Bound;

use super::{AccessPath, Query};

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
}

impl KeyBounds {
    /// The classification of these bounds.
    pub fn access_path(&self) -> AccessPath {
        AccessPath::TableScan
    }
}

impl Query {
    /// The keys that the query can match at most.
    pub fn bounds(&self) -> KeyBounds {
        KeyBounds { partition: Range::ALL, row: Range::ALL }
    }
}
