//! Ranges of keys in signatures.

use std::cmp::Ordering;
use std::ops::Bound as End;

use table_core::model::{Key, SYSTEM_PREFIX, key_order};
use table_core::query::{KeyBounds, Range};

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
                Ok(Some(Self {
                    partition: partition.to_owned(),
                    row,
                }))
            }
        }
    }

    /// Returns the RowKeys from the bound on, in its partition.
    fn rows_from(&self) -> Range {
        self.row.clone().map_or(Range::ALL, |row| Range {
            from: End::Included(row),
            ..Range::ALL
        })
    }

    /// Returns the RowKeys up to the bound, in its partition.
    fn rows_to(&self) -> Range {
        self.row.clone().map_or(Range::ALL, |row| Range {
            to: End::Included(row),
            ..Range::ALL
        })
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

    /// Whether the range contains the key. No range contains a partition of the library.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        !key.partition().starts_with(SYSTEM_PREFIX)
            && self
                .start
                .as_ref()
                .is_none_or(|start| start.compare(key).is_ge())
            && self.end.as_ref().is_none_or(|end| end.compare(key).is_le())
    }

    /// Returns the same range without the keys before this one.
    pub(crate) fn starting_at(&self, key: &Key) -> Self {
        let (partition, row) = (key.partition().to_owned(), Some(key.row().to_owned()));
        let later = self
            .start
            .as_ref()
            .is_none_or(|start| start.compare(key).is_ge());
        let start = if later {
            Some(Bound { partition, row })
        } else {
            self.start.clone()
        };
        Self {
            start,
            end: self.end.clone(),
        }
    }

    /// Returns the range as bounds that follow each other. A scan within one of them visits no key outside the range: a RowKey of the
    /// range belongs to the partition of its end, so the first and the last partition have bounds of their own.
    ///
    /// No bound has a partition of the library. They are after the letters, so a range with an open end would contain them.
    pub(crate) fn segments(&self) -> Vec<KeyBounds> {
        let in_partition = |partition: &str, row: Range| KeyBounds {
            partition: Range::single(partition),
            row,
        };
        if let (Some(start), Some(end)) = (&self.start, &self.end) {
            match key_order::compare(&start.partition, &end.partition) {
                Ordering::Less => {}
                Ordering::Equal => {
                    let rows = start.rows_from().intersect(end.rows_to());
                    return without_system_partitions([in_partition(&start.partition, rows)]);
                }
                Ordering::Greater => return Vec::new(),
            }
        }
        let (mut first, mut last, mut between) = (None, None, Range::ALL);
        if let Some(start) = &self.start {
            let partition = start.partition.clone();
            if start.row.is_some() {
                first = Some(in_partition(&partition, start.rows_from()));
                between.from = End::Excluded(partition);
            } else {
                between.from = End::Included(partition);
            }
        }
        if let Some(end) = &self.end {
            let partition = end.partition.clone();
            if end.row.is_some() {
                last = Some(in_partition(&partition, end.rows_to()));
                between.to = End::Excluded(partition);
            } else {
                between.to = End::Included(partition);
            }
        }
        let between = KeyBounds {
            partition: between,
            row: Range::ALL,
        };
        without_system_partitions(first.into_iter().chain([between]).chain(last))
    }
}

/// Returns what remains of the bounds without the partitions of the library.
fn without_system_partitions(bounds: impl IntoIterator<Item = KeyBounds>) -> Vec<KeyBounds> {
    let before = Range {
        to: End::Excluded(SYSTEM_PREFIX.to_owned()),
        ..Range::ALL
    };
    // The prefix has an end, because it does not consist of the last character.
    let end = key_order::key_prefix_end(SYSTEM_PREFIX).unwrap_or_default();
    let after = Range {
        from: End::Included(end),
        ..Range::ALL
    };
    let parts = bounds.into_iter().flat_map(|bounds| {
        [&before, &after].map(|part| KeyBounds {
            partition: bounds.partition.clone().intersect(part.clone()),
            row: bounds.row.clone(),
        })
    });
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        let texts = vec![
            "",
            "a",
            "b",
            "ba",
            "c",
            "~",
            "~~",
            "~~m",
            "~\u{A1}",
            "\u{E000}",
            "\u{1F600}",
        ];
        prop::sample::select(texts).prop_map(str::to_owned)
    }

    fn bound() -> impl Strategy<Value = Option<Bound>> {
        let bound = (text(), proptest::option::of(text()))
            .prop_map(|(partition, row)| Bound { partition, row });
        proptest::option::of(bound)
    }

    proptest! {
        #[test]
        fn the_segments_are_equivalent_to_the_range(start in bound(), end in bound(), partition in text(), row in text()) {
            let range = KeyRange { start, end };
            let key = Key::new(&*partition, &*row).unwrap();
            let found = range.segments().iter().filter(|bounds| bounds.contains(&key)).count();
            prop_assert_eq!(usize::from(range.contains(&key)), found, "{:?}", range);
        }

        #[test]
        fn segments_follow_each_other_and_a_scan_of_one_visits_its_keys_only(start in bound(), end in bound(), key in (text(), text()), other in (text(), text())) {
            let range = KeyRange { start, end };
            let (key, other) = (Key::new(&*key.0, &*key.1).unwrap(), Key::new(&*other.0, &*other.1).unwrap());
            let segments = range.segments();
            for bounds in &segments {
                // A scan over several partitions reads all rows of each.
                prop_assert!(bounds.partition.as_single().is_some() || bounds.row == Range::ALL, "{:?}", bounds);
            }
            let place = |key: &Key| segments.iter().position(|bounds| bounds.contains(key));
            if let (Some(a), Some(b)) = (place(&key), place(&other)) {
                prop_assert!(key > other || a <= b, "{:?}: {} {}", range, key, other);
            }
        }

        #[test]
        fn a_range_from_a_key_has_the_keys_of_the_range_from_it_on(start in bound(), end in bound(), from in (text(), text()), key in (text(), text())) {
            let range = KeyRange { start, end };
            let (from, key) = (Key::new(&*from.0, &*from.1).unwrap(), Key::new(&*key.0, &*key.1).unwrap());
            prop_assert_eq!(range.starting_at(&from).contains(&key), range.contains(&key) && key >= from, "{:?} {}", range, key);
        }
    }

    #[test]
    fn row_bounds_apply_to_the_partition_of_their_end() {
        let bound = |partition: &str, row: &str| Bound::of(partition, row).unwrap();
        let range = KeyRange {
            start: bound("a", "5"),
            end: bound("c", "5"),
        };
        for (partition, row, within) in [
            ("a", "4", false),
            ("a", "5", true),
            ("b", "9", true),
            ("c", "5", true),
            ("c", "6", false),
        ] {
            assert_eq!(
                range.contains(&Key::new(partition, row).unwrap()),
                within,
                "{partition} {row}"
            );
        }
        assert!(
            Bound::of("", "r").is_err(),
            "a RowKey needs its PartitionKey"
        );
        assert_eq!(Bound::of("", "").unwrap(), None);
        assert!(KeyRange::default().is_all());
        assert!(
            !KeyRange::default().contains(&Key::new("~~manifest", "table").unwrap()),
            "the end is open"
        );
    }
}
