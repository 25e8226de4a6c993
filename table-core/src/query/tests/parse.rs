use proptest::prelude::*;
use uuid::Uuid;

use super::arbitrary::any_filter;
use crate::error::ErrorKind;
use crate::model::{EdmValue, Entity, Ticks};
use crate::profile::ServiceProfile;
use crate::query::{AccessPath, Filter, FilterNode, KeyBounds, Query};

fn parse(text: &str) -> Filter {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[track_caller]
fn refused(text: &str, at: usize, part: &str) {
    let error = text.parse::<Filter>().expect_err(text);
    let ErrorKind::InvalidFilter { position, reason } = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(*position, at, "{text}: {reason}");
    assert!(reason.contains(part), "{text}: {reason}");
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC*") {
        let _ = text.parse::<Filter>();
    }

    #[test]
    fn any_words_are_parsed_or_refused(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "(", ")", "and", "or", "not", "eq", "lt", "a", "'x'", "'", "1", "1L", "-", ".", "e", "X'0", "guid'",
                "datetime'2013-01-01T00:00:00Z'", "\u{1F600}", "\u{0}", " ",
            ]),
            0..30,
        ),
        separator in proptest::sample::select(vec!["", " "]),
    ) {
        let _ = words.join(separator).parse::<Filter>();
    }

    #[test]
    fn truncated_text_is_refused_at_a_position_within_it(filter in any_filter(), cut in any::<proptest::sample::Index>()) {
        let text = filter.to_string();
        let cut: String = text.chars().take(cut.index(text.chars().count())).collect();
        if let Err(error) = cut.parse::<Filter>() {
            let ErrorKind::InvalidFilter { position, .. } = error.kind() else { panic!("{error}") };
            prop_assert!(*position <= cut.chars().count());
        }
    }
}

#[test]
fn and_binds_tighter_than_or_and_both_group_to_the_left() {
    let [a, b, c] = ["a", "b", "c"].map(|name| Filter::eq(name, 1));
    assert_eq!(
        parse("a eq 1 or b eq 1 and c eq 1"),
        a.clone().or(b.clone().and(c.clone()))
    );
    assert_eq!(
        parse("(a eq 1 or b eq 1) and c eq 1"),
        a.clone().or(b.clone()).and(c.clone())
    );
    assert_eq!(
        parse("a eq 1 and b eq 1 and c eq 1"),
        a.clone().and(b.clone()).and(c.clone())
    );
    assert_eq!(parse("not a eq 1 and b eq 1"), (!a.clone()).and(b.clone()));
    assert_eq!(parse("not(a eq 1)and(b eq 1)"), (!a.clone()).and(b.clone()));
    assert_eq!(parse("not not (a eq 1 or b eq 1)"), !(!a.or(b)));
}

#[test]
fn a_literal_on_the_left_mirrors_the_operator() {
    assert_eq!(parse("1 lt a"), Filter::gt("a", 1));
    assert_eq!(parse("1 le a"), Filter::ge("a", 1));
    assert_eq!(parse("1 gt a"), Filter::lt("a", 1));
    assert_eq!(parse("1 ge a"), Filter::le("a", 1));
    assert_eq!(parse("'x' eq a"), Filter::eq("a", "x"));
    assert_eq!(parse("'x' ne a"), Filter::ne("a", "x"));
}

#[test]
fn every_literal() {
    let value = |text: &str| {
        let filter = parse(&format!("a eq {text}"));
        let FilterNode::Compare { value, .. } = filter.node() else {
            panic!("{filter}")
        };
        value.clone()
    };
    let guid = "c9da6455-213d-42c9-9a79-3e9149a57833";
    assert_eq!(value("''"), EdmValue::String(String::new()));
    assert_eq!(value("'o''x'''"), EdmValue::String("o'x'".to_owned()));
    assert_eq!(value("-2147483648"), EdmValue::Int32(i32::MIN));
    assert_eq!(value("-9223372036854775808L"), EdmValue::Int64(i64::MIN));
    for double in ["1.5", "15e-1", "0.15E+1", "1.5d", "1.5D", "1.50"] {
        assert_eq!(value(double), EdmValue::Double(1.5), "{double}");
    }
    assert_eq!(value("2."), EdmValue::Double(2.0));
    assert_eq!(value(".5"), EdmValue::Double(0.5));
    assert_eq!(value("2d"), EdmValue::Double(2.0));
    assert_eq!(value("INF"), EdmValue::Double(f64::INFINITY));
    assert_eq!(value("-INF"), EdmValue::Double(f64::NEG_INFINITY));
    assert_eq!(value("true"), EdmValue::Boolean(true));
    assert_eq!(value("false"), EdmValue::Boolean(false));
    assert_eq!(
        value(&format!("guid'{guid}'")),
        EdmValue::Guid(Uuid::try_parse(guid).unwrap())
    );
    assert_eq!(value("X'0aFF'"), EdmValue::Binary(vec![0x0A, 0xFF]));
    assert_eq!(value("binary''"), EdmValue::Binary(Vec::new()));
}

