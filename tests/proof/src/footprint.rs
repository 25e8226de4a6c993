use table_core::query::Query;

/// The rows that a request reads or writes. Two requests that do not conflict have the same effect in either order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footprint {
    place: String,
    /// `None` means all partitions.
    partition: Option<String>,
    /// `None` means all rows.
    rows: Option<Vec<String>>,
    writes: bool,
}

impl Footprint {
    pub(super) fn rows(place: &str, partition: &str, rows: Vec<String>, writes: bool) -> Self {
        Self {
            place: place.to_owned(),
            partition: Some(partition.to_owned()),
            rows: Some(rows),
            writes,
        }
    }

    pub(super) fn all(place: &str, writes: bool) -> Self {
        Self {
            place: place.to_owned(),
            partition: None,
            rows: None,
            writes,
        }
    }

    /// All rows that a query may read.
    pub(super) fn of_query(place: &str, query: &Query) -> Self {
        let partition = query.bounds().partition.as_single().map(str::to_owned);
        Self {
            partition,
            ..Self::all(place, false)
        }
    }

    /// Whether all rows have RowKeys with this prefix.
    pub(super) fn is_of(&self, rows: &str) -> bool {
        self.rows
            .as_ref()
            .is_some_and(|these| these.iter().all(|row| row.starts_with(rows)))
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        let partitions = self.partition.is_none()
            || other.partition.is_none()
            || self.partition == other.partition;
        let rows = match (&self.rows, &other.rows) {
            (Some(a), Some(b)) => a.iter().any(|row| b.contains(row)),
            _ => true,
        };
        (self.writes || other.writes) && self.place == other.place && partitions && rows
    }
}
