use std::fmt;

use super::Query;

/// How a query finds its entities: the guide's classification, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessPath {
    /// One PartitionKey and one RowKey: one entity.
    Point,
    /// One PartitionKey and a range of RowKeys.
    RowRange,
    /// One PartitionKey; every entity in it is read.
    PartitionScan,
    /// A range of PartitionKeys; every entity in them is read.
    PartitionRange,
    /// Every entity of the table is read.
    TableScan,
}

impl fmt::Display for AccessPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Point => "point query",
            Self::RowRange => "row range",
            Self::PartitionScan => "partition scan",
            Self::PartitionRange => "partition range",
            Self::TableScan => "table scan",
        })
    }
}

/// How a query will run, and what would be cheaper.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The access path.
    pub path: AccessPath,
}

impl Query {
    /// How the query finds its entities.
    pub fn access_path(&self) -> AccessPath {
        self.bounds().access_path()
    }
}