#[test]
fn date_times_with_and_without_seconds_decimals_and_zone() {
    let expected = |text: &str| Filter::eq("a", text.parse::<Ticks>().unwrap());
    for (literal, utc) in [
        ("2013-01-01T05:15", "2013-01-01T05:15:00Z"),
        ("2013-01-01T05:15:30", "2013-01-01T05:15:30Z"),
        ("2013-01-01T05:15:30.5", "2013-01-01T05:15:30.5Z"),
        (
            "2013-01-01T05:15:30.1234567Z",
            "2013-01-01T05:15:30.1234567Z",
        ),
        ("2013-01-01T05:15:30-05:00", "2013-01-01T10:15:30Z"),
    ] {
        assert_eq!(
            parse(&format!("a eq datetime'{literal}'")),
            expected(utc),
            "{literal}"
        );
    }
    for wrong in [
        "",
        "2013-01-01",
        "2013-01-01 05:15:00Z",
        "2013-02-30T00:00:00Z",
        "2013-01-01T05:15:30.12345678Z",
    ] {
        refused(&format!("a eq datetime'{wrong}'"), 5, "is not a DateTime");
    }
}

#[test]
fn a_property_alone_is_a_boolean() {
    assert_eq!(parse("IsActive"), Filter::eq("IsActive", true));
    let (every, none) = (
        Filter::ge("PartitionKey", ""),
        Filter::lt("PartitionKey", ""),
    );
    assert_eq!(parse("true"), every);
    assert_eq!(
        parse("(true and a eq 1) or not (false)"),
        every.and(Filter::eq("a", 1)).or(!none)
    );
    assert_eq!(
        parse("not IsActive and (b)"),
        (!Filter::eq("IsActive", true)).and(Filter::eq("b", true))
    );
}

#[test]
fn errors_have_the_right_position() {
    refused(
        "",
        0,
        "expected a property, a literal, 'not' or '(', found the end",
    );
    refused("a eq", 4, "expected a property or a literal, found the end");
    refused("a EQ 1", 2, "expected an operator");
    refused(
        "a eq 1 AND b eq 2",
        7,
        "expected 'and', 'or' or the end, found 'AND'",
    );
    refused("(a eq 1", 7, "expected ')', found the end");
    refused("a eq 1)", 6, "found ')'");
    refused("\u{1F600}a eq 1", 0, "unexpected character");
    refused("a eq '\u{1F600}' nor", 9, "found 'nor'");
    refused("a eq 'x", 5, "no closing quote");
    refused("a eq b", 5, "a literal on the other");
    refused("1 eq 1", 5, "a property on one side");
    refused("and eq 1", 0, "found 'and'");
    refused("a eq null", 5, "there is no null");
    refused(
        "startswith(a, 'x')",
        10,
        "no functions such as 'startswith'",
    );
    refused("5", 1, "expected an operator");
}

#[test]
fn errors_of_literals_show_the_right_form() {
    refused("a eq 2147483648", 5, "write 2147483648L");
    refused("a eq 9223372036854775808L", 5, "does not fit an Edm.Int64");
    refused("a eq 1e999", 5, "write INF");
    refused("a eq 1.5f", 5, "write for example");
    refused("a eq 1x", 5, "is not a number");
    refused("a eq -inf", 5, "is not a number");
    refused("a eq 1e5.5", 5, "is not a number");
    refused("a eq X'0'", 5, "pairs");
    refused("a eq X'+1'", 5, "pairs");
    refused(
        "a eq guid'c9da6455213d42c99a793e9149a57833'",
        5,
        "8-4-4-4-12",
    );
    refused(
        "a eq Datetime'2013-01-01T00:00:00Z'",
        5,
        "unknown literal type 'Datetime'",
    );
}

