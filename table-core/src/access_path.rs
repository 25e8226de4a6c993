use std::fmt;

/// How a query finds its entities, as the service's design guide classifies queries. The cheapest path is first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AccessPath {
    /// One PartitionKey and one RowKey: the service reads one entity.
    Point,
    /// One PartitionKey and a range of RowKeys: the service reads the entities in the range.
    RowRange,
    /// One PartitionKey: the service reads every entity in the partition.
    PartitionScan,
    /// A range of PartitionKeys: the service reads every entity in these partitions.
    PartitionRange,
    /// The service reads every entity of the table.
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
