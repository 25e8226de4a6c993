//! Ranges of keys in signatures.

use std::cmp::Ordering;

use table_core::model::{Key, key_order};
use table_core::query::Filter;

/// The range of entities that a signature covers, with both ends included. An end without fields is unbounded.
///
/// <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#table-access-ranges>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: Option<Bound>,
    pub(crate) end: Option<Bound>,
}

/// One end of a range: a PartitionKey and optionally a RowKey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) partition: String,
    pub(crate) row: Option<String>,
}

impl Bound {
    /// Creates a bound from its two fields; `None` if both are empty. A RowKey without a PartitionKey is an error.
    ///
    /// An empty field is a missing field, although keys can be empty: the string to sign is the same for both, so the holder of a
    /// signature could remove or add an empty field.
    pub(crate) fn of(partition: &str, row: &str) -> Result<Option<Self>, ()> {
        match (partition, row) {
            ("", "") => Ok(None),
            ("", _) => Err(()),
            (partition, row) => {
                let row = Some(row).filter(|row| !row.is_empty()).map(str::to_owned);
                Ok(Some(Self { partition: partition.to_owned(), row }))
            }
        }
    }

    /// Compares a key with the bound. A bound without a RowKey equals all rows of its partition.
    fn compare(&self, key: &Key) -> Ordering {
        let row = |row: &String| key_order::compare(key.row(), row);
        key_order::compare(key.partition(), &self.partition)
            .then_with(|| self.row.as_ref().map_or(Ordering::Equal, row))
    }
}

impl KeyRange {
    pub(crate) fn is_all(&self) -> bool {
        self.start.is_none() && self.end.is_none()
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.start.as_ref().is_none_or(|start| start.compare(key).is_ge())
            && self.end.as_ref().is_none_or(|end| end.compare(key).is_le())
    }

    /// Returns the range as a filter with at most six comparisons.
    pub(crate) fn filter(&self) -> Option<Filter> {
        let (partition, row) = (Filter::PARTITION_KEY, Filter::ROW_KEY);
        // In one partition two comparisons of rows are enough, and the store then reads a row range instead of scanning partitions.
        if let (Some(start), Some(end)) = (&self.start, &self.end)
            && start.partition == end.partition
        {
            let one = Filter::eq(partition, start.partition.as_str());
            let from = start.row.as_deref().map(|text| Filter::ge(row, text));
            let to = end.row.as_deref().map(|text| Filter::le(row, text));
            return Filter::and_maybe(Some(one), Filter::and_maybe(from, to));
        }
        let from = self.start.as_ref().map(|start| {
            let within = Filter::ge(partition, start.partition.as_str());
            let after = Filter::gt(partition, start.partition.as_str());
            start.row.as_deref().map_or(within.clone(), |text| within.and(after.or(Filter::ge(row, text))))
        });
        let to = self.end.as_ref().map(|end| {
            let within = Filter::le(partition, end.partition.as_str());
            let before = Filter::lt(partition, end.partition.as_str());
            end.row.as_deref().map_or(within.clone(), |text| within.and(before.or(Filter::le(row, text))))
        });
        Filter::and_maybe(from, to)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use table_core::model::Entity;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["", "a", "b", "ba", "c", "\u{E000}", "\u{1F600}"]).prop_map(str::to_owned)
    }

    fn bound() -> impl Strategy<Value = Option<Bound>> {
        let bound =
            (text(), proptest::option::of(text())).prop_map(|(partition, row)| Bound { partition, row });
        proptest::option::of(bound)
    }

    proptest! {
        #[test]
        fn the_filter_is_equivalent_to_the_range(start in bound(), end in bound(), partition in text(), row in text()) {
            let range = KeyRange { start, end };
            let entity = Entity::new(&partition, &row).unwrap();
            let by_filter = range.filter().is_none_or(|filter| filter.matches(&entity));
            prop_assert_eq!(range.contains(entity.key()), by_filter, "{:?}", range);
            prop_assert!(range.filter().map_or(0, |filter| filter.comparisons()) <= 6);
        }
    }

    #[test]
    fn row_bounds_apply_to_the_partition_of_their_end() {
        let bound = |partition: &str, row: &str| Bound::of(partition, row).unwrap();
        let range = KeyRange { start: bound("a", "5"), end: bound("c", "5") };
        for (partition, row, within) in
            [("a", "4", false), ("a", "5", true), ("b", "9", true), ("c", "5", true), ("c", "6", false)]
        {
            assert_eq!(range.contains(&Key::new(partition, row).unwrap()), within, "{partition} {row}");
        }
        assert!(Bound::of("", "r").is_err(), "a RowKey needs its PartitionKey");
        assert_eq!(Bound::of("", "").unwrap(), None);
        assert!(KeyRange::default().is_all() && KeyRange::default().filter().is_none());
    }
}
