//! Stores every flight of the bundled data with further patterns than `flights`.

use crate::support;

#[test]
fn every_pattern_returns_the_flights() {
    let output = support::succeed("flights_patterns", &[]);
    let found: Vec<&str> = output
        .lines()
        .filter_map(|line| line.split_once(" table requests: "))
        .map(|l| l.1)
        .collect();
    // 589 hours have a departure; 155 flights have no tail number.
    let expected = [
        "27004 flights of 31 days in 8 buckets each, in order",
        "27004 records in 589 blobs",
        "planes and flights in full groups",
        "26849 flights of 3148 planes",
        "3322 planes, 26849 flights, 155 of a third type",
        "22525 flights counted in 3322 planes",
        "22525 flights of 32 manufacturers",
        "27004 flights moved by 271 transactions",
    ];
    assert_eq!(found.len(), expected.len(), "{output}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}
