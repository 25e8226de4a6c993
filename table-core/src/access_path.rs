use std::fmt;

/// How a query finds its entities: the classification of the service's design guide, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessPath {
    /// One PartitionKey and one RowKey: one entity.
    Point,
    /// One PartitionKey and a range of RowKeys.
    RowRange,
    /// One PartitionKey; every entity in the partition is read.
    PartitionScan,
    /// A range of PartitionKeys; every entity in these partitions is read.
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
