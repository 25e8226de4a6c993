use proptest::prelude::*;

use super::arbitrary::{entity, key_filter};
use crate::model::{Entity, Key};
use crate::query::{AccessPath, Filter, Plan, Query};

fn query(filter: &str) -> Query {
    Query::new().with_filter(filter.parse().unwrap())
}

/// Returns the keys that `query` finds, in the order of a store's result.
fn answer(query: &Query, entities: &[Entity]) -> Vec<Key> {
    let matches = |e: &&Entity| query.filter.as_ref().is_none_or(|f| f.matches(e));
    entities
        .iter()
        .filter(matches)
        .map(|e| e.key().clone())
        .collect()
}

fn answer_of_plan(plan: &Plan, entities: &[Entity]) -> Vec<Key> {
    match plan {
        Plan::Points(keys) => keys
            .iter()
            .filter(|k| entities.iter().any(|e| e.key() == *k))
            .cloned()
            .collect(),
        Plan::Ranges(queries) => queries.iter().flat_map(|q| answer(q, entities)).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_plan_has_the_same_result_in_the_same_order(
        filter in key_filter(),
        entities in proptest::collection::vec(entity(), 0..40),
    ) {
        let mut entities = entities;
        entities.sort_by(|a, b| a.key().cmp(b.key()));
        entities.dedup_by(|a, b| a.key() == b.key());
        let query = Query::new().with_filter(filter);
        if let Some(plan) = query.cheaper_plan() {
            prop_assert_eq!(answer_of_plan(&plan, &entities), answer(&query, &entities), "{}", plan);
        }
    }

    #[test]
    fn a_plan_is_cheaper_and_within_the_limit(filter in key_filter()) {
        let comparisons = filter.comparisons();
        let query = Query::new().with_filter(filter);
        if let Some(Plan::Ranges(queries)) = query.cheaper_plan() {
            for part in queries {
                prop_assert!(part.access_path() < query.access_path(), "{part:?}");
                prop_assert!(part.filter.unwrap().comparisons() <= comparisons.max(15));
            }
        }
    }
}

#[track_caller]
fn points(filter: &str, keys: &[(&str, &str)]) {
    let keys = keys.iter().map(|(p, r)| Key::new(p, r).unwrap()).collect();
    assert_eq!(query(filter).cheaper_plan(), Some(Plan::Points(keys)));
}

#[track_caller]
fn ranges(filter: &str, parts: &[&str]) {
    let parts = parts.iter().map(|part| query(part)).collect();
    assert_eq!(query(filter).cheaper_plan(), Some(Plan::Ranges(parts)));
}

#[test]
fn an_or_of_row_keys_is_point_reads() {
    points(
        "PartitionKey eq 'S' and (RowKey eq '322' or RowKey eq '121' or RowKey eq '322')",
        &[("S", "121"), ("S", "322")],
    );
    points(
        "PartitionKey eq 'S' and RowKey gt 'b' and (RowKey eq 'a' or RowKey eq 'c')",
        &[("S", "c")],
    );
}

#[test]
fn an_or_of_whole_keys_is_point_reads() {
    let filter = "PartitionKey eq 'b' and RowKey eq '1' or PartitionKey eq 'a' and RowKey eq '2'";
    points(filter, &[("a", "2"), ("b", "1")]);
}

#[test]
fn an_or_of_ranges_becomes_disjoint_queries() {
    ranges(
        "PartitionKey eq 'S' and (RowKey ge 'x' or RowKey ge 'a' and RowKey lt 'c' or RowKey ge 'b' and RowKey lt 'd')",
        &[
            "PartitionKey eq 'S' and (RowKey ge 'a' and RowKey lt 'd') and (RowKey lt 'c' or RowKey ge 'b')",
            "PartitionKey eq 'S' and RowKey ge 'x'",
        ],
    );
}

#[test]
fn an_or_of_partitions_is_partition_scans() {
    ranges(
        "(PartitionKey eq 'b' or PartitionKey eq 'a') and A gt 1",
        &[
            "PartitionKey eq 'a' and A gt 1",
            "PartitionKey eq 'b' and A gt 1",
        ],
    );
}

#[test]
fn rows_of_several_partitions_stay_in_one_query() {
    // Two queries would return the rows of one range in every partition before those of the other.
    ranges(
        "PartitionKey lt 'b' and (RowKey eq '1' or RowKey eq '3') or PartitionKey eq 'c'",
        &[
            "PartitionKey lt 'b' and (RowKey eq '1' or RowKey eq '3')",
            "PartitionKey eq 'c'",
        ],
    );
}

#[test]
fn other_conditions_are_kept_with_their_keys() {
    ranges(
        "PartitionKey eq 'S' and (RowKey eq '1' and A eq 1 or RowKey eq '2' and B eq 2)",
        &[
            "PartitionKey eq 'S' and RowKey eq '1' and A eq 1",
            "PartitionKey eq 'S' and RowKey eq '2' and B eq 2",
        ],
    );
}

#[test]
fn a_contradiction_needs_no_request() {
    points("PartitionKey eq 'a' and PartitionKey eq 'b'", &[]);
    points(
        "PartitionKey eq 'a' and (RowKey eq 'x/y' or RowKey eq 'z?')",
        &[],
    );
    assert_eq!(
        query("PartitionKey eq 'a' and PartitionKey eq 'b'")
            .cheaper_plan()
            .unwrap()
            .to_string(),
        "no request, as nothing can match"
    );
}

#[test]
fn projection_and_top_are_kept() {
    let mut asked = query("PartitionKey eq 'S' and (RowKey lt '1' or RowKey gt '2')").with_top(7);
    asked.select = Some(crate::query::Select::new(["A"]));
    let Some(Plan::Ranges(parts)) = asked.cheaper_plan() else {
        panic!("two ranges")
    };
    assert!(
        parts
            .iter()
            .all(|part| part.top == Some(7) && part.select == asked.select)
    );
}

#[test]
fn without_a_cheaper_way_there_is_no_plan() {
    for filter in [
        "PartitionKey eq 'a' and RowKey eq 'b'",
        "PartitionKey eq 'a' and RowKey ge 'b'",
        "PartitionKey eq 'a' and RowKey ne 'b'",
        "PartitionKey eq 'a' and (RowKey eq 'b' or A eq 1)",
        "PartitionKey eq 'a' or A eq 1",
        "RowKey eq 'a' or RowKey eq 'b'",
        "A eq 1",
    ] {
        assert_eq!(query(filter).cheaper_plan(), None, "{filter}");
    }
    assert_eq!(Query::new().cheaper_plan(), None);
}

#[test]
fn overlapping_partitions_give_no_plan() {
    let filter =
        "PartitionKey eq 'b' and RowKey eq '1' or PartitionKey lt 'c' and PartitionKey gt 'a'";
    assert_eq!(query(filter).access_path(), AccessPath::TableScan);
    assert_eq!(query(filter).cheaper_plan(), None);
}

#[test]
fn too_many_parts_give_no_plan() {
    let keys = |name: &str| {
        let one_of = (0..40).map(|n| Filter::eq(name, n.to_string().as_str()));
        one_of.reduce(Filter::or).unwrap()
    };
    let all = Query::new().with_filter(keys("PartitionKey").and(keys("RowKey")));
    assert_eq!(all.cheaper_plan(), None);
}

#[test]
fn a_plan_that_the_service_refuses_is_not_returned() {
    let beside = (0..12)
        .map(|n| Filter::ne("A", n))
        .reduce(Filter::and)
        .unwrap();
    let keys = query("PartitionKey eq 'S' and (RowKey eq 'a' or RowKey gt 'a')");
    assert!(keys.cheaper_plan().is_some());
    assert_eq!(keys.with_filter(beside).cheaper_plan(), None);
}

#[test]
fn advice_lists_the_first_parts() {
    let plan =
        query("PartitionKey eq 'S' and (RowKey eq '1' or RowKey eq '2' or RowKey eq '3' or RowKey eq '4''')")
            .cheaper_plan()
            .unwrap();
    assert_eq!(plan.requests(), 4);
    assert_eq!(
        plan.to_string(),
        "4 point reads: ('S', '1'); ('S', '2'); ('S', '3'); and 1 more"
    );
}
