use crate::query::{AccessPath, Query};

use AccessPath::*;

fn path(filter: &str) -> AccessPath {
    Query::new()
        .with_filter(filter.parse().unwrap())
        .access_path()
}

#[test]
fn access_paths_follow_the_design_guide() {
    assert_eq!(path("(PartitionKey eq 'Sales') and (RowKey eq '2')"), Point);
    assert_eq!(
        path("PartitionKey eq 'Sales' and RowKey ge 'S' and RowKey lt 'T'"),
        RowRange
    );
    assert_eq!(
        path("PartitionKey eq 'Sales' and LastName eq 'Smith'"),
        PartitionScan
    );
    assert_eq!(path("LastName eq 'Jones'"), TableScan);
    assert_eq!(path("RowKey eq '2'"), TableScan);
    assert_eq!(
        path("PartitionKey ge 'S' and PartitionKey lt 'T' and RowKey eq '2'"),
        PartitionRange
    );
    assert_eq!(Query::new().access_path(), TableScan);
}

#[test]
fn an_or_of_keys_is_a_scan() {
    assert_eq!(
        path("PartitionKey eq 'Sales' and (RowKey eq '121' or RowKey eq '322')"),
        PartitionScan
    );
    assert_eq!(
        path("PartitionKey eq 'a' or PartitionKey eq 'b'"),
        TableScan
    );
    assert_eq!(
        path("(PartitionKey eq 'a' and RowKey eq '1') or (PartitionKey eq 'a' and RowKey eq '2')"),
        TableScan
    );
}

#[test]
fn other_conditions_do_not_change_the_path() {
    assert_eq!(
        path("PartitionKey eq 'a' and RowKey gt 'b' and (A eq 1 or not (B eq 2))"),
        RowRange
    );
    assert_eq!(path("PartitionKey eq 'a' and RowKey ne 'b'"), PartitionScan);
    assert_eq!(path("PartitionKey ne 'a'"), TableScan);
    assert_eq!(path("PartitionKey eq 1"), TableScan);
}

#[test]
fn one_key_in_two_comparisons_is_one_key() {
    assert_eq!(
        path("PartitionKey ge 'a' and PartitionKey le 'a' and 'x' eq RowKey"),
        Point
    );
}
