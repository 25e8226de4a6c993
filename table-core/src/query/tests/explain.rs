use crate::profile::ServiceProfile;
use crate::query::{Filter, Query};

fn explained(filter: &str) -> String {
    Query::new()
        .with_filter(filter.parse().unwrap())
        .explain(&ServiceProfile::AZURE_TABLES)
        .to_string()
}

#[test]
fn ranges_are_printed_in_words() {
    assert_eq!(
        explained("PartitionKey eq 'O''Hara' and RowKey ge 'S' and RowKey lt 'T'"),
        "row range of PartitionKey 'O''Hara', RowKey from 'S' before 'T'\n3 comparisons of 15"
    );
    assert_eq!(
        explained(
            "PartitionKey gt 'a' and PartitionKey le 'c' and Timestamp gt datetime'2013-01-01T00:00'"
        ),
        "partition range of PartitionKey after 'a' to 'c', RowKey any\n\
         compares Timestamp in each entity read\n3 comparisons of 15"
    );
}

#[test]
fn a_contradiction_is_shown() {
    assert_eq!(
        explained("PartitionKey eq 'a' and RowKey lt 'b' and RowKey gt 'b'"),
        "row range of PartitionKey 'a', RowKey none\n3 comparisons of 15\n\
         cheaper: no request, as nothing can match"
    );
}

#[test]
fn no_filter() {
    let explanation = Query::new().explain(&ServiceProfile::AZURE_TABLES);
    assert_eq!(
        explanation.to_string(),
        "table scan of PartitionKey any, RowKey any\n0 comparisons of 15"
    );
}

#[test]
fn the_services_limit() {
    let filter = (0..16)
        .map(|n| Filter::ne("A", n))
        .reduce(Filter::and)
        .unwrap();
    let explanation = Query::new()
        .with_filter(filter)
        .explain(&ServiceProfile::AZURE_TABLES);
    assert!(!explanation.is_within_limit());
    assert!(
        explanation
            .to_string()
            .ends_with("16 comparisons of 15: too many, refused")
    );
    let within = Query::new()
        .with_filter(Filter::ne("A", 1))
        .explain(&ServiceProfile::AZURE_TABLES);
    assert!(within.is_within_limit());
}