#[test]
fn excessive_nesting_and_length_are_refused() {
    refused(&"(".repeat(100_000), 100, "parentheses");
    refused(&"not ".repeat(100_000), 404, "parentheses");
    refused(
        &vec!["a"; 100_000].join(" or "),
        5000,
        "more than 1000 comparisons",
    );
    assert_eq!(
        parse(&format!("{}a{}", "(".repeat(100), ")".repeat(100))),
        Filter::eq("a", true)
    );
    let deepest = parse(&format!("{}a", "not ".repeat(100)));
    assert_eq!(parse(&deepest.to_string()), deepest);
    assert_eq!(parse(&vec!["a"; 1000].join(" and ")).comparisons(), 1000);
}

#[test]
fn names_that_would_change_the_filters_meaning_are_refused() {
    assert!(Filter::eq("\u{C9}t\u{E9}_1", 1).check_names().is_ok());
    for name in ["", "a eq 1 or b", "1a", "not", "eq", "INF", "a-b"] {
        let error = Filter::eq("a", 1)
            .and(Filter::eq(name, 1))
            .check_names()
            .unwrap_err();
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
}

/// At the parser's maximum depth, and one level deeper, for each way that a filter can be deep.
#[test]
fn filters_built_by_code_have_the_limits_of_parsed_ones() {
    let leaf = || Filter::eq("a", 1);
    let nots = |n: usize| (0..n).fold(leaf(), |filter, _| !filter);
    let ors = |n: usize| (1..n).fold(leaf(), |filter, _| filter.or(leaf()));
    let ors_from_the_right = |n: usize| (1..n).fold(leaf(), |filter, _| leaf().or(filter));
    let zigzag = |n: usize| (0..n).fold(leaf(), |filter, _| filter.or(leaf()).and(leaf()));
    for good in [nots(100), ors(1000), ors_from_the_right(102), zigzag(100)] {
        good.check_size().unwrap();
        assert_eq!(parse(&good.to_string()), good);
    }
    for bad in [nots(101), ors(1001), ors_from_the_right(103), zigzag(101)] {
        assert!(bad.check_size().unwrap_err().is_limit_exceeded());
        assert!(bad.to_string().parse::<Filter>().is_err());
    }
}

/// On a stack of 256 KiB, which recursion per level would exceed many times.
#[test]
fn an_extremely_deep_filter_does_not_overflow_the_stack() {
    let run = || {
        let leaf = || Filter::eq("A", 1);
        let ors = (1..100_000).fold(leaf(), |filter, _| filter.or(leaf()));
        let from_the_right = (1..100_000).fold(leaf(), |filter, _| leaf().or(filter));
        let ands = (1..100_000).fold(leaf(), |filter, _| filter.and(leaf()));
        let nots = (0..10_000).fold(leaf(), |filter, _| !filter);
        let zigzag = (0..50_000).fold(leaf(), |filter, _| !filter.or(leaf()).and(leaf()));
        let entity = Entity::new("p", "r").unwrap().with("A", 1);
        for (filter, holds) in [
            (ors, true),
            (from_the_right, true),
            (ands, true),
            (nots, true),
            (zigzag, false),
        ] {
            let copy = filter.clone();
            assert!(copy == filter && filter != leaf());
            assert!(filter.check_size().is_err() && filter.check_names().is_ok());
            assert!(format!("{filter} {filter:?}").len() < 400);
            assert_eq!(filter.matches(&entity), holds);
            let query = Query::new().with_filter(filter);
            assert_eq!(query.bounds(), KeyBounds::ALL);
            assert_eq!(query.access_path(), AccessPath::TableScan);
            assert!(query.cheaper_plan().is_none());
            query.explain(&ServiceProfile::LOCAL);
            let checked = crate::engine::check_query(&ServiceProfile::LOCAL, &query);
            assert!(checked.unwrap_err().is_limit_exceeded());
        }
    };
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}
