use proptest::prelude::*;

use crate::error::ErrorKind;
use crate::model::TableName;
use crate::profile::ServiceProfile;
use crate::query::{Continuation, Filter, Position, Query, Select};

const AZURE_TABLES: ServiceProfile = ServiceProfile::AZURE_TABLES;

fn table(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

fn query() -> Query {
    Query::new()
        .with_filter(Filter::eq("A", 1))
        .with_select(Select::new(["A", "B"]))
}

fn position() -> Position {
    Position {
        first: "p".to_owned(),
        second: Some("r".to_owned()),
    }
}

#[track_caller]
fn refused(result: crate::Result<impl std::fmt::Debug>) {
    let error = result.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidContinuation(_)),
        "{error}"
    );
}

proptest! {
    #[test]
    fn text_survives_a_round_trip(first in any::<String>(), second in any::<Option<String>>()) {
        let position = Position { first, second };
        let continuation = Continuation::new(&AZURE_TABLES, &table("Flights"), &query(), position.clone());
        let text = continuation.to_string();
        prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{text}");
        let read: Continuation = text.parse().unwrap();
        prop_assert_eq!(read.position(&AZURE_TABLES, &table("Flights"), &query()).unwrap(), &position);
    }

    #[test]
    fn truncated_or_extended_text_is_another_position_or_refused(cut in 0..40_usize, more in "[A-Za-z0-9_-]{1,4}") {
        let whole = Continuation::new(&AZURE_TABLES, &table("Flights"), &query(), position());
        let text = whole.to_string();
        let cut = &text[..cut.min(text.len() - 1)];
        for changed in [cut.to_owned(), format!("{text}{more}")] {
            if let Ok(other) = changed.parse::<Continuation>() {
                prop_assert_ne!(other, whole.clone());
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*", bytes in "[A-Za-z0-9_-]{0,40}") {
        for text in [text, bytes] {
            if let Ok(continuation) = text.parse::<Continuation>() {
                prop_assert_eq!(continuation.to_string(), text);
            }
        }
    }
}

#[test]
fn invalid_text_is_refused() {
    for text in ["", "!", "AQ", "AQ==", "a b", "\u{1F600}"] {
        refused(text.parse::<Continuation>());
    }
}

#[test]
fn another_version_is_refused() {
    // The first character has the first 6 bits of the version: this sets them to 0b101.
    let text =
        Continuation::new(&AZURE_TABLES, &table("Flights"), &query(), position()).to_string();
    assert!(text.starts_with("AQ") || text.starts_with("AR"), "{text}");
    refused(format!("B{}", &text[1..]).parse::<Continuation>());
}

#[test]
fn a_continuation_belongs_to_its_table_filter_and_projection() {
    let continuation = Continuation::new(&AZURE_TABLES, &table("Flights"), &query(), position());
    refused(continuation.position(&AZURE_TABLES, &table("Weather"), &query()));
    refused(continuation.position(
        &AZURE_TABLES,
        &table("Flights"),
        &query().with_filter(Filter::eq("B", 1)),
    ));
    refused(continuation.position(
        &AZURE_TABLES,
        &table("Flights"),
        &query().with_select(Select::new(["A"])),
    ));
    refused(continuation.position(&AZURE_TABLES, &table("Flights"), &Query::new()));
    refused(continuation.tables_position(None));
}

#[test]
fn the_page_size_may_change_and_the_case_of_the_table() {
    let continuation = Continuation::new(&AZURE_TABLES, &table("Flights"), &query(), position());
    assert_eq!(
        continuation
            .position(&AZURE_TABLES, &table("flights"), &query().with_top(3))
            .unwrap(),
        &position()
    );
}

#[test]
fn the_case_of_the_table_counts_if_the_service_distinguishes_it() {
    let cosmos = ServiceProfile::COSMOS_TABLE;
    let continuation = Continuation::new(&cosmos, &table("Flights"), &query(), position());
    assert_eq!(
        continuation
            .position(&cosmos, &table("Flights"), &query())
            .unwrap(),
        &position()
    );
    refused(continuation.position(&cosmos, &table("flights"), &query()));
}

#[test]
fn a_listing_belongs_to_its_prefix() {
    let continuation = Continuation::of_tables(Some("log"), position());
    assert_eq!(
        continuation.tables_position(Some("log")).unwrap(),
        &position()
    );
    refused(continuation.tables_position(Some("l")));
    refused(continuation.tables_position(None));
    refused(continuation.position(&AZURE_TABLES, &table("log"), &Query::new()));
}
