use std::ops::Bound::{self, Excluded, Included, Unbounded};

use proptest::prelude::*;

use super::arbitrary::{entity, key_filter, key_text};
use crate::query::{Filter, KeyBounds, Query, Range};

fn bounds(filter: &str) -> KeyBounds {
    Query::new().with_filter(filter.parse().unwrap()).bounds()
}

fn range(from: Bound<&str>, to: Bound<&str>) -> Range {
    Range {
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    }
}

fn edge() -> impl Strategy<Value = Bound<String>> {
    prop_oneof![
        key_text().prop_map(Included),
        key_text().prop_map(Excluded),
        Just(Unbounded)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_match_is_within_the_bounds(filter in key_filter(), entity in entity()) {
        let matches = filter.matches(&entity);
        let bounds = Query::new().with_filter(filter).bounds();
        prop_assert!(!matches || bounds.contains(entity.key()), "{bounds:?}");
        prop_assert!(!matches || !bounds.is_empty());
    }

    #[test]
    fn ranges_intersect_and_surround(
        edges in (edge(), edge(), edge(), edge()),
        text in key_text(),
    ) {
        let (a, b) = (Range { from: edges.0, to: edges.1 }, Range { from: edges.2, to: edges.3 });
        let both = a.contains(&text) && b.contains(&text);
        let either = a.contains(&text) || b.contains(&text);
        prop_assert_eq!(a.clone().intersect(b.clone()).contains(&text), both);
        prop_assert!(!either || a.clone().hull(b.clone()).contains(&text));
        prop_assert!(!(a.is_empty() && a.contains(&text)));
    }
}

#[test]
fn conjunctions_intersect() {
    let found = bounds(
        "PartitionKey eq 'p' and RowKey ge 'a' and A eq 1 and RowKey lt 'c' and RowKey gt 'a'",
    );
    assert_eq!(found.partition, Range::single("p"));
    assert_eq!(found.row, range(Excluded("a"), Excluded("c")));
}

#[test]
fn an_or_gives_the_range_around_both_sides() {
    let found = bounds("PartitionKey eq 'p' and (RowKey eq '322' or RowKey eq '121')");
    assert_eq!(found.partition.as_single(), Some("p"));
    assert_eq!(found.row, range(Included("121"), Included("322")));
    assert_eq!(bounds("PartitionKey eq 'a' or A eq 1"), KeyBounds::ALL);
}

#[test]
fn not_negates_the_comparison_of_a_key() {
    assert_eq!(
        bounds("not (RowKey lt 'b')").row,
        range(Included("b"), Unbounded)
    );
    assert_eq!(bounds("not (RowKey ne 'b')").row, Range::single("b"));
    assert_eq!(
        bounds("not (RowKey lt 'b' or RowKey ge 'c')").row,
        range(Included("b"), Excluded("c"))
    );
    assert_eq!(bounds("not (A lt 'b')"), KeyBounds::ALL);
    assert_eq!(bounds("not (RowKey lt 1)"), KeyBounds::ALL);
}

#[test]
fn contradictions_are_empty() {
    assert!(bounds("RowKey eq 'a' and RowKey eq 'b'").is_empty());
    assert!(bounds("PartitionKey gt 'a' and PartitionKey lt 'a'").is_empty());
    assert!(bounds("RowKey eq 'a\0'").is_empty());
    assert_eq!(
        bounds("(RowKey lt 'a' and RowKey gt 'b') or RowKey eq 'x'").row,
        Range::single("x")
    );
}

#[test]
fn a_bound_with_a_zero_character_is_cut() {
    assert_eq!(
        bounds("RowKey lt 'a\0b'").row,
        range(Unbounded, Included("a"))
    );
    assert_eq!(
        bounds("RowKey ge 'a\0b'").row,
        range(Excluded("a"), Unbounded)
    );
}

#[test]
fn a_prefix_is_a_range() {
    let query = Query::new().with_filter(Filter::starts_with("RowKey", "ab"));
    assert_eq!(query.bounds().row, range(Included("ab"), Excluded("ac")));
}
